"""Leaving a body to the engine: after the head, frames go from its memory to the client without Python.

It works where the client's socket is the engine's (`penstock.web.Site`). The handler is done when it has handed
over; `RelayEnd` says, later and once, what became of it. Elsewhere Python sends the frames (`body`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from penstock import _native
from penstock._limited_log import LimitedLog
from penstock.exceptions import PenstockError
from penstock.serving.faults import log_failed_relay
from penstock.stats import Timings
from penstock.stream import FrameStream, Response, register_pipe

from .inspection import Inspected, inspected

__all__ = [
    "Asked",
    "Handover",
    "OnComplete",
    "RelayEnd",
    "Rest",
    "call_on_complete",
    "can_hand_over",
    "engines",
    "hand_over",
    "hand_over_topic",
    "timings_of",
]

_log: Final = LimitedLog(logging.getLogger("penstock.web"))


@dataclass(frozen=True, slots=True)
class RelayEnd:
    """What became of a relay, or of a request on a native route."""

    status: int | None
    """The status that the client was sent, or None if it was sent none of this response: there was no head, or nothing
    of it had left yet. The error says what it was answered with, if it was there."""
    bytes: int
    """Payload that was sent to the client."""
    timings: Timings | None
    """How long each stage took at the origin; None without a head."""
    error: BaseException | None
    """Why it ended before its end: what the origin did, CLIENT_GONE, or what was raised in the handler."""
    method: str = ""
    """Of the request."""
    path: str = ""
    """Path and query as the client has sent them."""
    client: str | None = None
    """The address of the client; None on a Unix socket."""
    tenant: str | None = None
    """On whose account it was, as the relay or the route says."""
    inspected: Inspected | None = None
    """What was seen of the response; None where it was not inspected, or there was none."""


OnComplete = Callable[[RelayEnd], object]


_End = tuple[int | None, int, Response | None, BaseException | None]
"""Status, bytes, the origin's response, and the error."""


class Asked(NamedTuple):
    """What the end says of the request."""

    method: str
    path: str
    client: str | None
    tenant: str | None
    inspector: _native.Inspector | _native.Expected | None

    def seen_by(self, inspector: _native.Inspector | _native.Expected) -> "Asked":
        """The same, of a response that is inspected."""
        return self._replace(inspector=inspector)

    def end(
        self, status: int | None, sent: int, upstream: Response | None, error: BaseException | None
    ) -> RelayEnd:
        """The end of its relay."""
        seen = None if self.inspector is None else inspected(self.inspector.report())
        return RelayEnd(
            status, sent, timings_of(upstream), error, self.method, self.path, self.client, self.tenant, seen
        )

    def tell(self, on_complete: OnComplete | None, end: _End, *, reads_on: bool = False) -> None:
        """Say how a relay has ended that was not handed over: of one that was, the engine says it.

        Where the engine reads on without the client, that is when it has: the usage comes at the very end.
        """

        def tell() -> None:
            if on_complete is not None or self.inspector is not None:
                ended = self.end(*end)
                if on_complete is not None:
                    call_on_complete(on_complete, ended)

        self.when_seen(tell, reads_on=reads_on)

    def when_seen(self, tell: Callable[[], None], *, reads_on: bool = False) -> None:
        """Call `tell` when the inspection has ended: at once, unless another task reads the response on."""
        inspector = self.inspector
        if isinstance(inspector, _native.Expected):
            # In front of the end of what the parent has sent it has said what it has seen.
            reads_on = not inspector.is_over()
        if inspector is not None and reads_on:
            inspector.over().add_done_callback(lambda _: tell())
        else:
            tell()


class Handover:
    """A body that the engine is sending."""

    __slots__ = ("_asked", "_on_end", "_outcome", "_status", "_upstream")

    def __init__(self, asked: Asked, status: int) -> None:
        # Neither the request nor the upstream: for hours there may be thousands that no code asks about.
        self._asked = asked
        self._status = status
        self._upstream: Response | None = None
        self._on_end: list[OnComplete] | None = None
        self._outcome: tuple[int, PenstockError | None, bool] | None = None

    @property
    def end(self) -> RelayEnd | None:
        """The end, once it has come."""
        if self._outcome is None:
            return None
        sent, error, begun = self._outcome
        return self._asked.end(self._status if begun else None, sent, self._upstream, error)

    @property
    def is_awaited(self) -> bool:
        """Whether an end without an error is of use to anything."""
        return self._on_end is not None or self._asked.inspector is not None

    def when_over(self, callback: OnComplete, upstream: Response | None = None) -> None:
        """Have `callback` called with the end. With `upstream`, it is told the timings."""
        if upstream is not None:
            self._upstream = upstream
        if self._on_end is None:
            self._on_end = []
        self._on_end.append(callback)

    async def over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the end."""
        ended: asyncio.Future[None] = loop.create_future()

        def end(_: RelayEnd) -> None:
            if not ended.done():
                ended.set_result(None)

        self.when_over(end)
        await ended

    def __call__(self, sent: int, error: PenstockError | None, begun: bool) -> None:
        """Take the end from the engine, which keeps this and not a method of it: it does so for hours."""
        if error is not None:
            level = logging.DEBUG if error.name == "CLIENT_GONE" else logging.WARNING
            log_failed_relay(level, f"{self._asked.method} {_native.shown(self._asked.path)}", error)
        self._asked.when_seen(partial(self._end, sent, error, begun))

    def _end(self, sent: int, error: PenstockError | None, begun: bool) -> None:
        self._outcome = (sent, error, begun)
        if self._asked.inspector is not None:
            # It is over and is counted, whether or not any code asks.
            self._asked.inspector.report()
        end = self.end if self._on_end else None
        if end is not None:
            for callback in self._on_end or ():
                call_on_complete(callback, end)


@dataclass(slots=True, eq=False)
class Rest:
    """How the engine sends the rest of a response. Not frozen: one is made for each response."""

    policy: _native.EventPolicy | None
    """What is done with events besides."""
    inspector: _native.Inspector | None
    """What sees it."""
    on_end: Handover
    """Told the end."""
    is_awaited: bool
    """Whether it is told an end without an error: each end that is told wakes the event loop."""
    account: bytes | None
    """In a worker process: by which the parent has another worker told the end if this one is gone by then."""


def call_on_complete(on_complete: OnComplete, end: RelayEnd) -> None:
    """Call what is told an end. What it raises is logged: the request is over, and others are told as well."""
    try:
        on_complete(end)
    except Exception as error:  # noqa: BLE001 (it is the application's)
        cause = ("on_complete", type(error))
        message = "%s %s: its on_complete has failed"
        _log.log(logging.ERROR, cause, message, end.method, _native.shown(end.path), error=error)


def timings_of(upstream: Response | None) -> Timings | None:
    """The timings of a response that has a head."""
    return None if upstream is None else _native.timings_of(upstream)


def engines(transport: object) -> _native.Transport | None:
    """`transport` if it is the engine's."""
    return transport if isinstance(transport, _native.Transport) else None


def can_hand_over(writer: object, transport: object) -> _native.Transport | None:
    """The transport, if the engine can send the rest of what `writer` has begun on it."""
    plain = hasattr(writer, "_eof") and getattr(writer, "_compress", writer) is None
    return engines(transport) if plain else None


def hand_over(
    stream: FrameStream,
    writer: Any,
    transport: _native.Transport,
    rest: Rest,
) -> None:
    """Let the engine send all of `stream` by `rest`, after the head of `writer`.

    Raises:
        ConnectionResetError: the client left.
        StateError: the stream is closed.
    """
    writer.send_headers()
    transport.attach_rest(stream, rest)
    # aiohttp ends the response when the handler returns: there is nothing left for it to write.
    writer._eof = True  # noqa: SLF001


def hand_over_topic(
    admission: _native.Admission, writer: Any, transport: _native.Transport, handover: Handover
) -> None:
    """Let the engine serve a subscriber that was admitted to a topic, after the head of `writer`.

    Raises:
        ConnectionResetError: the client left.
    """
    writer.send_headers()
    transport.attach_topic(admission, handover)
    # As in `hand_over`.
    writer._eof = True  # noqa: SLF001


def pipe(stream: FrameStream, target: object) -> Coroutine[Any, Any, int] | None:
    """Have the engine send all of `stream` as a part of a prepared response; None if it cannot."""
    writer = getattr(target, "_payload_writer", None)
    transport = can_hand_over(writer, getattr(writer, "transport", None))
    return None if transport is None else _pipe(stream, writer, transport)


register_pipe(pipe)


async def _pipe(stream: FrameStream, writer: Any, transport: _native.Transport) -> int:
    """Have the engine send all of `stream` as the next part of a body. Returns the number of bytes.

    Raises:
        PenstockError: the stream failed, or is longer than the Content-Length; the client is cut off.
        ConnectionResetError: the client left.
    """
    writer.send_headers()
    sent: int = await transport.attach_part(stream)
    if writer.length is not None:
        writer.length -= sent
    writer.output_size += sent
    return sent
