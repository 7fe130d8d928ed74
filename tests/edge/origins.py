"""Origins that several tests of the edge need."""

import asyncio
from dataclasses import dataclass, field

from penstock.testing import Peer, RecordedRequest, Script
from support.client import answer


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

    async def __call__(self, peer: Peer) -> None:
        while True:
            head = await peer.request()
            self.arrivals.append(Arrival(head, await peer.read_body()))
            # What a HEAD is answered with has no body.
            whole = self.response
            await peer.send(whole if head.method != "HEAD" else whole[: whole.index(b"\r\n\r\n") + 4])


def once(data: bytes) -> Script:
    """Answer every request of a connection with the same bytes, and then close."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(data)

    return script


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
