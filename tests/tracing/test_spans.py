"""What is told of requests: names, parents and attributes of spans, on every lane."""

import asyncio

import pytest
from aiohttp import web
from prometheus_client.openmetrics import parser as strict_parser

import penstock
from penstock import metrics
from penstock.config import Caching, Retries, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.collector import CLIENT, SERVER
from support.edges import serving

from .conftest import Trace, one, say, sole


async def test_a_relay_is_a_span_with_its_attempt(traced: Trace) -> None:
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.serve([edges.gateway(origin.url).native("/vod/")])
        assert await edges.fetched(served.port, "/vod/a?token=secret", "User-Agent: x/1") == b"ok"
        spans = await edges.collector.count(2)
        server, client = one(spans, SERVER), one(spans, CLIENT)
        assert (server.name, server.parent, server.is_failure) == ("GET /vod/", "", False)
        assert {
            "http.request.method": "GET",
            "url.scheme": "http",
            "url.path": "/vod/a",
            "http.route": "/vod/",
            "http.response.status_code": 200,
            "server.address": "a.example",
            "server.port": 81,
            "client.address": "127.0.0.1",
            "network.protocol.version": "1.1",
            "user_agent.original": "x/1",
            "penstock.lane": "native",
            "penstock.bytes": 2,
            "penstock.stream": False,
        }.items() <= server.attributes.items()
        assert 0 < server.attributes["penstock.first_byte_ms"] < 30_000
        assert (client.trace, client.parent, client.name) == (server.trace, server.id, "GET")
        port = int(origin.url.rpartition(":")[2])
        assert {
            "http.request.method": "GET",
            "http.response.status_code": 200,
            "server.address": "127.0.0.1",
            "server.port": port,
            "url.full": f"{origin.url}/vod/a",
            "penstock.connection_reused": False,
        }.items() <= client.attributes.items()
        assert server.began <= client.began <= client.ended <= server.ended
        assert "secret" not in str(spans)
        asked = sole(origin)
        assert asked.get("traceparent") == f"00-{server.trace}-{client.id}-03"
        assert asked.get("tracestate") is None


async def test_the_resource_says_what_the_spans_are_of(traced: Trace) -> None:
    resource = {"deployment.environment.name": "live"}
    headers = {"Authorization": "Bearer x"}
    async with (
        traced(service="edge", resource=resource, headers=headers) as edges,
        ScriptedOrigin(say()) as origin,
    ):
        served = await edges.relay(origin.url)
        await edges.fetched(served.port)
        await edges.collector.count(2)
        said = edges.collector.resource
        assert (said["service.name"], said["deployment.environment.name"]) == ("edge", "live")
        assert said["telemetry.sdk.name"] == "penstock"
        assert edges.collector.requests[0].headers["Authorization"] == "Bearer x"


async def test_a_hit_has_no_attempt(traced: Trace) -> None:
    async with traced(cache=True) as edges, ScriptedOrigin(say("Cache-Control: max-age=60")) as origin:
        served = await edges.relay(origin.url, caching=Caching())
        await edges.fetched(served.port)
        await edges.collector.count(2)
        await edges.fetched(served.port)
        spans = await edges.collector.count(3)
        assert [span.attributes.get("penstock.cache") for span in spans if span.kind == SERVER] == [
            "miss",
            "hit",
        ]


async def test_each_attempt_is_told(traced: Trace) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 0", status="503 Service Unavailable"))

    async with traced() as edges, ScriptedOrigin(refuse) as bad, ScriptedOrigin(say()) as good:
        origins = penstock.Origins([bad.url, good.url], retries=Retries(statuses=(503,)))
        served = await edges.relay(origins)
        for _ in range(4):
            await edges.fetched(served.port)
        await edges.collector.wait(
            lambda spans: sum(span.kind == SERVER for span in spans) == 4, "four requests"
        )
        retried = [
            span for span in edges.collector.of(CLIENT) if "http.request.resend_count" in span.attributes
        ]
        assert retried
        for span in retried:
            first = next(
                other
                for other in edges.collector.of(CLIENT)
                if other.parent == span.parent and other.id != span.id
            )
            assert (first.attributes["error.type"], first.is_failure) == ("503", True)
            assert span.attributes["http.request.resend_count"] == 1
            assert span.attributes["server.port"] == int(good.url.rpartition(":")[2])


async def test_a_failure_says_why(traced: Trace) -> None:
    async with traced() as edges:
        async with ScriptedOrigin(say()) as origin:
            url = origin.url
        served = await edges.relay(url)
        assert b"CONNECT_FAILED" in await edges.fetched(served.port)
        spans = await edges.collector.count(2)
        server, client = one(spans, SERVER), one(spans, CLIENT)
        for span in (server, client):
            assert (span.is_failure, span.attributes["error.type"]) == (True, "CONNECT_FAILED")
        assert server.attributes["http.response.status_code"] == 502
        assert "http.response.status_code" not in client.attributes


async def test_a_client_that_leaves_is_no_failure(traced: Trace) -> None:
    asked = asyncio.Event()

    async def stall(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.stall()

    async with traced() as edges, ScriptedOrigin(stall) as origin:
        served = await edges.relay(origin.url, timeouts=Timeouts(first_byte=None))
        client = await edges.connect(served)
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asked.wait()
        client.abort()
        spans = await edges.collector.count(2)
        server, attempt = one(spans, SERVER), one(spans, CLIENT)
        assert (server.is_failure, attempt.is_failure) == (False, False)
        assert server.attributes["http.response.status_code"] == 499
        assert attempt.attributes["penstock.cancelled"] is True


@pytest.mark.parametrize("server", ["site", "stock"])
async def test_an_application_is_told_of_its_span(traced: Trace, server: str) -> None:
    async def show(request: web.Request) -> web.Response:
        return web.json_response([request.headers.get("traceparent"), request.headers.get("tracestate")])

    app = web.Application()
    app.router.add_get("/{path:.*}", show)
    async with traced() as edges, serving(edges, server, app) as port:
        stranger = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        shown = await edges.fetched(port, "/a", f"traceparent: {stranger}", "tracestate: a=1")
        if server == "stock":
            # aiohttp's own transports do not pass the engine.
            assert shown == f'["{stranger}", "a=1"]'.encode()
            return
        (span,) = await edges.collector.count(1)
        assert shown == f'["00-{span.trace}-{span.id}-03", null]'.encode()
        assert (span.name, span.attributes["penstock.lane"]) == ("GET", "app")
        assert span.links == (("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"),)


async def test_a_bucket_of_a_histogram_leads_to_its_last_trace(traced: Trace) -> None:
    async with traced() as edges, ScriptedOrigin(say()) as origin:
        served = await edges.serve([edges.gateway(origin.url).native("/", name="vod")])
        await edges.fetched(served.port)
        server = one(await edges.collector.count(2), SERVER)
        text = metrics.text(edges.engine, openmetrics=True)
        families = {family.name: family for family in strict_parser.text_string_to_metric_families(text)}
        for name in ("penstock_request_duration_seconds", "penstock_request_first_byte_seconds"):
            found = [sample for sample in families[name].samples if sample.exemplar is not None]
            (sample,) = found
            assert sample.labels["route"] == "vod"
            assert sample.exemplar.labels == {"trace_id": server.trace}
            assert 0 < sample.exemplar.value <= float(sample.labels["le"])
            assert float(sample.exemplar.timestamp) > 1.7e9
        assert "trace_id" not in metrics.text(edges.engine)
