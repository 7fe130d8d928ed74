"""What is kept of a run: enough to make its figures again, and to add those of several machines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from .plan import Arguments, workloads_of
from .scenario import Hls, Scenario, Void

__all__ = ["Kept", "UnmergeableError", "Workload", "described", "merged"]

SCHEMA: Final = 1
_RECORDS: Final = "records.json"
_SESSIONS: Final = "sessions.ndjson"


class UnmergeableError(ValueError):
    """Runs are not parts of one; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What figures need to know of a workload."""

    name: str
    plays: bool
    """Its sessions are viewers."""
    networks: tuple[str, ...]
    """The names of their networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run, or several machines' parts of one."""

    scenario: str
    """Its name."""
    arguments: Arguments
    begun: float
    """Seconds since 1970."""
    others: float | None
    """The share of the cores that other processes used."""
    workloads: tuple[Workload, ...]
    """In the order of their numbers in records."""
    void: Void
    records: Sequence[Mapping[str, Any]]
    """Of each thread; `machine` is the part that it ran for."""

    def write(self, directory: Path) -> None:
        """Write the sessions, a line each, and all else as one object.

        Raises:
            OSError: they cannot be written.
        """
        threads = [{**thread, "sessions": len(thread["sessions"])} for thread in self.records]
        told = {**asdict(replace(self, records=())), "schema": SCHEMA, "records": threads}
        (directory / _RECORDS).write_text(json.dumps(told, allow_nan=False, separators=(",", ":")) + "\n")
        with (directory / _SESSIONS).open("w") as file:
            for thread in self.records:
                for session in thread["sessions"]:
                    file.write(json.dumps(session, separators=(",", ":"), allow_nan=False) + "\n")

    @classmethod
    def read(cls, directory: Path) -> "Kept":
        """What `write` wrote.

        Raises:
            OSError: it cannot be read.
            UnmergeableError: it is something else.
        """
        try:
            told = json.loads((directory / _RECORDS).read_text())
            lines = (directory / _SESSIONS).read_text().splitlines()
            if told.pop("schema") != SCHEMA:
                raise UnmergeableError(f"{directory}: was written by another version of penstock")
            sessions: Iterator[Any] = map(json.loads, lines)
            records = [
                {**thread, "sessions": [next(sessions) for _ in range(thread["sessions"])]}
                for thread in told.pop("records")
            ]
            return cls(
                arguments=Arguments(**told.pop("arguments")),
                workloads=tuple(
                    Workload(**{**each, "networks": tuple(each["networks"])})
                    for each in told.pop("workloads")
                ),
                void=Void(**told.pop("void")),
                records=records,
                **told,
            )
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            if isinstance(error, UnmergeableError):
                raise
            raise UnmergeableError(f"{directory}: has no records of a run: {error}") from None


def described(scenario: Scenario) -> tuple[Workload, ...]:
    """The workloads of a scenario."""
    return tuple(
        Workload(
            name=name,
            plays=isinstance(each, Hls),
            networks=tuple(network.name for network in each.networks) if isinstance(each, Hls) else (),
        )
        for name, each in workloads_of(scenario)
    )


def merged(several: Sequence[Kept]) -> Kept:
    """All parts of a run as one.

    Raises:
        UnmergeableError: they are not all parts of one run, each once.
    """
    parts = sorted(several, key=lambda each: each.arguments.part)
    first = parts[0]
    whole = replace(first.arguments, part=0, parts=1)
    for each in parts:
        same = replace(each.arguments, part=0, parts=1, target=whole.target, roots=whole.roots) == whole
        if not same or (each.scenario, each.workloads) != (first.scenario, first.workloads):
            raise UnmergeableError("the runs differ in their scenario, their duration or their seed")
    count = first.arguments.parts
    found = [(each.arguments.part, each.arguments.parts) for each in parts]
    if found != [(part, count) for part in range(count)]:
        names = ", ".join(f"{part + 1}/{of}" for part, of in found)
        raise UnmergeableError(f"each part of a run is needed once: there are {names}")
    others = [each.others for each in parts if each.others is not None]
    return replace(
        first,
        arguments=whole,
        begun=min(each.begun for each in parts),
        others=max(others, default=None),
        records=[thread for each in parts for thread in each.records],
    )
