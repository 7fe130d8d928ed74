"""Clients that do not read: what they may hold, when they are cut off, and what others notice of them."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack

import pytest

import penstock
from penstock.config import Edge, Flow, Pool
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges, Served
from support.origins import Recorder, chunk
from support.waiting import until

SMALL = 4096
"""A receive buffer, so that little is needed to fill it."""


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer())
    while True:
        await peer.send(b"x" * 65536)


async def large(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer("Content-Length: 20000000"))
        for _ in range(200):
            await peer.send(b"x" * 100_000)


async def chunked(peer: Peer) -> None:
    """A body that goes by way of the pool: one with a length would be moved by the kernel."""
    while True:
        await peer.request()
        await peer.send(answer("Transfer-Encoding: chunked"))
        for _ in range(200):
            await peer.send(chunk(b"x" * 100_000))
        await peer.send(b"0\r\n\r\n")


async def stalled(edge: Edges, served: Served) -> RawClient:
    """A client that has asked, and reads no further than its head."""
    client = await edge.connect(served, SMALL)
    # The stream would read ahead of what is asked for.
    client.writer.transport.pause_reading()
    await client.get()
    return client


async def test_a_client_that_reads_nothing_is_given_up(edge: Edges) -> None:
    async with ScriptedOrigin(endless) as origin:
        served = await edge.relay(origin.url, edge=Edge(write_timeout=0.1))
        client = await stalled(edge, served)
        await (await origin.connection()).wait_left()
        await until(lambda: served.connections == 0, "the connection is closed")
        client.writer.transport.resume_reading()
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_client_that_reads_slowly_is_not_given_up(edge: Edges) -> None:
    """Each byte that it takes begins the limit anew, also while the kernel's buffer is too full to be written to.

    The clock is other connections, whose bodies stop coming.
    """
    async with ScriptedOrigin(endless, Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(write_timeout=0.2, body_timeout=0.05))
        loop = asyncio.get_running_loop()
        with socket.socket() as slow:
            slow.setblocking(False)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            await loop.sock_connect(slow, ("127.0.0.1", served.port))
            await loop.sock_sendall(slow, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await origin.connection()
            for _ in range(12):
                late = await edge.connect(served)
                await late.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
                assert (await late.head()).status == 408
                late.abort()
                left = 16384
                while left > 0:
                    piece = await loop.sock_recv(slow, left)
                    assert piece
                    left -= len(piece)
            assert not origin.connections[0].left


async def test_a_slow_client_slows_its_own_origin_alone(edge: Edges) -> None:
    """It holds its window, and the origin's socket holds the rest back."""
    async with ScriptedOrigin(endless, Recorder()) as origin:
        served = await edge.relay(origin.url)
        await stalled(edge, served)
        peer = await origin.connection()
        await until(lambda: peer.sent > 0, "the origin sends")
        for _ in range(50):
            assert (await (await edge.connect(served)).ask()).body == b"ok"
        # What it has sent lies in the sockets of both sides, and no more than a window here.
        assert edge.engine.stats().pool.peak_bytes <= 4 << 20


@pytest.fixture(params=[pytest.param(1, id="one thread"), pytest.param(3, id="three threads")])
async def tight(request: pytest.FixtureRequest) -> penstock.Engine:
    """An engine of 2 MiB that is full at half of it."""
    pool = Pool(memory="2MiB", reserve="256KiB", pressed_percent=40, full_percent=50, hysteresis_percent=2)
    return penstock.Engine(pool=pool, threads=request.param, flow=Flow(floor="64KiB", ceiling="1MiB"))


async def test_a_full_pool_refuses_new_requests_and_recovers(tight: penstock.Engine) -> None:
    async with tight as engine, ScriptedOrigin(Recorder()) as origin, ScriptedOrigin(large) as other:
        edges = Edges(engine)
        served = await edges.relay(origin.url)
        client = await edges.connect(served)
        assert (await client.ask()).body == b"ok"
        async with AsyncExitStack() as stack:
            held = []
            while engine.stats().pool.state != "full":
                held.append(await anext(await stack.enter_async_context(engine.get(other.url + "/"))))
            reply = await client.ask()
            assert (reply.head.status, reply.head.one("Retry-After")) == (503, "1")
            assert json.loads(reply.body)["name"] == "POOL_FULL"
            assert await client.rest() == b""
            held.clear()
        await until(lambda: engine.stats().pool.state == "open", "the pool is open again")
        assert (await (await edges.connect(served)).ask()).body == b"ok"
        await edges.close()


async def test_the_client_that_has_stalled_longest_is_cut_while_the_pool_is_full(
    tight: penstock.Engine,
) -> None:
    """And then others are served again, while clients that read are left alone."""
    async with tight as engine, ScriptedOrigin(chunked) as origin:
        edges = Edges(engine)
        served = await edges.relay(origin.url, edge=Edge(write_timeout=None, stall_grace=1))
        stalling = []
        while engine.stats().pool.state != "full":
            stalling.append(await stalled(edges, served))
            assert len(stalling) < 60
            await until(
                lambda: len(origin.connections) >= len(stalling) or engine.stats().pool.state == "full",
                "it is served, or the pool is full",
            )
        while served.connections >= len(stalling):
            # What the kernel takes late may leave the pool less than full, and then no client has to go.
            if engine.stats().pool.state != "full":
                stalling.append(await stalled(edges, served))
                assert len(stalling) < 60
            await asyncio.sleep(0)
        await until(lambda: engine.stats().pool.state != "full", "the pool is no longer full")
        reader = await edges.connect(served)
        reply = await reader.ask()
        assert (reply.head.status, len(reply.body)) == (200, 20_000_000)
        await edges.close()


async def test_a_thousand_idle_connections_cost_no_memory_of_the_pool(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        clients = [await edge.connect(served) for _ in range(1000)]
        for start in range(0, 1000, 100):
            for client in clients[start : start + 100]:
                await client.get()
            for client in clients[start : start + 100]:
                assert await client.body(await client.head()) == b"ok"
        assert served.connections == 1000
        await until(lambda: edge.engine.stats().pool.live_bytes == 0, "no idle connection holds a slab")
        assert (await clients[0].ask()).body == b"ok"
