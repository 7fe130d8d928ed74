"""Event streams: every event is sent when it is whole, every byte passes, and what is coded stays as it is."""

import asyncio
import zlib

import pytest

import penstock
from penstock.testing import Peer, ScriptedOrigin
from support.client import Head, RawClient, answer

from .conftest import Connect
from .server import Serving

STREAM = ("Content-Type: text/event-stream", "Transfer-Encoding: chunked")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Steps:
    """An origin that sends one piece at a time: the next when the test has said so, the end after the last."""

    def __init__(self, *pieces: bytes, fields: tuple[str, ...] = STREAM) -> None:
        self.pieces = pieces
        self.fields = fields
        self.go_on = asyncio.Semaphore(0)

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(*self.fields))
        for piece in self.pieces:
            await self.go_on.acquire()
            await peer.send(chunk(piece))
        await self.go_on.acquire()
        await peer.send(b"0\r\n\r\n")


async def piece(client: RawClient, head: Head, size: int) -> bytes:
    """The next `size` bytes of the body, sent together where the client can see it."""
    if head.one("Transfer-Encoding") is None:
        return await client.reader.readexactly(size)
    return await client.chunk()


EVENTS = {
    "data": b"data: token\n\n",
    "fields": b"id: 1\nevent: tick\ndata: a\ndata: b\nretry: 10\n\n",
    "CRLF": b"data: x\r\n\r\n",
    "heartbeat": b": ping\n\n",
    "blank lines before": b"\n\n: x\n\n",
    "UTF-8": "data: é\n\n".encode(),
    "no UTF-8": b"data: \xff\n\n",
    "nothing to dispatch": b"event: only\n\n",
    "large": b"data: " + b"x" * 100_000 + b"\n\n",
}


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_each_event_passes_before_the_next_is_there(
    serving: Serving, connect: Connect, version: str
) -> None:
    """In lock step: an event that were held back would be waited for for ever."""
    source = Steps(*EVENTS.values())
    async with ScriptedOrigin(source) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get(version=version)
        head = await client.head()
        assert head.one("Content-Type") == "text/event-stream"
        assert (head.one("Transfer-Encoding") is None) == (version == "1.0")
        for name, event in EVENTS.items():
            source.go_on.release()
            assert await received(client, head, len(event)) == event, name
        source.go_on.release()
        assert await client.rest() == b"" if version == "1.0" else await client.chunk() == b""


async def received(client: RawClient, head: Head, size: int) -> bytes:
    """`size` bytes, in as many chunks as it takes: an event that is longer than a read may come in several."""
    data = b""
    while len(data) < size:
        data += await piece(client, head, size)
    return data


async def test_an_event_is_not_sent_before_it_is_whole(serving: Serving, connect: Connect) -> None:
    """A client that lost the connection within an event would have half of one in its buffer, and a blank line
    of the next stream would make it a whole one."""
    source = Steps(b"data: one\n\ndata: t", b"wo\n", b"\n")
    async with ScriptedOrigin(source) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get()
        await client.head()
        source.go_on.release()
        assert await client.chunk() == b"data: one\n\n"
        source.go_on.release()
        source.go_on.release()
        assert await client.chunk() == b"data: two\n\n"
        source.go_on.release()
        assert await client.chunk() == b""


async def test_a_burst_of_events_passes_whole(serving: Serving, connect: Connect) -> None:
    burst = b"".join(b"id: %d\ndata: %s\n\n" % (number, b"x" * (number % 300)) for number in range(5000))
    source = Steps(burst)
    async with ScriptedOrigin(source) as origin:
        client = await connect(await serving.gateway(origin.url))
        source.go_on.release()
        source.go_on.release()
        assert (await client.ask()).body == burst


async def test_what_follows_the_last_blank_line_passes(serving: Serving, connect: Connect) -> None:
    """A client drops it, as the standard says; that is not the gateway's to do."""
    source = Steps(b"data: whole\n\n", b"data: unfinished")
    async with ScriptedOrigin(source) as origin:
        client = await connect(await serving.gateway(origin.url))
        for _ in range(3):
            source.go_on.release()
        assert (await client.ask()).body == b"data: whole\n\ndata: unfinished"


async def test_coded_events_are_not_touched(serving: Serving, connect: Connect) -> None:
    coder = zlib.compressobj(wbits=31)
    pieces = [coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS.values()]
    source = Steps(*pieces, coder.flush(), fields=(*STREAM, "Content-Encoding: gzip"))
    async with ScriptedOrigin(source) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get("/", "Accept-Encoding: gzip")
        head = await client.head()
        assert head.one("Content-Encoding") == "gzip"
        body = b""
        for sent in source.pieces:
            source.go_on.release()
            data = await received(client, head, len(sent))
            assert data == sent, "each piece passes as it came"
            body += data
        source.go_on.release()
        assert await client.chunk() == b""
    assert zlib.decompress(body, wbits=31) == b"".join(EVENTS.values())


async def test_an_event_above_the_maximum_cuts_the_stream_off(serving: Serving, connect: Connect) -> None:
    source = Steps(b"data: short\n\n", b"data: " + b"x" * 5000 + b"\n\n")
    async with ScriptedOrigin(source) as origin:
        served = await serving.gateway(origin.url, max_event=4096)
        client = await connect(served)
        await client.get()
        await client.head()
        source.go_on.release()
        assert await client.chunk() == b"data: short\n\n"
        source.go_on.release()
        assert await client.rest() == b"", "there is no last chunk"
        error = await served.error()
        assert isinstance(error, penstock.FrameError)
        assert error.name == "FRAME_TOO_LARGE"


async def test_events_of_two_clients_do_not_mix(serving: Serving, connect: Connect) -> None:
    first, second = Steps(b"data: 1\n\n", b"data: 2\n\n"), Steps(b"data: a\n\n", b"data: b\n\n")
    async with ScriptedOrigin(first, second) as origin:
        served = await serving.gateway(origin.url)
        clients = []
        for number in range(2):
            clients.append(await connect(served))
            await clients[-1].get()
            await origin.connection(number)
            await clients[-1].head()
        for mine, other in ((b"1", b"a"), (b"2", b"b")):
            second.go_on.release()
            assert await clients[1].chunk() == b"data: %s\n\n" % other
            first.go_on.release()
            assert await clients[0].chunk() == b"data: %s\n\n" % mine
        first.go_on.release()
        second.go_on.release()
        assert [await client.chunk() for client in clients] == [b"", b""]
