"""Event streams move to the next process between two events, with the connections of their clients and of their origins."""

import asyncio
import itertools
import os
import re
import signal

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.origins import chunk
from support.upgrading import Line, serving
from support.waiting import in_time

MOVED = re.compile(r"(\d+) event streams have moved, and (\d+) could not")
HEADS = {
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


async def begin(line: Line, feed: Feed, method: str = "GET", *fields: str) -> RawClient:
    """A client that has had the first event of the newest stream of `feed`."""
    client = await line.connect()
    body = b"{}" if method == "POST" else b""
    await client.get("/live", f"Content-Length: {len(body)}", *fields, method=method)
    await client.send(body)
    assert (await in_time(client.head())).status == 200
    await feed.put(-1, b"data: 1\n\n")
    assert await in_time(client.chunk()) == b"data: 1\n\n"
    return client


async def upgrade(line: Line) -> tuple[int, int]:
    """Upgrade; how many streams have moved, and how many could not."""
    os.kill(line.newest, signal.SIGUSR2)
    found = await line.first.wait_for(MOVED)
    await line.upgraded()
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_stream_goes_on_in_the_next_process(framing: str, method: str) -> None:
    feed = Feed(framing)
    async with ScriptedOrigin(feed) as origin, serving("--origin", origin.url) as line:
        client = await begin(line, feed, method)
        for number in itertools.count(2):
            before = line.newest
            assert await upgrade(line) == (1, 0)
            await line.ended(before)
            event = f"id: {number}\ndata: {number}\n\n".encode()
            await feed.put(0, event)
            assert await in_time(client.chunk()) == event
            if number == 3:
                break
        await feed.end(0)
        assert await in_time(client.chunk()) == b""
        if framing == "chunked":
            # The client's connection serves again: its end was the stream's own.
            await client.get("/live")
            assert (await in_time(client.head())).status == 200
        client.abort()
        assert len(feed.peers) == (2 if framing == "chunked" else 1)
