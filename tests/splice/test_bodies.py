"""What the kernel moves is what the origin has sent, all of it, and a part of it never looks whole."""

import asyncio
import random

import pytest

from penstock.config import Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.origins import chunk
from support.waiting import until
from support.ways import left

from .conftest import Splicing

SIZE = 3 * 1024 * 1024 + 17
BODY = random.Random(5).randbytes(SIZE)
HEAD = answer(f"Content-Length: {SIZE}")
HALF = SIZE // 2
LEAST = 128 * 1024
"""Of a body that is shorter nothing is moved."""


async def whole(peer: Peer) -> None:
    """Answer every request on the connection."""
    while True:
        await peer.request()
        await peer.send(HEAD)
        await peer.send(BODY)


async def whole_of(client: RawClient) -> bytes:
    return await client.body(await client.head())


async def test_a_large_body_is_moved_whole_and_the_connection_serves_again(way: Splicing) -> None:
    async with ScriptedOrigin(whole) as origin:
        relay = await way.relay(origin.url)
        client = await relay.ask()
        for _ in range(3):
            assert (await whole_of(client) == BODY) is True
            await client.get()
        assert (await whole_of(client) == BODY) is True
        assert len(origin.connections) == 1
    # What has come with a head was read.
    assert 3.5 * SIZE < way.spliced <= 4 * SIZE
    assert way.engine.stats().bytes_received == 4 * SIZE


async def test_no_memory_of_the_pool_is_taken(way: Splicing) -> None:
    async with ScriptedOrigin(whole) as origin:
        client = await (await way.relay(origin.url)).ask()
        await whole_of(client)
        assert way.engine.stats().pool.peak_bytes < 256 * 1024


async def test_each_of_many_clients_gets_its_own_bytes(way: Splicing) -> None:
    """They are more than there are pipes, and do not read: the bytes of some are copied."""
    count = 90
    bodies = [random.Random(number).randbytes(LEAST * 3 + number) for number in range(count)]

    async def origin(peer: Peer) -> None:
        while True:
            body = bodies[int((await peer.request()).target.rpartition("?")[2])]
            await peer.send(answer(f"Content-Length: {len(body)}") + body)

    async with ScriptedOrigin(origin) as served:
        relay = await way.relay(served.url)
        clients = [await way.connect(relay.port, 4096) for _ in bodies]
        for number, client in enumerate(clients):
            client.writer.transport.pause_reading()
            await client.get(f"/?{number}")
        stats = way.engine.stats
        await until(lambda: stats().bytes_received >= 90 * LEAST, "all that has room has come")
        for client in clients:
            client.writer.transport.resume_reading()
        got = await asyncio.gather(*(whole_of(client) for client in clients))
        assert (got == bodies) is True
    assert 0 < way.spliced < sum(map(len, bodies))


@pytest.mark.parametrize("end", ["close", "reset", "stall"])
async def test_a_part_of_a_body_does_not_look_whole(way: Splicing, end: str) -> None:
    go_on = asyncio.Event()

    async def origin(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + BODY[:HALF])
        await go_on.wait()
        if end == "reset":
            peer.reset()
        elif end == "stall":
            await peer.stall()

    async with ScriptedOrigin(origin) as served:
        relay = await way.relay(served.url, timeouts=Timeouts(between_bytes=0.5))
        client = await relay.ask()
        head = await client.head()
        assert head.one("Content-Length") == str(SIZE)
        got = await client.reader.readexactly(HALF - 1)
        go_on.set()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)) as failure:
            await client.reader.readexactly(SIZE - len(got))
        if isinstance(failure.value, asyncio.IncompleteReadError):
            got += failure.value.partial
        assert (BODY[:HALF].startswith(got)) is True
        assert way.spliced > 0
    await until(lambda: way.engine.stats().streams == 0, "the stream has ended")


async def test_what_follows_a_body_is_no_part_of_it(way: Splicing) -> None:
    async def origin(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + BODY + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlie!")

    async with ScriptedOrigin(origin, whole) as served:
        client = await (await way.relay(served.url)).ask()
        assert (await whole_of(client) == BODY) is True
        await client.get()
        assert (await whole_of(client) == BODY) is True
        assert len(served.connections) == 2, "the first one was closed"
        assert way.spliced > SIZE


async def test_a_client_that_does_not_read_stops_its_origin_alone(way: Splicing) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(f"Content-Length: {64 * SIZE}"))
        for _ in range(64):
            await peer.send(BODY)

    async with ScriptedOrigin(endless) as served, ScriptedOrigin(whole) as other:
        slow = await (await way.relay(served.url)).ask(receive_buffer=4096)
        slow.writer.transport.pause_reading()
        peer = await served.connection()
        beside = await (await way.relay(other.url)).ask()
        before = -1
        while before != peer.sent or not peer.sent:
            before = peer.sent
            for _ in range(10):
                assert (await whole_of(beside) == BODY) is True
                await beside.get()
        # What the sockets hold on both sides, and one pipe.
        assert peer.sent < 32 * SIZE
        assert way.engine.stats().pool.live_bytes < 256 * 1024
        slow.writer.transport.resume_reading()
        head = await slow.head()
        assert (await slow.body(head) == 64 * BODY) is True


@pytest.mark.parametrize("how", ["abort", "reset"])
async def test_a_client_that_leaves_ends_the_relay(way: Splicing, how: str) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(f"Content-Length: {1 << 40}"))
        while not peer.left:
            await peer.send(BODY)

    async with ScriptedOrigin(endless) as served:
        client = await (await way.relay(served.url)).ask()
        await client.head()
        await client.reader.readexactly(SIZE)
        getattr(client, how)()
        await left(way, await served.connection())
        # Whatever the pipe of the client that has left held, others do not get.
        async with ScriptedOrigin(whole) as other:
            for _ in range(3):
                client = await (await way.relay(other.url)).ask()
                assert (await whole_of(client) == BODY) is True


async def test_a_body_that_comes_by_little_is_read(way: Splicing) -> None:
    """Two calls for a few bytes cost more than their copies."""
    pieces = [BODY[at : at + 1000] for at in range(0, 200_000, 1000)]

    async def origin(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 200000"))
        for piece in pieces:
            await sent.get()
            await peer.send(piece)

    sent: asyncio.Queue[None] = asyncio.Queue()
    async with ScriptedOrigin(origin) as served:
        client = await (await way.relay(served.url)).ask()
        await client.head()
        for piece in pieces:
            sent.put_nowait(None)
            assert await client.reader.readexactly(1000) == piece
    assert 0 < way.spliced <= 4000


OTHERS = {
    "chunks": (answer("Transfer-Encoding: chunked"), chunk(BODY) + b"0\r\n\r\n"),
    "short": (answer(f"Content-Length: {LEAST - 1}"), BODY[: LEAST - 1]),
    "the end of the connection": (answer(), BODY),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_other_bodies_are_read(way: Splicing, kind: str) -> None:
    head, sent = OTHERS[kind]

    async def origin(peer: Peer) -> None:
        await peer.request()
        await peer.send(head + sent)

    async with ScriptedOrigin(origin) as served:
        client = await (await way.relay(served.url)).ask()
        got = await whole_of(client)
        assert (got == (BODY[: LEAST - 1] if kind == "short" else BODY)) is True
    assert way.spliced == 0
