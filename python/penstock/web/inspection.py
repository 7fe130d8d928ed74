"""What was seen of responses on their way, for Python: of one in the end, and of all those of a route.

The engine counts, times and searches (`config.Inspection`); here a usage is parsed, once for a response.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from aiohttp import web

from penstock import _native
from penstock.config import Caching, Inspection
from penstock.engine import Engine
from penstock.exceptions import make_error
from penstock.serving.relay_spec import Headers
from penstock.stats import InspectionStats

__all__ = [
    "Inspected",
    "Seen",
    "check_one",
    "inspected",
    "plain_headers",
    "route_path",
]

_ACCEPT_ENCODING: Final = "Accept-Encoding"

# They would be those of another body.
_DIGESTS: Final = ("Content-Digest", "Content-MD5", "Digest", "Repr-Digest")


# Of a whole number: 128 bits have 39.
_DIGITS: Final = 64


@dataclass(frozen=True, slots=True)
class Inspected:
    """What was seen of a response. Times are seconds."""

    content: Literal["events", "json", "other"]
    """What it was, by its Content-Type. In what is neither events nor JSON no usage is looked for."""
    amended: bool
    """Whether the request was changed, by `config.Inspection.amend`."""
    events: int
    """Events that a browser would have dispatched; comments and heartbeats do not count."""
    bytes: int
    """Bytes of the body as they came from the origin."""
    first_token: float | None
    """From when the origin was asked to the first token; None if there was none."""
    longest_gap: float | None
    """The longest time between two tokens that followed one another; None if there were not two."""
    total: float
    """From when the origin was asked to the end, however it came."""
    usage: dict[str, Any] | None
    """The usage that the origin has reported, parsed; None if it has reported none."""
    hidden: Literal["encoded", "too_large"] | None
    """Why a usage may have been there and not have been seen: the response had a content coding, though it was asked for
    without, or was larger than `config.Inspection.max_response`, or a usage had more than 4096 bytes."""


class Seen(NamedTuple):
    """How the responses of a route are inspected, and where that is counted."""

    inspection: _native.Inspection
    counts: _native.Counts
    max_request: int
    report: Callable[[InspectionStats], None] | None = None
    """Told the stats of `counts` when the response has ended, where another process has the route's."""

    def inspector(self, engine: Engine, amended: bool, near: _native.Transport | None) -> _native.Inspector:
        """What will see the response to a request that is sent now."""
        return _native.Inspector(engine.native, self.inspection, self.counts, amended, near)


def inspected(report: _native.Report | None) -> Inspected | None:
    """What the engine reports, if it does, with the usage parsed."""
    if report is None:
        return None
    usage = report.usage
    return Inspected(
        content=report.content,
        amended=report.amended,
        events=report.events,
        bytes=report.bytes,
        first_token=report.first_token,
        longest_gap=report.longest_gap,
        total=report.total,
        # The engine has checked that it is an object, whole and of no great depth.
        usage=None if usage is None else json.loads(usage, parse_int=_whole),
        hidden=report.hidden,
    )


def _whole(digits: str) -> int | float:
    """A whole number of JSON. Of more digits than any count has it is a float: Python reads no int of over 4,300."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def plain_headers(headers: Headers | None, inspection: Inspection | None) -> Headers | None:
    """`headers` for an origin whose responses are inspected.

    Raises:
        ConfigurationError: they say how the response is to be coded.
    """
    if inspection is None:
        return headers
    if headers is not None and any(name.lower() == _ACCEPT_ENCODING.lower() for name in headers):
        raise make_error(
            "BAD_CONFIGURATION", f"{_ACCEPT_ENCODING} is set, and inspect needs it to be identity"
        )
    digests = _DIGESTS if inspection.amend is not None else ()
    return {**(headers or {}), _ACCEPT_ENCODING: "identity", **dict.fromkeys(digests)}


def check_one(caching: Caching | None, inspect: Inspection | None, who: str) -> None:
    """Refuse that `who` has both.

    Raises:
        ConfigurationError: it has.
    """
    if caching is not None and inspect is not None:
        raise make_error(
            "BAD_CONFIGURATION", f"{who} has caching and inspect: what is stored costs the origin nothing"
        )


def route_path(request: web.Request) -> str:
    """The path of the route that `request` is handled by; a plain server has none."""
    match = getattr(request, "match_info", None)
    resource = None if match is None else match.route.resource
    return "" if resource is None else resource.canonical
