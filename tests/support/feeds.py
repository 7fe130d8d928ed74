"""Origins of event streams that give an event when a test says so."""

import asyncio
from typing import Final

from penstock.testing import Peer

from .client import RawClient
from .origins import chunk
from .waiting import in_time

HEADS: Final = {
    "chunked": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
}


class Feed:
    """An origin whose streams each give what they are told to, and that counts its requests."""

    def __init__(self, framing: str = "chunked") -> None:
        self.framing = framing
        self.peers: list[Peer] = []
        self.ends: list[asyncio.Event] = []

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await self.begin(peer)

    async def begin(self, peer: Peer) -> None:
        """Answer a request that has come."""
        end = asyncio.Event()
        await peer.send(HEADS[self.framing])
        self.peers.append(peer)
        self.ends.append(end)
        await end.wait()

    async def put(self, at: int, data: bytes) -> None:
        await self.peers[at].send(chunk(data) if self.framing == "chunked" else data)

    async def end(self, at: int) -> None:
        if self.framing == "chunked":
            await self.peers[at].send(b"0\r\n\r\n")
        self.ends[at].set()


async def goes_on(client: RawClient, feed: Feed) -> None:
    """The client of the first stream is sent what its origin sends, to its end."""
    await feed.put(0, b"data: 2\n\n")
    assert await in_time(client.chunk()) == b"data: 2\n\n"
    await feed.end(0)
    assert await in_time(client.chunk()) == b""
    client.abort()


async def begin(port: int, feed: Feed, method: str = "GET") -> RawClient:
    """A client that has had the first event of the newest stream of `feed`."""
    client = await RawClient.connect(port)
    body = b"{}" if method == "POST" else b""
    await client.get("/live", "Accept: text/event-stream", f"Content-Length: {len(body)}", method=method)
    await client.send(body)
    assert (await in_time(client.head())).status == 200
    await feed.put(-1, b"data: 1\n\n")
    assert await in_time(client.chunk()) == b"data: 1\n\n"
    return client
