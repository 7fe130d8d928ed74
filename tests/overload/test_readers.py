"""Clients that ask and do not read: they make room for others as soon as others need it."""

import asyncio

from penstock.config import Edge
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Served
from support.origins import Recorder
from support.waiting import until

from .conftest import CONNECTIONS, Overloaded

SMALL = 4096
GRACE = 0.2


async def endless(peer: Peer) -> None:
    """`/` is small; anything else has no end."""
    while True:
        request = await peer.request()
        if request.target == "/":
            await peer.send(answer("Content-Length: 2", body=b"ok"))
            continue
        await peer.send(answer())
        while True:
            await peer.send(b"x" * 65536)


async def stalled(edge: Overloaded, served: Served) -> RawClient:
    client = await edge.connect(served, SMALL)
    client.writer.transport.pause_reading()
    await client.get("/endless")
    return client


async def test_those_that_hold_all_connections_make_room_for_those_that_wait(edge: Overloaded) -> None:
    """No memory is short. Before, the others waited for the limit of the line and were refused."""
    async with ScriptedOrigin(endless) as origin:
        served = await edge.relay(origin.url, edge=Edge(stall_grace=GRACE, write_timeout=None))
        all_connections = CONNECTIONS * edge.threads
        for _ in range(all_connections):
            await stalled(edge, served)
        await until(lambda: len(origin.connections) == all_connections, "they hold all connections")
        async with asyncio.timeout(20):
            for _ in range(3):
                assert (await (await edge.connect(served)).ask()).body == b"ok"
        assert edge.count("client_evictions_total", reason="connection") >= 1
        assert edge.count("client_evictions_total", reason="connection") < all_connections, (
            "others are left alone"
        )


async def test_a_client_that_takes_its_responses_does_not_wait_for_those_that_stall(edge: Overloaded) -> None:
    """First come, first served had it wait until all that stall had had their connection: 10 s, and then a 503."""
    asked: list[str] = []

    async def origin_of_both(peer: Peer) -> None:
        while True:
            request = await peer.request()
            asked.append(request.target)
            if request.target == "/":
                await peer.send(answer("Content-Length: 2", body=b"ok"))
                continue
            await peer.send(answer())
            while True:
                await peer.send(b"x" * 65536)

    def waiting() -> int:
        return sum(origin.waiting for origin in edge.engine.stats().origins.values())

    def active() -> int:
        return sum(origin.active for origin in edge.engine.stats().origins.values())

    async with ScriptedOrigin(origin_of_both) as origin:
        served = await edge.relay(origin.url, edge=Edge(stall_grace=1.0, write_timeout=None))
        reader = await edge.connect(served)
        assert (await reader.ask()).body == b"ok"
        asked.clear()
        line = 24
        stalling = CONNECTIONS * edge.threads + line
        crowd = [await stalled(edge, served) for _ in range(stalling)]
        await until(
            lambda: waiting() + edge.count("client_evictions_total", reason="connection") >= line, "a line"
        )
        async with asyncio.timeout(20):
            assert (await reader.ask()).body == b"ok"
        assert asked.index("/") <= stalling - line // edge.threads // 2, "most of its line comes after it"
        for client in crowd:
            client.writer.transport.abort()
        await until(lambda: waiting() + active() == 0, "none of them reaches an origin that closes")


async def test_no_stalled_reader_is_cut_while_no_request_waits_for_a_connection(edge: Overloaded) -> None:
    async with ScriptedOrigin(endless) as origin, ScriptedOrigin(Recorder()) as other:
        edges = Edge(stall_grace=0.01, write_timeout=None)
        served, quick = await edge.relay(origin.url, edge=edges), await edge.relay(other.url, edge=edges)
        for _ in range(CONNECTIONS - 1):
            await stalled(edge, served)
        for _ in range(100):
            assert (await (await edge.connect(quick)).ask()).body == b"ok"
        assert served.connections == CONNECTIONS - 1
        assert edge.count("client_evictions_total", reason="connection") == 0


async def test_as_many_are_cut_as_the_pool_needs_and_those_that_read_stay(edge: Overloaded) -> None:
    engine = edge.engine
    async with ScriptedOrigin(endless) as origin:
        served = await edge.relay(origin.url, edge=Edge(stall_grace=GRACE, write_timeout=None))
        reader = await edge.connect(served)
        await reader.get("/endless")
        await reader.head()
        crowd = []
        while (
            not edge.count("client_evictions_total", reason="memory")
            and len(crowd) < CONNECTIONS * edge.threads
        ):
            crowd.append(await stalled(edge, served))
            await reader.reader.readexactly(100_000)
        await until(lambda: engine.stats().pool.state != "full", "there is room")
        for _ in range(20):
            await reader.reader.readexactly(100_000)
        reply = await (await edge.connect(served)).ask()
        assert reply.body == b"ok"
