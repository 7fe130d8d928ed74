"""The cases of tests/data/request_smuggling.json as bytes, and what must become of each behind a native route."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock import config
from penstock.web.target import has_dot_segments

_DATA: Final = json.loads((Path(__file__).parent.parent / "data" / "request_smuggling.json").read_text())

LIMITS: Final = config.Edge(
    line_bytes=_DATA["limits"]["line"],
    head_bytes=_DATA["limits"]["head"],
    head_fields=_DATA["limits"]["fields"],
    chunk_extension_bytes=_DATA["limits"]["chunk_extensions"],
    trailer_bytes=_DATA["limits"]["trailers"],
)


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in data)


@dataclass(frozen=True)
class Expected:
    """A request as the RFC reads it."""

    method: str
    target: str
    authority: str
    body: bytes

    @property
    def has_route(self) -> bool:
        """Whether the route `/` is asked for: neither paths with dot segments nor `*` are."""
        return self.target.startswith("/") and not has_dot_segments(self.target)


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    sent: bytes
    requests: tuple[Expected, ...]
    refusal: tuple[str, int] | None
    """Code and status of what is answered after the requests."""
    closes: bool
    """Whether the connection ends behind the last request without the client's doing."""


def _case(case: dict[str, Any]) -> Case:
    then = case["then"]
    return Case(
        case["name"],
        case["group"],
        _text(case["bytes"]).encode("latin-1"),
        tuple(
            Expected(
                r["method"], _text(r["target"]), _text(r["authority"]), _text(r["body"]).encode("latin-1")
            )
            for r in case["requests"]
        ),
        (then["code"], then["status"]) if isinstance(then, dict) else None,
        then == "close",
    )


CASES: Final = tuple(_case(case) for case in _DATA["cases"])
GROUPS: Final = sorted({case.group for case in CASES})
