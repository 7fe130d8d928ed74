"""Origins whose whole responses are followed by bytes that no request asked for, in packets of the test's choice."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.testing import Peer

from .client import RawClient, Reply, answer

FORGED = answer("Content-Length: 6", "Cache-Control: max-age=60", body=b"forged")
STRAYS = {"a line end": b"\r\n", "junk": b"more", "a forged response": FORGED}
CHUNKED = answer("Transfer-Encoding: chunked", "Cache-Control: max-age=60")
NEXT = answer("Content-Length: 4", "Cache-Control: no-store", body=b"next")


class Kind(NamedTuple):
    """A response whose end its head tells, and what it is to the client."""

    response: bytes
    status: int
    body: bytes
    method: str = "GET"
    fields: tuple[str, ...] = ()


KINDS = {
    "length": Kind(answer("Content-Length: 5", "Cache-Control: max-age=60", body=b"hello"), 200, b"hello"),
    "chunked": Kind(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", 200, b"hello"),
    "trailers": Kind(CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", 200, b"hello"),
    "HEAD": Kind(answer("Content-Length: 5"), 200, b"", "HEAD"),
    "204": Kind(answer(status="204 No Content"), 204, b""),
    "304": Kind(answer('ETag: "a"', status="304 Not Modified"), 304, b"", fields=('If-None-Match: "a"',)),
    "206": Kind(
        answer(
            "Content-Range: bytes 0-4/9", "Content-Length: 5", status="206 Partial Content", body=b"hello"
        ),
        206,
        b"hello",
        fields=("Range: bytes=0-4",),
    ),
    "interim": Kind(
        answer("Link: x", status="103 Early Hints") + answer("Content-Length: 5", body=b"hello"),
        200,
        b"hello",
    ),
    "events": Kind(
        answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        + b"9\r\ndata: x\n\n\r\n0\r\n\r\n",
        200,
        b"data: x\n\n",
    ),
}


@dataclass
class Stray:
    """Answers the first request of all with `kind` and the stray bytes, and every other one with `NEXT`.

    `first` bytes are in the first packet; the rest follows at once, or when `over` is set.
    """

    kind: Kind
    stray: bytes
    first: int
    waits: bool
    over: asyncio.Event = field(default_factory=asyncio.Event)
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, peer: Peer) -> None:
        if not self.over.is_set() and not self.sent.is_set():
            await peer.request()
            data = self.kind.response + self.stray
            await peer.send(data[: self.first])
            if self.waits:
                await self.over.wait()
            try:
                if self.first < len(data):
                    await peer.send(data[self.first :])
            finally:
                self.sent.set()
        while True:
            await peer.request()
            await peer.read_body()
            await peer.send(NEXT)


def strays(kind: Kind) -> Iterator[tuple[str, Stray]]:
    """All of one kind, and what each is."""
    whole = len(kind.response)
    for name, stray in STRAYS.items():
        end = whole + len(stray)
        for first in sorted({whole - 1, whole, whole + 1, (whole + end) // 2, end - 1, end}):
            for waits in (False, True) if whole <= first < end else (False,):
                what = f"{name}, {first - whole} bytes beyond, {'after the response' if waits else 'at once'}"
                yield what, Stray(kind, stray, first, waits)


async def ask(client: RawClient, kind: Kind) -> Reply:
    """Its final response."""
    await client.get("/", *kind.fields, method=kind.method)
    head = await client.head()
    while head.status < 200:
        head = await client.head()
    return Reply(head, await client.body(head, kind.method))


async def meet_nothing(what: str, *clients: RawClient) -> None:
    """No request meets what was left over, not even one that is never sent twice."""
    for client in clients:
        for method in ("POST", "GET"):
            reply = await client.ask("/", "Content-Length: 0", method=method)
            assert (reply.head.status, reply.body) == (200, b"next"), what
