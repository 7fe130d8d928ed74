"""Which requests are kept that no ratio keeps: failures and the slowest."""

import asyncio

from penstock.config import Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.collector import CLIENT, SERVER

from .conftest import Trace, one, say


async def test_failures_are_kept(traced: Trace) -> None:
    async def fail(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 0", status="500 Internal Server Error"))

    async with (
        traced(ratio=0.0, slowest=0) as edges,
        ScriptedOrigin(say()) as good,
        ScriptedOrigin(fail) as bad,
    ):
        well, ill = await edges.relay(good.url), await edges.relay(bad.url)
        await edges.fetched(well.port)
        await edges.fetched(ill.port)
        await edges.fetched(well.port, "/", "Expect: nothing")
        spans = await edges.collector.count(2)
        server, client = one(spans, SERVER), one(spans, CLIENT)
        assert (server.attributes["http.response.status_code"], server.is_failure) == (500, True)
        assert (client.trace, client.parent) == (server.trace, server.id)


async def test_a_body_that_breaks_off_is_a_failure(traced: Trace) -> None:
    begun = asyncio.Event()

    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 9", body=b"ok"))
        # An end that comes with the head is a 502: no byte has been sent on by then.
        await begun.wait()

    async with traced(ratio=0.0, slowest=0) as edges, ScriptedOrigin(cut) as origin:
        served = await edges.relay(origin.url)
        client = await edges.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.head()).status == 200
        begun.set()
        server = one(await edges.collector.count(2), SERVER)
        assert server.attributes["http.response.status_code"] == 200
        assert (server.attributes["error.type"], server.is_failure) == ("BODY_TRUNCATED", True)


async def test_the_slowest_are_kept(traced: Trace) -> None:
    gate = asyncio.Event()

    async def wait(peer: Peer) -> None:
        request = await peer.request()
        if request.target == "/slow":
            await gate.wait()
        await peer.send(answer("Content-Length: 2", "Connection: close", body=b"ok"))

    async with (
        traced(ratio=0.0, slowest=1, interval=1.0) as edges,
        ScriptedOrigin(wait) as origin,
    ):
        served = await edges.relay(origin.url, timeouts=Timeouts(first_byte=None))
        slow = asyncio.create_task(edges.fetched(served.port, "/slow"))
        for _ in range(20):
            await edges.fetched(served.port, "/fast")
        gate.set()
        await slow
        spans = await edges.collector.wait(lambda spans: len(spans) >= 2, "the slowest")
        assert "/slow" in {span.attributes.get("url.path") for span in spans}
        assert len(spans) <= 4, "one of each second"
