"""The pages themselves: which client may ask for what, and how a client ends that asks wrongly or never reads."""

import asyncio
import base64
import hashlib
import re
from pathlib import Path

import pytest
from aiohttp import web

import penstock
from penstock.config import Pool, Status
from penstock.metrics import Pages as NativePages
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import answer
from support.origins import Recorder
from support.scraping import OPEN, Metrics, Pages

from .conftest import Serve


@pytest.fixture
async def pages(engine: penstock.Engine, serve: Serve) -> Pages:
    return (await serve(engine, web.Application())).pages


async def test_pages_are_there_with_and_without_their_prefix(pages: Pages) -> None:
    for page in ("health", "ready", "metrics"):
        for path in (f"/penstock/{page}", f"/{page}", f"/{page}?a=b"):
            reply = await pages.get(path)
            assert reply.head.status == 200, (path, reply)
            assert reply.head.one("Cache-Control") == "no-store"
            assert reply.head.one("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("path", ["", "/", "/penstock", "/penstock/", "/?a=b"])
async def test_an_index_says_which_pages_there_are(pages: Pages, path: str) -> None:
    reply = await pages.get(path or "/")
    assert reply.head.status == 200
    assert reply.head.one("Content-Type") == "text/plain; charset=utf-8"
    named = [line.split()[0] for line in reply.body.decode().splitlines()]
    names = ("health", "ready", "metrics", "profile", "events")
    assert named == [f"/penstock/{name}" for name in names]
    for page in named:
        method = "HEAD" if page == "/penstock/events" else "GET"
        query = "?seconds=0.1" if page == "/penstock/profile" else ""
        assert (await pages.get(page + query, method=method)).head.status == 200


@pytest.mark.parametrize("path", ["/", "/penstock", "/penstock/"])
async def test_a_browser_gets_a_page_that_may_load_nothing(pages: Pages, path: str) -> None:
    reply = await pages.get(path, "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
    assert reply.head.one("Content-Type") == "text/html; charset=utf-8"
    policy = reply.head.one("Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    document = reply.body.decode()
    for page in ("health", "ready", "metrics", "events"):
        assert f'href="{page}"' in document
    assert not re.search(r"(src|href)=.?(https?:)?//", document)
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", document, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


async def test_health_and_readiness_say_what_was_looked_at(pages: Pages) -> None:
    status, health = await pages.check("health")
    assert (status, health["healthy"]) == (200, True)
    assert [check["check"] for check in health["checks"]] == ["threads"]
    status, ready = await pages.check("ready")
    assert (status, ready["ready"]) == (200, True)
    names = [check["check"] for check in ready["checks"]]
    assert names == ["threads", "listening", "pool", "pressure", "application"]
    assert all(check["ok"] for check in ready["checks"])


async def test_openmetrics_for_those_who_ask(pages: Pages) -> None:
    plain = await pages.get("/metrics")
    assert plain.head.one("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    reply = await pages.get("/metrics", f"Accept: {OPEN};q=0.5,text/plain;q=0.1")
    assert reply.head.one("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    strict = Metrics(reply.body.decode(), strict=True)
    assert strict.get("pool_budget_bytes") == 16 << 20


async def test_a_head_is_that_of_the_page(pages: Pages) -> None:
    client = await pages.connect()
    try:
        head = (await client.ask("/penstock/metrics", method="HEAD")).head
        assert (head.status, int(head.one("Content-Length") or 0) > 1000) == (200, True)
        # The connection goes on: no body has come.
        assert (await client.ask("/penstock/health")).head.status == 200
    finally:
        client.abort()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /penstocks HTTP/1.1\r\nHost: a", 404),
        ("GET /penstock/metrics/ HTTP/1.1\r\nHost: a", 404),
        ("GET /penstock/../metrics HTTP/1.1\r\nHost: a", 404),
        ("GET //metrics HTTP/1.1\r\nHost: a", 404),
        ("POST /metrics HTTP/1.1\r\nHost: a", 405),
        ("DELETE /penstock/health HTTP/1.1\r\nHost: a", 405),
        ("OPTIONS /ready HTTP/1.1\r\nHost: a\r\nContent-Length: 0", 405),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("GET /metrics HTTP/1.1", 400),
        ("GET /metrics HTTP/9.9\r\nHost: a", 505),
        ("\x00\x01\x02", 400),
        (f"GET /{'a' * 5000} HTTP/1.1\r\nHost: a", 414),
        (f"GET /metrics HTTP/1.1\r\nHost: a\r\nX: {'a' * 20000}", 431),
    ],
)
async def test_wrong_requests_are_refused(pages: Pages, request_: str, status: int) -> None:
    client = await pages.connect()
    try:
        tail = "" if request_.endswith("hello") else "\r\n\r\n"
        await client.send((request_ + tail).encode("latin-1"))
        head = await client.head()
        assert head.status == status
        assert (head.one("Allow") == "GET, HEAD") == (status == 405)
    finally:
        client.abort()
    assert (await pages.get("/health")).head.status == 200


async def test_a_scraper_does_not_count_as_a_client(pages: Pages) -> None:
    await pages.metrics()
    await pages.get("/nothing")
    metrics = await pages.metrics()
    assert metrics.get("client_connections_accepted_total") == 0
    assert metrics.get("refusals_total") == 0
    assert not any(name == "penstock_requests_total" for name, _ in metrics.samples)


async def test_a_scraper_that_does_not_read_blocks_no_other_page(
    engine: penstock.Engine, serve: Serve
) -> None:
    # Names so long that the page is more than what sockets keep.
    gateway = Gateway("http://127.0.0.1:1", engine=engine)
    app = web.Application()
    app.add_routes([gateway.native(f"/{number}/", name=f"{number}" * 500) for number in range(250)])
    served = await serve(engine, app, status=Status(listen="127.0.0.1:0", scrapes=1))
    slow = await served.pages.connect(receive_buffer=4096)
    try:
        await slow.get("/metrics")
        assert (await slow.head()).status == 200
        assert (await served.pages.get("/metrics")).head.status == 429
        assert (await served.pages.check("health"))[0] == 200
        assert (await served.pages.check("ready"))[0] == 200
    finally:
        slow.abort()
    reply = await served.pages.get("/metrics")
    while reply.head.status == 429:
        reply = await served.pages.get("/metrics")
    assert reply.head.status == 200
    assert len(reply.body) > 10 << 20


async def test_pages_on_a_unix_socket(engine: penstock.Engine, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "status.sock"
    served = await serve(engine, web.Application(), status=Status(listen=f"unix:{path}"))
    assert served.pages.url == f"unix:{path}"
    assert (await served.pages.check("ready"))[0] == 200


async def test_an_address_that_is_taken_ends_the_start(engine: penstock.Engine, serve: Serve) -> None:
    served = await serve(engine, web.Application())
    address = served.pages.url.removeprefix("http://")
    with pytest.raises(penstock.SystemFailureError, match="LISTEN_FAILED"):
        await serve(engine, web.Application(), status=Status(listen=address))
    assert (await served.pages.check("ready"))[0] == 200


async def test_pages_of_an_engine_without_a_site(engine: penstock.Engine) -> None:
    with NativePages(engine, Status(listen="127.0.0.1:0")) as native:
        pages = Pages(native.url)
        checks = (await pages.check("ready"))[1]["checks"]
        assert [check["check"] for check in checks] == ["threads", "pool", "pressure"]
        text = penstock.metrics.text(engine)
        names = Metrics(text).families.keys()
        assert names == (await pages.metrics()).families.keys()
        strict = Metrics(penstock.metrics.text(engine, openmetrics=True), strict=True)
        assert len(strict.families) == len(names)
    with pytest.raises(ConnectionRefusedError):
        await pages.get("/health")
    native.close()


async def test_an_engine_that_is_closed_is_not_well(engine: penstock.Engine) -> None:
    other = penstock.Engine(memory="1MiB")
    with NativePages(other, Status(listen="127.0.0.1:0", hung=2)) as native:
        pages = Pages(native.url)
        await pages.until_status("health", 200)
        await other.aclose()
        await pages.until_status("health", 503)
        assert (await pages.get("/metrics")).head.status == 200


async def test_pages_are_there_while_the_memory_is_full(serve: Serve) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 100000000", body=bytes(1 << 20)))
        await peer.wait_left()

    pool = Pool(memory="2MiB", reserve="256KiB", pressed_percent=20, full_percent=25, hysteresis_percent=2)
    async with penstock.Engine(pool=pool, threads=1) as engine, ScriptedOrigin(endless) as origin:
        served = await serve(engine, web.Application())
        responses: list[penstock.Response] = []
        frames: list[penstock.Frame] = []
        while engine.stats().pool.state != "full":
            responses.append(await engine.get(origin.url))
            frames.append(await anext(aiter(responses[-1])))
        status, ready = await served.pages.check("ready")
        assert (status, ready["ready"]) == (503, False)
        assert {"check": "pool", "ok": False, "seen": "the pool is full"} in ready["checks"]
        metrics = await served.pages.metrics()
        assert metrics.get("pool_state", state="full") == 1
        assert metrics.get("pool_state", state="open") == 0
        assert (await served.pages.check("health"))[0] == 200
        for frame in frames:
            frame.release()
        for response in responses:
            await response.aclose()
        await served.pages.until_status("ready", 200)
        await served.runner.cleanup()


async def test_ready_until_the_site_is_stopped_and_pages_until_it_has_ended(
    engine: penstock.Engine, serve: Serve
) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        release = asyncio.Event()

        async def slow(_request: web.Request) -> web.Response:
            await release.wait()
            return web.Response(text="done")

        app = web.Application()
        app.router.add_get("/", slow)
        app.add_routes([Gateway(origin.url, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app, shutdown=30)
        client = await served.connect()
        await client.get("/")
        await served.pages.until(
            lambda metrics: metrics.get("application_requests_total", outcome="taken") == 1, "it is asked"
        )
        stopping = asyncio.create_task(served.runner.cleanup())
        ready = await served.pages.until_status("ready", 503)
        assert {"check": "listening", "ok": False, "seen": "0 of 1 sites listen"} in ready["checks"]
        assert (await served.pages.check("health"))[0] == 200
        metrics = await served.pages.metrics()
        assert metrics.get("requests_active", lane="app", route="application") == 1
        release.set()
        assert (await client.head()).status == 200
        client.abort()
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await served.pages.get("/health")
