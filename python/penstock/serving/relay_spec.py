"""What a relay does, as a value: which origin it asks, under which rules, and what the client is sent.

A native route is a pattern and a `RelaySpec`, `Gateway.relay` makes one for all requests of a kind, and a worker process
describes one to its parent. The engine has the same value with the same field names (`relay_spec.rs`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from multidict import CIMultiDict

from penstock import _native
from penstock.config import Caching, Drain, EventRelay, Forwarding, Inspection, RouteLimits, Timeouts
from penstock.config.checks import is_token
from penstock.engine import Engine, native_timeouts
from penstock.exceptions import make_error
from penstock.origins import Origins, Place

__all__ = [
    "NO_EDITS",
    "Handles",
    "HeaderEdits",
    "Headers",
    "RelaySpec",
    "checked_host",
    "event_handles",
    "handle_of",
    "handles_of",
    "header_edits",
    "is_prefix",
]

Headers = Mapping[str, str | None]
"""Fields to set in place of those of the same names; None drops them."""

# What frames a message or describes one hop is the engine's to write.
_FRAMING: Final = frozenset(
    (
        *("connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    )
)


class HeaderEdits(NamedTuple):
    """Changes to the header fields of a message."""

    set: tuple[tuple[str, str | None], ...]
    """Fields in place of those of the same names; None removes them."""
    add: tuple[tuple[str, str], ...]
    """Fields after those of the same names."""

    def apply(self, fields: CIMultiDict[str]) -> None:
        """Change `fields`."""
        for name, value in self.set:
            fields.popall(name, None)
            if value is not None:
                fields.add(name, value)
        for name, value in self.add:
            fields.add(name, value)

    def names(self, name: str) -> bool:
        """Whether fields called `name` are changed."""
        return any(other.lower() == name.lower() for other, _ in (*self.set, *self.add))


NO_EDITS: Final = HeaderEdits((), ())


def header_edits(what: str, headers: Headers | None, add: Iterable[tuple[str, str]]) -> HeaderEdits:
    """Check the changes that a user has asked for in `what`.

    Raises:
        ConfigurationError: a name is no token or is the engine's own, or a value has a control character.
    """
    made = HeaderEdits(tuple((headers or {}).items()), tuple(add))
    for name, value in (*made.set, *made.add):
        if not is_token(name):
            raise make_error("BAD_CONFIGURATION", f"{what}: {name!r} is no name of a header field")
        if name.lower() in _FRAMING:
            raise make_error(
                "BAD_CONFIGURATION", f"{what}: {name} frames the message and is the engine's to write"
            )
        if value is not None and any(
            (character < " " and character != "\t") or character == "\x7f" for character in value
        ):
            raise make_error("BAD_CONFIGURATION", f"{what}: the value of {name} has a control character")
    return made


def is_prefix(text: str) -> bool:
    """Whether `text` has the form of what paths begin with: `/vod/`."""
    return text.startswith("/") and text.endswith("/")


def checked_host(prefix: str, host: str | None, rewrite: str | None = None) -> str | None:
    """Check what requests a route is for, and return the host as it is compared.

    Args:
        prefix: how their path begins.
        host: what they ask; None for any.
        rewrite: what stands in place of the prefix at the origin; None if nothing does.

    Raises:
        ConfigurationError: one of these cannot be.
    """
    if not is_prefix(prefix) or "?" in prefix or _native.has_dot_segments(prefix):
        raise make_error("BAD_CONFIGURATION", f"prefix is {prefix!r}; it must be like '/vod/'")
    if host is not None and (not host or set(host) & set("/?#@ ")):
        raise make_error("BAD_CONFIGURATION", f"host is {host!r}; it must be like 'media.example'")
    if rewrite is not None and not is_prefix(rewrite):
        raise make_error("BAD_CONFIGURATION", f"rewrite is {rewrite!r}; it must be like '/vod/'")
    return None if host is None else host.lower()


class Handles(NamedTuple):
    """The parts of a relay that one engine keeps a form of its own of."""

    origin: _native.Endpoint
    timeouts: _native.Timeouts
    drain: _native.Drain | None
    events: _native.EventPolicy | None
    caching: _native.Caching | None
    inspect: tuple[_native.Inspection, _native.Counts] | None


@dataclass(frozen=True, slots=True)
class RelaySpec:
    """A relay."""

    name: str
    """Its name in logs, and in the counts of the cache and of inspected responses."""
    origin: Place | Origins
    """Where requests are sent."""
    unix: str | None
    """Path of the Unix socket by which the origin is reached; None for TCP."""
    prefix: str
    """How the path of a request begins here."""
    replacement: str
    """How it begins at the origin."""
    forwarding: Forwarding
    """What each side is told of the other."""
    timeouts: Timeouts | None
    """Limits on time; None for those of the engine that carries it out."""
    limits: RouteLimits
    """What all of its requests may take together."""
    request: HeaderEdits
    """Changes to the header fields of requests."""
    response: HeaderEdits
    """Changes to the header fields of responses."""
    drain: Drain | None
    """How a body is read on whose client has left; None: not at all."""
    events: EventRelay | None
    """What is done with event streams besides relaying them."""
    max_event: int | None
    """Bytes of the longest event; None leaves it to the site (`config.Edge.max_event`)."""
    caching: Caching | None
    """How the engine's cache is used; None: not at all."""
    inspect: Inspection | None
    """What responses are inspected for; None: nothing."""


def handles_of(spec: RelaySpec, engine: Engine, counts: Callable[[str], _native.Counts]) -> Handles:
    """The parts of `spec` that `engine` keeps; `counts` is called with the name where inspected responses are counted.

    Raises:
        ConfigurationError: there is caching, and `engine` has no cache.
    """
    drain, events = event_handles(spec.drain, spec.events)
    # The policy has a limit of its own for the pauses of an event stream.
    lets_pause = spec.events is not None and spec.events.idle is not None
    return Handles(
        spec.origin.endpoint(engine, spec.unix),
        native_timeouts(spec.timeouts or engine.timeouts, lets_events_pause=lets_pause),
        drain,
        events,
        None if spec.caching is None else engine.caching(spec.caching, spec.name),
        None if spec.inspect is None else (handle_of(spec.inspect), counts(spec.name)),
    )


@lru_cache(maxsize=64)
def handle_of(inspection: Inspection) -> _native.Inspection:
    """The engine's form of `inspection`, which equal ones share."""
    return _native.Inspection(inspection)


def event_handles(
    drain: Drain | None, events: EventRelay | None
) -> tuple[_native.Drain | None, _native.EventPolicy | None]:
    """What the engine does with bodies whose clients leave, and with event streams; places are counted by handle."""
    every = None if drain is None else _native.Drain(drain)
    if events is None:
        return every, None
    own = every if events.drain is None else _native.Drain(events.drain)
    return every, _native.EventPolicy(events, own)
