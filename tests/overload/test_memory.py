"""A full pool: new requests wait for memory, and clients that hold some and are waited for give it back."""

import asyncio
import json

import pytest

from penstock.config import Edge, OriginLimits
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Edges, Served
from support.leaks import engine_under_test
from support.origins import Recorder
from support.waiting import until

from .conftest import Overloaded, endless, full_pool

PART = b"x" * 40_000
"""Of a body of which the rest does not come; less than what takes a connection to an origin."""
FEW = 4
"""What they hold is less than what has to be free before the pool is not full any more."""
CROWD = 100
"""Clients; their windows would be more than the pool."""


async def half_open(edge: Overloaded, served: Served) -> RawClient:
    client = await edge.connect(served)
    await client.get("/", "Content-Length: 1000000", method="POST")
    await client.send(PART)
    return client


async def test_a_request_waits_for_memory_and_is_served_once_there_is_some(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(overload_after=None))
        client = await edge.connect(served)
        async with full_pool(edge.engine):
            await client.get()
            await until(lambda: served.requests == 1, "the request has come")
            assert not origin.connections
        assert await client.body(await client.head()) == b"ok"


async def test_half_open_uploads_give_their_memory_back_when_others_need_it(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(overload_after=None, stall_grace=0.2))
        crowd = [await half_open(edge, served) for _ in range(FEW)]
        pool = edge.engine.stats
        await until(lambda: pool().pool.live_bytes >= FEW * len(PART), "what they have sent is held")
        async with full_pool(edge.engine):
            for client in crowd:
                head = await client.head()
                assert (head.status, head.one("Connection")) == (503, "close")
                assert json.loads(await client.body(head))["name"] == "POOL_FULL"
        assert edge.count("client_evictions_total", reason="memory") == len(crowd)
        assert not origin.connections


async def test_an_upload_that_goes_on_is_not_cut_while_half_open_ones_hold_more(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(overload_after=None, stall_grace=0.2))
        whole = await edge.connect(served)
        await whole.get("/", f"Content-Length: {len(PART) + 1}", method="POST")
        crowd = [await half_open(edge, served) for _ in range(FEW)]
        await until(
            lambda: edge.engine.stats().pool.live_bytes >= FEW * len(PART), "what they have sent is held"
        )
        async with full_pool(edge.engine):
            assert {(await client.head()).status for client in crowd} == {503}
            # None of it had come: there is nothing to give back.
            await whole.send(PART + b"x")
        assert await whole.body(await whole.head()) == b"ok"


async def test_a_reader_that_goes_on_is_not_cut_while_stalled_ones_are(edge: Overloaded) -> None:
    async with ScriptedOrigin(endless) as origin:
        # A quarter of the grace is long beside the pauses of this loop.
        long = Edge(overload_after=None, stall_grace=8, write_timeout=None)
        served = await edge.relay(origin.url, edge=long)
        reader, *crowd = [await edge.connect(served, 4096) for _ in range(4)]
        for client in crowd:
            client.writer.transport.pause_reading()
        for client in (reader, *crowd):
            await client.get("/endless")
        await reader.head()
        taken = 0

        async def read_on() -> None:
            nonlocal taken
            while True:
                taken += len(await reader.reader.readexactly(4096))

        reading = asyncio.ensure_future(read_on())
        async with full_pool(edge.engine):
            await until(lambda: edge.count("client_evictions_total", reason="memory") > 0, "one is cut")
        before = taken
        await until(lambda: taken > before + 1_000_000 or reading.done(), "the reader goes on")
        assert not reading.done()
        reading.cancel()


async def test_clients_that_do_not_read_leave_the_others_half_of_the_pool(
    request: pytest.FixtureRequest,
) -> None:
    limits = OriginLimits(connections=CROWD, idle_timeout=30)
    async with (
        engine_under_test(request, memory="4MiB", threads=1, limits=limits) as engine,
        ScriptedOrigin(endless) as origin,
        ScriptedOrigin(Recorder()) as other,
    ):
        edges = Edges(engine)
        edge = Edge(overload_after=None, stall_grace=600, write_timeout=None)
        served, quick = await edges.relay(origin.url, edge=edge), await edges.relay(other.url, edge=edge)
        for number in range(CROWD):
            client = await edges.connect(served, 4096)
            client.writer.transport.pause_reading()
            await client.get("/endless")
            await until(lambda before=number: len(origin.connections) > before, "it is served")
            assert (await (await edges.connect(quick)).ask()).body == b"ok"
        pool = engine.stats().pool
        assert pool.peak_bytes > pool.budget // 4, "they hold what they get"
        # Each besides that a few slabs of the smallest size.
        assert pool.peak_bytes <= pool.budget // 2 + CROWD * 3 * 4096
        await edges.close()
        del edges, served, quick, client
