"""Assertions about a run, for CI: `startup.p95 > 1.5s` fails a run whose startup took longer."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Assertion", "FaultyAssertionError", "figures", "parsed"]

_FORM: Final = re.compile(
    r"\s*([a-z0-9_.]+)\s*(>=|<=|>|<|==|!=)\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[a-zA-Zµ/]*)\s*"
)
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_UNITS: Final = {
    "": 1.0,
    "%": 0.01,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "bit/s": 1.0,
    "kbit/s": 1e3,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
}


class FaultyAssertionError(ValueError):
    """An assertion cannot be read, or names no figure."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a run must not be."""

    text: str
    figure: str
    compare: str
    limit: float

    def holds(self, found: Mapping[str, float]) -> str | None:
        """Why the run fails; None if it does not. A figure that the run does not have fails it.

        Raises:
            FaultyAssertionError: there is no such figure.
        """
        if self.figure not in found:
            names = ", ".join(sorted(found))
            raise FaultyAssertionError(
                f"{self.text!r}: {self.figure} is no figure of this run; it has {names}"
            )
        value = found[self.figure]
        if not _OPERATORS[self.compare](value, self.limit):
            return None
        return f"{self.text}: {self.figure} is {value:.6g}"


def parsed(text: str) -> Assertion:
    """Read an assertion: a figure, a comparison, and a number with a unit (%, s, ms, µs, kbit/s, Mbit/s).

    Raises:
        FaultyAssertionError: it has another form.
    """
    match = _FORM.fullmatch(text)
    if match is None or match[4] not in _UNITS:
        raise FaultyAssertionError(f"{text!r}: must be like 'startup.p95 > 1.5s' or 'rebuffer > 0.5%'")
    return Assertion(text.strip(), match[1], match[2], float(match[3]) * _UNITS[match[4]])


def figures(summary: Mapping[str, Any]) -> dict[str, float]:
    """The figures that assertions may name: those of viewers, `errors`, and others by their place in the summary."""
    found: dict[str, float] = {}
    for name in ("sessions", "requests", "generator"):
        _flatten(name, summary[name], found)
    _flatten("", summary["qoe"], found)
    _flatten("", summary.get("events", {}), found)
    for name, each in summary["workloads"].items():
        _flatten(name, each, found)
    found["errors"] = float(sum(error["count"] for error in summary["errors"]))
    asked = sum(each["count"] for each in summary["requests"].values())
    if asked + found["errors"]:
        found["error_ratio"] = found["errors"] / (asked + found["errors"])
    return found


def _flatten(prefix: str, value: object, found: dict[str, float]) -> None:
    if isinstance(value, Mapping):
        for name, each in value.items():
            _flatten(f"{prefix}.{name}" if prefix else name, each, found)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found[prefix] = float(value)
