"""Streams that go on: they are told of before they end."""

import pytest
from aiohttp import web

import penstock
from penstock.config import EventRelay
from penstock.testing import Peer, ScriptedOrigin
from support.collector import INTERNAL, SERVER, Span
from support.edges import serving
from support.origins import EVENTS, ChunkSteps, chunk

from .conftest import SOON, Trace, one


def intervals(spans: list[Span]) -> list[Span]:
    return sorted((span for span in spans if span.kind == INTERNAL), key=lambda span: span.began)


def check_chain(server: Span, parts: list[Span]) -> None:
    """Each part is one of the request's span, and says which came before."""
    before = server
    for number, part in enumerate(parts):
        assert (part.trace, part.parent) == (server.trace, server.id)
        assert part.links == ((before.trace, before.id),)
        assert part.attributes["penstock.stream_id"] == server.id
        assert part.attributes["penstock.interval"] == number
        before = part


@pytest.mark.parametrize("events", [None, EventRelay(heartbeat=0.2)], ids=["plain", "with comments"])
async def test_a_relayed_stream_is_told_of_while_it_lives(traced: Trace, events: EventRelay | None) -> None:
    origin = ChunkSteps()
    async with traced(stream_interval=SOON) as edges, ScriptedOrigin(origin) as served_by:
        served = await edges.relay(served_by.url, events=events)
        client = await edges.connect(served)
        await client.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.head()
        origin.put(b"id: 7\ndata: a\n\ndata: b\n\n")

        def told(spans: list[Span]) -> int:
            return sum(span.attributes["penstock.events"] for span in intervals(spans))

        spans = await edges.collector.wait(lambda spans: told(spans) >= 2, "two events")
        server = one(spans, SERVER)
        assert (server.name, server.attributes["penstock.stream"]) == ("GET /", True)
        first = next(part for part in intervals(spans) if part.attributes["penstock.events"])
        assert first.name == "GET / stream"
        assert first.attributes["penstock.partition_offset"] == "7"
        assert first.attributes["penstock.first_event_ms"] > 0
        assert "penstock.end" not in first.attributes
        origin.put(b"data: c\n\n")
        origin.end()
        spans = await edges.collector.wait(
            lambda spans: any("penstock.end" in span.attributes for span in spans), "the end"
        )
        parts = intervals(spans)
        check_chain(server, parts)
        assert (parts[-1].attributes["penstock.end"], told(spans)) == ("whole", 3)
        assert any(part.attributes.get("penstock.processing_latency_ms.p99", 0) > 0 for part in parts)


async def test_a_stream_that_breaks_off_says_why(traced: Trace) -> None:
    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        await peer.send(chunk(b"data: a\n\n"))

    async with traced() as edges, ScriptedOrigin(cut) as origin:
        served = await edges.relay(origin.url)
        client = await edges.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.head()
        spans = await edges.collector.wait(lambda spans: intervals(spans), "the end")
        (part,) = intervals(spans)
        assert (part.attributes["penstock.end"], part.is_failure) == ("BODY_TRUNCATED", True)
        assert not one(spans, SERVER).is_failure


async def test_a_client_that_leaves_ends_its_stream(traced: Trace) -> None:
    origin = ChunkSteps()
    async with traced() as edges, ScriptedOrigin(origin) as served_by:
        served = await edges.relay(served_by.url)
        client = await edges.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.head()
        client.abort()
        spans = await edges.collector.wait(lambda spans: intervals(spans), "the end")
        (part,) = intervals(spans)
        assert (part.attributes["penstock.end"], part.is_failure) == ("client", False)


@pytest.mark.parametrize("lane", ["native", "app"])
async def test_a_subscriber_is_told_of(traced: Trace, lane: str) -> None:
    async with traced(stream_interval=SOON) as edges:
        hub = penstock.Hub(engine=edges.engine)
        app = web.Application()
        if lane == "native":
            app.add_routes([hub.native("/live/")])
        else:

            async def subscribe(request: web.Request) -> web.StreamResponse:
                return await hub.stream(request, request.match_info["topic"])

            app.router.add_get("/live/{topic}", subscribe)
        async with serving(edges, "site", app) as port:
            client = await edges.connect_to(port)
            await client.send(b"GET /live/a HTTP/1.1\r\nHost: a\r\n\r\n")
            await client.head()
            for number in range(3):
                await hub.publish("a", f"{number}")

            def told(spans: list[Span]) -> int:
                return sum(span.attributes["penstock.events"] for span in intervals(spans))

            spans = await edges.collector.wait(lambda spans: told(spans) >= 3, "three events")
            last = [part for part in intervals(spans) if part.attributes["penstock.events"]][-1]
            assert "penstock.partition_offset" in last.attributes
            server = one(spans, SERVER)
            assert (server.attributes["http.response.status_code"], server.attributes["penstock.stream"]) == (
                200,
                True,
            )
            check_chain(server, intervals(spans))
            client.abort()
            await edges.collector.wait(
                lambda spans: any("penstock.end" in span.attributes for span in spans), "the end"
            )
        hub.close()
