"""What the two processes of an upgrade say to each other, over a socket that keeps messages apart (SOCK_SEQPACKET).

A message is an object of JSON: `message` is its name, and the others are its fields. Some have descriptors beside them.
The one before is the process that serves, the next is the one that takes its place:

    next → before   hello   it is there, and speaks these protocols
    before → next   offer   what it listens to, with the descriptors; several, if there are many
    before → next   keys    what the keys of its session tickets are derived from
    before → next   secret  what keys of decisions are made with
    next → before   hub     it has a hub of that name, which is to follow the one here, over the socket beside it;
                            without such a hub that is closed
    next → before   ready   it listens to all that it is configured to, and accepts nothing yet
    before → next   counters  what its metrics have counted, in a file of memory; at its end what they have since
    before → next   take    it accepts no more, and still could
    next → before   taken   it accepts
    before → next   decided what hooks have decided about requests of some routes, and what tenants have had, in a file
                            of memory; at its end what tenants have had since
    before → next   records what the cache has in memory, some at a time, in a file of memory
    next → before   room    whether it could take more
    before → next   stream  a stream of events between two events, with the descriptors of its client and its origin
    before → next   subscriber  the same of a hub, with the descriptor of its client
    next → before   have    it could go on with that stream, and does not read or write it yet; or refuse: it could not
    before → next   go      the streams of these numbers are the next one's
    next → before   begun   it goes on with them
    before → next   done    no stream is left that moves; what is under way here is drained
    before → next   clients with the descriptors of connections on which no request is under way; again and again
    either → other  revoke  decisions were revoked, and are to be revoked there too; at any time after `take`

What the hubs say to each other is in the engine (`hub/link`). After `taken` those of the next process lead.

The one before neither reads nor writes a stream from before it says `stream`, unless it hears `refuse`, or the next one
dies before it is told `go`. The next one goes on with what it was sent by `stream` when it is told to, or when the one
before ends.

Either may say `abort` instead, before `done`; the one before serves on then. An end of the socket is the death of the
other process: the one before serves on, unless it has said `done`; the next one serves in place of the dead one.
"""

import json
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, get_args

from penstock._shapes import misfit

__all__ = [
    "DECISIONS",
    "DESCRIPTORS",
    "HUBS",
    "LENGTH",
    "OLDEST",
    "PROTOCOL",
    "REVOCATIONS",
    "Abort",
    "Begun",
    "Clients",
    "Counters",
    "Decided",
    "Done",
    "Go",
    "Have",
    "Hello",
    "Hub",
    "InheritedPlace",
    "Keys",
    "Message",
    "Offer",
    "Ready",
    "Records",
    "Refuse",
    "Revoke",
    "Room",
    "Secret",
    "Stream",
    "Subscriber",
    "Take",
    "Taken",
    "TicketKey",
    "UnreadableError",
    "closing_all",
    "dump",
    "fits",
    "load",
    "receive",
    "send",
]

PROTOCOL: Final = 4
"""The protocol that is spoken here. A change that an older process would misunderstand has a number of its own."""
OLDEST: Final = 1
"""The oldest that is spoken here as well: without `hub` and `subscriber`, which came with 2, `revoke`, with 3, and
`secret`, `decided` and `counters`, with 4."""
HUBS: Final = 2
"""The first with `hub` and `subscriber`."""
REVOCATIONS: Final = 3
"""The first with `revoke`."""
DECISIONS: Final = 4
"""The first with `secret`, `decided` and `counters`."""
LENGTH: Final = 64 << 10
"""Bytes of a message at most."""
DESCRIPTORS: Final = 64
"""Descriptors beside a message at most. Linux takes 253."""


class UnreadableError(Exception):
    """What has come is no message of this protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The next process is there."""

    protocols: tuple[int, int]
    """The lowest and the highest protocol that it speaks."""
    version: str
    """Of penstock."""
    process: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class InheritedPlace:
    """A socket that the first process was started with."""

    number: int
    """The descriptor that it was."""
    name: str
    """The name that the service manager gave it; empty without one."""
    place: str
    """Where it listens: an address with its port, or `unix:` and a path."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the process before listens to. A descriptor for each of `places` is beside it, in their order."""

    protocol: int
    """The protocol that is spoken from now on."""
    version: str
    """Of penstock."""
    places: tuple[str, ...]
    """Addresses with their ports, or `unix:` and a path."""
    inherited: tuple[InheritedPlace, ...]
    """Those of them that have names or numbers in the configuration."""
    more: bool
    """Another offer follows."""


@dataclass(frozen=True, slots=True)
class TicketKey:
    """A secret that keys of session tickets are derived from. Times are seconds since 1970."""

    period: float
    """Seconds for which it seals."""
    secret: str = field(repr=False)
    """In hexadecimal digits."""
    made: float
    until: float
    """When it opens no ticket any more."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The random secrets of the session tickets of the process before, of each period the newest first."""

    keys: tuple[TicketKey, ...]


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of the process before that keys of decisions are made with."""

    secret: str = field(repr=False)
    """In hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub of the next process is to follow that of the process before. A socket between them is beside it."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The next process listens to all that it is configured to."""


@dataclass(frozen=True, slots=True)
class Take:
    """The process before accepts no more; accept now."""


@dataclass(frozen=True, slots=True)
class Counters:
    """By how much samples of metrics have grown. The descriptor of a file with them is beside it."""

    count: int
    """How many."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The next process accepts."""


@dataclass(frozen=True, slots=True)
class Done:
    """No stream is left that moves. The process before drains what is under way there."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Connections on which no request is under way. The process before has read nothing that it has not answered."""

    count: int
    """How many descriptors are beside it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of a hook, and what tenants have had. The descriptor of a file with them is beside it."""

    routes: tuple[str, ...]
    """The names of the routes, after the name of a host and a space where a route has one."""
    parts: tuple[str, ...]
    """The parts of a request that the hook decides by; empty where tokens decide."""
    decisions: int
    """How many."""
    tenants: int
    """How many."""


@dataclass(frozen=True, slots=True)
class Records:
    """Stored responses. The descriptor of a file with them is beside it, in the format of a cache's disk."""

    count: int


@dataclass(frozen=True, slots=True)
class Room:
    """The next process has taken records."""

    is_left: bool
    """Whether there is room for more."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of events that relays an origin. The descriptors of its client and of its origin are beside it."""

    number: int
    """By which it is spoken of."""
    request: str
    """The head of the client's request, with a character for each byte."""
    response: str
    """The head of the origin's response, with a character for each byte."""
    sent: int
    """Bytes that the client was sent after the head of its response, with their framing."""
    payload: int
    """Bytes of the body among them."""
    elapsed: float
    """Seconds since the request came."""
    first_byte: float
    """Seconds from the request to the head of the response."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscriber of a hub. The descriptor of its client is beside it."""

    number: int
    """By which it is spoken of, among the streams."""
    request: str
    """The head of its request, with a character for each byte."""
    after: str
    """The id of the event before its place in its topic."""
    has_had: bool
    """Whether it was sent an event."""
    sent: int
    """Bytes that it was sent after the head of its response, with their framing."""
    payload: int
    """Bytes of the body among them."""
    elapsed: float
    """Seconds since its request came."""
    first_byte: float
    """Seconds from the request to the head of the response."""


@dataclass(frozen=True, slots=True)
class Have:
    """The next process could go on with a stream."""

    number: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The next process cannot go on with a stream."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Go:
    """Streams are the next process's."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """The next process goes on with streams."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Decisions about requests were revoked: all of some routes, or those of a key or of a tenant."""

    routes: tuple[str, ...]
    """Their names, after the name of a host and a space where a route has one."""
    key: tuple[str | None, ...] | None
    """What the requests have for each part that is decided by, with a character for each byte."""
    tenant: str | None
    cut: bool
    """Whether responses that run by them end."""


@dataclass(frozen=True, slots=True)
class Abort:
    """There is no upgrade."""

    reason: str


Message = (
    Hello
    | Offer
    | Keys
    | Secret
    | Hub
    | Ready
    | Counters
    | Take
    | Taken
    | Decided
    | Records
    | Room
    | Stream
    | Subscriber
    | Have
    | Refuse
    | Go
    | Begun
    | Done
    | Clients
    | Revoke
    | Abort
)

_CLASSES: Final[dict[str, type[Message]]] = {cls.__name__.lower(): cls for cls in get_args(Message)}


def _text(message: Message) -> bytes:
    named = {"message": type(message).__name__.lower(), **asdict(message)}
    return json.dumps(named, separators=(",", ":")).encode("ascii")


def dump(message: Message) -> bytes:
    """Write a message.

    Raises:
        ValueError: it is too long.
    """
    data = _text(message)
    if len(data) > LENGTH:
        raise ValueError(f"a message of {len(data)} bytes; an upgrade takes {LENGTH} at most")
    return data


_ROWS: Final[dict[type[Message], dict[str, type]]] = {
    Offer: {"inherited": InheritedPlace},
    Keys: {"keys": TicketKey},
}
"""The fields of messages that are tuples of other dataclasses."""


def fits(message: Message) -> bool:
    """Whether a message is not too long."""
    return len(_text(message)) <= LENGTH


def load(data: bytes) -> Message:
    """Read a message.

    Raises:
        UnreadableError: it is no message, or has fields that are not known here.
    """
    if len(data) > LENGTH:
        raise UnreadableError(f"a message of more than {LENGTH} bytes")
    try:
        named = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {error}") from error
    cls = _CLASSES.get(str(named.pop("message", ""))) if isinstance(named, dict) else None
    if cls is None:
        raise UnreadableError("its name is not known here")
    made: Message = _made(cls, named)
    if isinstance(made, Offer) and len(made.places) > DESCRIPTORS:
        raise UnreadableError(f"offer: more than {DESCRIPTORS} places")
    return made


def _made(cls: Any, fields: dict[str, Any]) -> Any:
    """A `cls` with `fields`, each of which is what its annotation says."""
    name = cls.__name__.lower()
    if fields.keys() != set(cls.__dataclass_fields__):
        raise UnreadableError(f"{name}: its fields are {sorted(fields)}")
    if not all(math.isfinite(each) for each in fields.values() if isinstance(each, float)):
        raise UnreadableError(f"{name}: a number is not finite")
    values = {field: tuple(each) if isinstance(each, list) else each for field, each in fields.items()}
    for field_name, row_class in _ROWS.get(cls, {}).items():
        if isinstance(rows := values[field_name], tuple):
            values[field_name] = tuple(
                _made(row_class, row) if isinstance(row, dict) else row for row in rows
            )
    made = cls(**values)
    if wrong := misfit(cls, made):
        raise UnreadableError(f"{name}: {wrong}")
    return made


def send(link: socket.socket, message: Message, descriptors: tuple[int, ...] = (), flags: int = 0) -> None:
    """Send a message, with descriptors, which stay the caller's, and `flags` of sendmsg(2).

    Raises:
        OSError: the other process is gone, or takes nothing in the time of `link`.
    """
    socket.send_fds(link, [dump(message)], descriptors, flags)


@contextmanager
def closing_all(descriptors: list[int]) -> Iterator[None]:
    """Close `descriptors` at the end."""
    try:
        yield
    finally:
        for each in descriptors:
            socket.close(each)


def receive(link: socket.socket) -> tuple[Message, list[int]]:
    """Receive a message, and the descriptors beside it, which are the caller's.

    Raises:
        EOFError: the other process is gone.
        UnreadableError: it is no message, or not all of it and of its descriptors have come. They are closed.
        OSError: nothing has come in the time of `link`.
    """
    data, descriptors, flags, _ = socket.recv_fds(link, LENGTH + 1, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    try:
        return _checked(data, len(descriptors), flags), descriptors
    except BaseException:
        with closing_all(descriptors):
            raise


def _checked(data: bytes, descriptors: int, flags: int) -> Message:
    if not data:
        raise EOFError("the other process is gone")
    if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
        raise UnreadableError("not all of it has come")
    message = load(data)
    if descriptors != _descriptors(message):
        raise UnreadableError(f"it has {descriptors} descriptors")
    return message


def _descriptors(message: Message) -> int:
    """How many descriptors belong to a message."""
    match message:
        case Offer(places=places):
            return len(places)
        case Clients(count=count):
            return count
        case Counters() | Decided() | Records() | Hub() | Subscriber():
            return 1
        case Stream():
            return 2
    return 0
