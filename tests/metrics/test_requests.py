"""What is counted of requests on every lane, by exact figures."""

import asyncio

import pytest
from aiohttp import web

import penstock
from penstock.config import Cache, Caching, Inspection, Overrides
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import answer
from support.origins import Recorder
from support.scraping import Metrics

from .conftest import Serve, Served


def app_of(*routes: web.AbstractRouteDef) -> web.Application:
    app = web.Application()
    app.add_routes(routes)
    return app


async def whole(served: Served, head: str, body: bytes = b"") -> bytes:
    """All bytes that come for one request, on a connection of its own."""
    client = await served.connect()
    try:
        lines = (head, "Host: a", "Connection: close", *([f"Content-Length: {len(body)}"] if body else []))
        await client.send("\r\n".join((*lines, "", "")).encode() + body)
        return await client.rest()
    finally:
        client.abort()


def counted(metrics: Metrics, lane: str, route: str) -> dict[str, float]:
    """Requests that are over, by status."""
    return {
        dict(labels)["status"]: value
        for (name, labels), value in metrics.samples.items()
        if name == "penstock_requests_total" and {("lane", lane), ("route", route)} <= labels
    }


def went(metrics: Metrics, route: str) -> dict[str, float]:
    """What requests got by way of the cache."""
    return {
        dict(labels)["result"]: value
        for (name, labels), value in metrics.samples.items()
        if name == "penstock_cache_requests_total" and ("route", route) in labels and value
    }


async def test_native_routes(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        closed = origin.url.rpartition(":")[0] + ":1"
        vod = Gateway(origin.url, engine=engine).native("/vod/", name="vod")
        down = Gateway(closed, engine=engine).native("/down/", name="down")
        served = await serve(engine, app_of(vod, down))
        sizes = [len(await whole(served, "GET /vod/a HTTP/1.1")) for _ in range(3)]
        sizes.append(len(await whole(served, "POST /vod/b HTTP/1.1", b"hello")))
        refused = await whole(served, "GET /down/a HTTP/1.1")
        assert refused.startswith(b"HTTP/1.1 502 ")
        metrics = await served.pages.until(
            lambda metrics: (
                counted(metrics, "native", "vod") == {"200": 4}
                and counted(metrics, "native", "down") == {"502": 1}
            ),
            "all requests are counted",
        )
        route = {"lane": "native", "route": "vod"}
        assert metrics.get("requests_active", **route) == 0
        assert metrics.get("request_body_bytes_total", **route) == 5
        assert metrics.get("response_bytes_total", **route) == sum(sizes)
        assert metrics.get("request_first_byte_seconds_count", **route) == 4
        assert metrics.get("request_duration_seconds_count", **route) == 4
        assert metrics.get("request_duration_seconds_bucket", **route, le="+Inf") == 4
        assert metrics.get("request_duration_seconds_sum", **route) > 0
        other = {"lane": "native", "route": "down"}
        assert metrics.get("request_failures_total", **other, code="CONNECT_FAILED") == 1
        # Nothing of the origin's has come; what the engine says itself is counted as bytes.
        assert metrics.get("request_first_byte_seconds_count", **other) == 0
        assert metrics.get("response_bytes_total", **other) == len(refused)
        assert metrics.get("refusals_total") == 1
        assert metrics.get("client_connections_accepted_total") == 5
        assert metrics.get("origin_requests_total", origin=origin.url) == 4
        assert metrics.get("origin_responses_total", origin=origin.url, status="2xx") == 4
        opened = metrics.get("origin_connections_opened_total", origin=origin.url)
        reused = metrics.get("origin_connections_reused_total", origin=origin.url)
        assert opened + reused == 4
        assert metrics.get("origin_connect_seconds_count", origin=origin.url) == opened
        assert metrics.get("origin_first_byte_seconds_count", origin=origin.url) == 4
        assert metrics.get("origin_body_bytes_total", origin=origin.url) == 4 * len(b"ok")
        assert metrics.get("origin_body_bytes_total", origin=closed) == 0
        assert metrics.get("origin_failures_total", origin=closed, code="CONNECT_FAILED") == 1
        assert metrics.get("origin_requests_total", origin=closed) == 1


async def test_a_response_that_goes_on_is_counted_as_it_goes(engine: penstock.Engine, serve: Serve) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def drip(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        while piece := await pieces.get():
            await peer.send(b"%x\r\n%s\r\n" % (len(piece), piece))

    async with ScriptedOrigin(drip) as origin:
        served = await serve(engine, app_of(Gateway(origin.url, engine=engine).native("/", name="live")))
        client = await served.connect()
        await client.get("/a")
        await client.head()
        route = {"lane": "native", "route": "live"}
        before = await served.pages.until(
            lambda metrics: metrics.get("response_bytes_total", **route) > 0, "the head is counted"
        )
        assert before.get("requests_active", **route) == 1
        assert before.get("client_connections", state="active") == 1
        pieces.put_nowait(b"data: 1\n\n")
        sent = await client.reader.readexactly(len(b"9\r\ndata: 1\n\n\r\n"))
        size = before.get("response_bytes_total", **route) + len(sent)
        during = await served.pages.until(
            lambda metrics: metrics.get("response_bytes_total", **route) == size, "the event is counted"
        )
        assert during.get("origin_body_bytes_total", origin=origin.url) == len(sent)
        client.abort()
        await served.pages.until(
            lambda metrics: (
                counted(metrics, "native", "live") == {"200": 1}
                and metrics.get("request_failures_total", **route, code="CLIENT_GONE") == 1
                and metrics.get("requests_active", **route) == 0
            ),
            "the client's end is counted",
        )
        pieces.put_nowait(b"")


async def test_the_application(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        gateway = Gateway(origin.url, engine=engine)

        async def hello(request: web.Request) -> web.Response:
            return web.Response(text=(await request.text()) or "hello")

        app = app_of(web.route("*", "/hello", hello), web.get("/relay/{path:.*}", gateway.relay))
        served = await serve(engine, app)
        sizes = [
            len(await whole(served, "GET /hello HTTP/1.1")),
            len(await whole(served, "POST /hello HTTP/1.1", b"x" * 1000)),
            len(await whole(served, "GET /relay/a HTTP/1.1")),
            len(await whole(served, "GET /nothing HTTP/1.1")),
        ]
        metrics = await served.pages.until(
            lambda metrics: counted(metrics, "app", "application") == {"200": 3, "404": 1},
            "all requests are counted",
        )
        route = {"lane": "app", "route": "application"}
        assert metrics.get("response_bytes_total", **route) == sum(sizes)
        assert metrics.get("request_body_bytes_total", **route) == 1000
        assert metrics.get("request_first_byte_seconds_count", **route) == 4
        assert metrics.get("application_requests_total", outcome="taken") == 4
        assert metrics.get("application_waiting_limit") == 1024
        assert metrics.get("origin_requests_total", origin=origin.url) == 1


async def test_topics(engine: penstock.Engine, serve: Serve) -> None:
    hub = penstock.Hub(engine=engine)
    served = await serve(engine, app_of(hub.native("/events/", name="topics")))
    client = await served.connect()
    await client.get("/events/a")
    await client.head()
    route = {"lane": "native", "route": "topics"}
    await served.pages.until(lambda metrics: metrics.get("hub_subscribers") == 1, "one listens")
    await hub.publish("a", "one")
    await client.reader.readuntil(b"data: one\n\n")
    metrics = await served.pages.until(
        lambda metrics: metrics.get("hub_deliveries_total") == 1, "the event is counted"
    )
    assert metrics.get("requests_active", **route) == 1
    assert metrics.get("hub_topics") == 1
    assert metrics.get("hub_events_total") == 1
    assert metrics.get("hub_subscriptions_total") == 1
    client.abort()
    await served.pages.until(
        lambda metrics: (
            counted(metrics, "native", "topics") == {"200": 1} and metrics.get("hub_subscribers") == 0
        ),
        "the subscriber has left",
    )
    hub.close()
    del hub
    metrics = await served.pages.metrics()
    assert metrics.get("hub_events_total") == 1, "a hub that is gone takes no count back"


async def test_heads_that_cannot_be_read(engine: penstock.Engine, serve: Serve) -> None:
    served = await serve(engine, web.Application())
    refused = await whole(served, "GET / HTTP/1.1\r\nHost: other")
    assert refused.startswith(b"HTTP/1.1 400 ")
    metrics = await served.pages.until(
        lambda metrics: counted(metrics, "edge", "none") == {"400": 1}, "the refusal is counted"
    )
    route = {"lane": "edge", "route": "none"}
    assert metrics.get("request_failures_total", **route, code="BAD_HOST") == 1
    assert metrics.get("response_bytes_total", **route) == len(refused)


@pytest.mark.parametrize("threads", [1, 3], ids=["one thread", "three threads"])
async def test_the_cache(threads: int, serve: Serve) -> None:
    cache = Cache(memory="2MiB")
    async with penstock.Engine(memory="8MiB", threads=threads, cache=cache) as engine:
        fresh = Recorder(response=answer("Cache-Control: max-age=600", "Content-Length: 2", body=b"ok"))
        async with ScriptedOrigin(fresh) as origin:
            url = origin.url
            gateway = Gateway(url, engine=engine)
            routes = [gateway.native(f"/{name}/", name=name, caching=Caching()) for name in ("vod", "live")]

            async def relay(request: web.Request) -> web.StreamResponse:
                overrides = Overrides(bypass="bypass" in request.query)
                return await gateway.relay(request, caching=Caching(), overrides=overrides)

            served = await serve(engine, app_of(*routes, web.get("/app/{path:.*}", relay)))
            for _ in range(5):
                await whole(served, "GET /vod/a HTTP/1.1")
            await whole(served, "POST /live/a HTTP/1.1", b"x")
            for path in ("/app/a", "/app/a", "/app/a?bypass"):
                await whole(served, f"GET {path} HTTP/1.1")
            async with engine.get(f"{url}/vod/a", caching=Caching()) as response:
                await response.bytes()
            metrics = await served.pages.until(
                lambda metrics: (
                    counted(metrics, "native", "vod") == {"200": 5}
                    and counted(metrics, "app", "application") == {"200": 3}
                ),
                "all requests are counted",
            )
        assert went(metrics, "vod") == {"miss": 1, "hit": 4}
        assert went(metrics, "live") == {"passed": 1}
        assert went(metrics, "/app/{path}") == {"miss": 1, "hit": 1, "passed": 1}
        assert went(metrics, "none") == {"hit": 1}, "which the engine was asked for itself"
        assert engine.cache is not None
        assert engine.cache.stats().hits == 6
        assert metrics.get("cache_objects", tier="memory") == 2
        assert metrics.get("cache_limit_bytes", tier="memory") == 2 << 20
        assert metrics.get("cache_used_bytes", tier="memory") > 0
        assert metrics.get("origin_requests_total", origin=url) == 4
        assert not metrics.has("cache_disk_ready"), "there is no disk"
        await served.runner.cleanup()


async def test_inspected_responses(engine: penstock.Engine, serve: Serve) -> None:
    usage = b'{"usage": {"total_tokens": 3}}'
    events = b"data: {}\n\ndata: {}\n\ndata: " + usage + b"\n\n"
    body = answer("Content-Type: text/event-stream", f"Content-Length: {len(events)}", body=events)
    async with ScriptedOrigin(Recorder(response=body)) as origin:
        gateway = Gateway(origin.url, engine=engine, inspect=Inspection())
        native = gateway.native("/native/", name="chat", inspect=Inspection())
        served = await serve(engine, app_of(native, web.get("/app/{path:.*}", gateway.relay)))
        await whole(served, "GET /native/a HTTP/1.1")
        await whole(served, "GET /app/a HTTP/1.1")
        for route in ("chat", "/app/{path}"):
            metrics = await served.pages.until(
                lambda metrics, route=route: (
                    metrics.get("inspected_responses_total", route=route, content="events") == 1
                ),
                f"the stream of {route} is counted",
            )
            assert metrics.get("inspected_events_total", route=route) == 3
            assert metrics.get("inspected_usages_total", route=route) == 1
            assert metrics.get("first_token_seconds_count", route=route) == 1


async def test_a_scrape_under_load_is_whole_and_ends_exact(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        gateway = Gateway(origin.url, engine=engine)
        app = app_of(gateway.native("/vod/", name="vod"), web.get("/{path:.*}", gateway.relay))
        served = await serve(engine, app)
        clients, requests, over = 8, 25, 0

        async def load(path: str) -> None:
            nonlocal over
            client = await served.connect()
            try:
                for _ in range(requests):
                    assert (await client.ask(path)).head.status == 200
            finally:
                client.abort()
            over += 1

        paths = ["/vod/a", "/relay/a"] * (clients // 2)
        tasks = [asyncio.create_task(load(path)) for path in paths]
        last = 0.0
        while over < clients:
            metrics = await served.pages.metrics()
            total = sum(counted(metrics, "native", "vod").values())
            assert total >= last, "a count went back"
            assert metrics.get("requests_active", lane="native", route="vod") <= clients
            last = total
            done = [task for task in tasks if task.done()]
            for task in done:
                task.result()
        await asyncio.gather(*tasks)
        half = clients // 2 * requests
        await served.pages.until(
            lambda metrics: (
                counted(metrics, "native", "vod") == {"200": half}
                and counted(metrics, "app", "application") == {"200": half}
            ),
            "all requests are counted",
        )


async def test_a_route_that_is_declared_anew_goes_on_counting(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        for total in (1, 2):
            native = Gateway(origin.url, engine=engine).native("/", name="vod")
            served = await serve(engine, app_of(native))
            await whole(served, "GET /a HTTP/1.1")
            metrics = await served.pages.until(
                lambda metrics, total=total: counted(metrics, "native", "vod") == {"200": total},
                "the request is counted",
            )
            assert metrics.get("client_connections_accepted_total") == total
            await served.runner.cleanup()
