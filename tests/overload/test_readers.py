"""Clients that ask and do not read: they make room for others as soon as others need it."""

from penstock.config import Edge
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Served
from support.origins import Recorder
from support.waiting import until

from .conftest import CONNECTIONS, Overloaded, endless

SMALL = 4096
GRACE = 0.2


async def stalled(edge: Overloaded, served: Served) -> RawClient:
    client = await edge.connect(served, SMALL)
    client.writer.transport.pause_reading()
    await client.get("/endless")
    return client


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
