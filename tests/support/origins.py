"""Scripted origins: which bytes a request is answered with, and when."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.testing import Peer, RecordedRequest, Script

from .client import answer

EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")
"""The head of a chunked event stream."""
FRESH = "Cache-Control: max-age=60"
JSON = "Content-Type: application/json"
EVENT_STREAM = "Content-Type: text/event-stream; charset=utf-8"
CHUNKED = "Transfer-Encoding: chunked"

Says = Callable[[int, RecordedRequest], bytes]


@dataclass(frozen=True)
class Arrival:
    """A request that came whole, its body included."""

    head: RecordedRequest
    body: bytes


@dataclass
class Recorder:
    """An origin that answers each request once all of it is here, and keeps what came."""

    arrivals: list[Arrival] = field(default_factory=list)
    response: bytes = answer("Content-Length: 2", body=b"ok")

    @property
    def bodies(self) -> list[bytes]:
        return [arrival.body for arrival in self.arrivals]

    async def __call__(self, peer: Peer) -> None:
        while True:
            head = await peer.request()
            self.arrivals.append(Arrival(head, await peer.read_body()))
            # What a HEAD is answered with has no body.
            whole = self.response
            await peer.send(whole if head.method != "HEAD" else whole[: whole.index(b"\r\n\r\n") + 4])


@contextmanager
def refusing() -> Iterator[str]:
    """The URL of an origin that refuses connections. The port stays taken, so that no other server is given it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def whole_stream(stream: bytes, *fields: str) -> bytes:
    """A response that is the event stream `stream`, in one chunk."""
    return answer(EVENT_STREAM, CHUNKED, *fields, body=chunk(stream) + b"0\r\n\r\n")


def once(data: bytes) -> Script:
    """Answer every request of a connection with the same bytes, and then close."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(data)

    return script


def says(data: bytes, *, then: str = "close") -> Script:
    """An origin that answers with `data` and then closes, resets or stalls."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        await end(peer, then)

    return script


async def end(peer: Peer, how: str) -> None:
    """End the connection of `peer`, or say nothing more until it leaves."""
    if how == "reset":
        peer.reset()
    elif how == "close":
        peer.close()
    else:
        assert how == "stall"
        await peer.stall()


@dataclass
class Steps:
    """An origin that sends a head and then the next piece whenever the test says so."""

    head: bytes
    pieces: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(self.head)
        while (piece := await self.pieces.get()) is not None:
            await peer.send(piece)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class ChunkSteps:
    """An origin that sends a head, and then the next piece whenever the test says so; None ends the connection."""

    def __init__(self, *pieces: bytes, head: bytes = EVENTS) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.head = head
        for piece in pieces:
            self.put(piece)

    def put(self, data: bytes) -> None:
        """Send `data` as a chunk."""
        self.pieces.put_nowait(chunk(data))

    def end(self) -> None:
        self.pieces.put_nowait(b"0\r\n\r\n")

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(self.head)
        while (piece := await self.pieces.get()) is not None:
            await peer.send(piece)


class Model:
    """An origin that sends a token when it is told to."""

    def __init__(self) -> None:
        self.requests = 0
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        self.requests += 1
        await peer.send(EVENTS)
        while piece := await self.pieces.get():
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await peer.send(b"0\r\n\r\n")

    def send(self, text: str) -> None:
        self.pieces.put_nowait(text.encode())

    def end(self) -> None:
        self.pieces.put_nowait(b"")


class NumberedOrigin:
    """Answers each request with what `says` makes of its number, from 1 on, and its head.

    Requests whose number is in `held` are answered once `go` is set.
    """

    def __init__(self, says: Says, *held: int) -> None:
        self.requests: list[RecordedRequest] = []
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        """A request has come that is held back."""
        self._says = says
        self._held = set(held)

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            self.requests.append(request)
            number = len(self.requests)
            response = self._says(number, request)
            if number in self._held:
                self.asked.set()
                await self.go.wait()
            await peer.send(response)

    def hold(self, number: int) -> None:
        """Hold that request back as well."""
        self._held.add(number)

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]


def numbered(*fields: str) -> Says:
    """The body is the request's number."""

    def says(number: int, request: RecordedRequest) -> bytes:
        body = str(number).encode()
        head = answer(*(fields or (FRESH,)), f"Content-Length: {len(body)}")
        return head if request.method == "HEAD" else head + body

    return says


def always(*fields: str, body: bytes = b"0123456789") -> Says:
    def says(_number: int, request: RecordedRequest) -> bytes:
        head = answer(*fields, f"Content-Length: {len(body)}")
        return head if request.method == "HEAD" else head + body

    return says
