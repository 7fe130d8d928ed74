"""The cache from Python: relays of an application on the engine's sockets and on aiohttp's own, and the library; what
one request says of its key, its lifetime and its tags."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

import penstock
from penstock import ConfigurationError
from penstock.config import Caching, Forwarding, Overrides
from penstock.testing import RecordedRequest, ScriptedOrigin
from penstock.web import Gateway
from support.client import answer, client_of
from support.edges import Edges, app_of, cache_of, serving
from support.origins import FRESH, NumberedOrigin, numbered
from support.waiting import in_time, until

SERVERS = pytest.mark.parametrize("server", ["site", "stock"])


@SERVERS
async def test_a_relay_answers_by_way_of_the_cache(caching: Edges, server: str) -> None:
    script = NumberedOrigin(numbered(FRESH, 'ETag: "a"'))
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(name="ours"))
        app = app_of(("/{path:.*}", gateway.relay))
        async with serving(caching, server, app) as port, client_of(port) as client:
            miss, hit = await client.ask("/a"), await client.ask("/a")
            assert (miss.body, hit.body) == (b"1", b"1")
            assert miss.head.one("Cache-Status") == "ours; fwd=uri-miss; fwd-status=200; stored"
            assert (hit.head.one("Cache-Status") or "").startswith("ours; hit; ttl=")
            assert hit.head.one("Age") is not None
            assert (await client.ask("/a", 'If-None-Match: "a"')).head.status == 304
            part = await client.ask("/a", "Range: bytes=0-0")
            assert (part.head.status, part.head.one("Content-Range")) == (206, "bytes 0-0/1")
            assert (await client.ask("/a", method="HEAD")).head.one("Content-Length") == "1"
            assert (await client.ask("/b", "Cache-Control: only-if-cached")).head.status == 504
            assert script.targets == ["/a"]
            # What is unsafe makes it invalid, on this lane as on the other.
            await client.ask("/a", "Content-Length: 7\r\n\r\nabc", method="POST")
            assert (await client.ask("/a")).body == b"3"


async def test_origins_at_two_unix_sockets_do_not_mix(caching: Edges, tmp_path: Path) -> None:
    """Both have the same URL, which is the key."""

    async def ask(*paths: str) -> list[bytes]:
        return [(await client.ask(path)).body for path in paths]

    scripts = {name: NumberedOrigin(numbered(FRESH)) for name in ("one", "two")}
    async with AsyncExitStack() as stack:
        routes = []
        for name, script in scripts.items():
            socket = str(tmp_path / name)
            origin = await stack.enter_async_context(ScriptedOrigin(script, unix=socket))
            gateway = caching.gateway(origin.url, unix=socket)
            routes.append(gateway.native(f"/{name}/", rewrite="/", caching=Caching()))
        client = await caching.connect(await caching.serve(routes))
        assert await ask("/one/a", "/one/b", "/two/b", "/two/b", "/one/b") == [b"1", b"2", b"1", b"1", b"2"]
        assert (scripts["one"].targets, scripts["two"].targets) == (["/a", "/b"], ["/b"])
        assert cache_of(caching).purge(url="http://localhost/b") == 2
        assert await ask("/two/b", "/one/b") == [b"2", b"3"]


@SERVERS
async def test_a_native_route_uses_the_cache_on_every_server(caching: Edges, server: str) -> None:
    script = NumberedOrigin(numbered())
    async with ScriptedOrigin(script) as origin:
        app = web.Application()
        app.add_routes([caching.gateway(origin.url).native("/", caching=Caching())])
        async with serving(caching, server, app) as port, client_of(port) as client:
            assert [(await client.ask("/a")).body for _ in range(2)] == [b"1", b"1"]
            assert script.targets == ["/a"]


async def test_both_lanes_and_the_library_wait_for_one_fetch(caching: Edges) -> None:
    script = NumberedOrigin(numbered(), 1)
    cache = Caching()
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url)

        async def through_python(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, path="/a", caching=cache)

        app = app_of(("/python", through_python))
        app.add_routes([gateway.native("/native/", rewrite="/", caching=cache)])
        async with (
            serving(caching, "site", app) as port,
            client_of(port) as native,
            client_of(port) as lane,
        ):
            await native.get("/native/a")
            await in_time(script.asked.wait())
            await lane.get("/python")
            ours = caching.engine.get(f"{origin.url}/a", caching=cache)
            # All three of them ask: the site's requests are two, and the engine's own are the relay's and this one.
            await until(lambda: caching.engine.stats().requests == 2, "all have asked")
            script.go.set()
            assert await in_time(ours.bytes()) == b"1"
            for client in (native, lane):
                assert await in_time(client.body(await in_time(client.head()))) == b"1"
            assert script.targets == ["/a"]


async def test_frames_of_a_hit_are_the_stored_bytes_themselves(caching: Edges) -> None:
    body = bytes(range(256)) * 4096
    script = NumberedOrigin(lambda *_: answer(FRESH, f"Content-Length: {len(body)}") + body)
    engine = caching.engine

    async def look() -> list[int]:
        """Where the bytes of the frames lie; they are those of the body."""
        places, at = [], 0
        async with engine.get(f"{origin.url}/a", caching=Caching()) as response:
            async for frame in response:
                view = memoryview(frame)
                assert view == body[at : at + len(view)]
                at += len(view)
                places.append(np.frombuffer(frame, np.uint8).__array_interface__["data"][0])
        assert at == len(body)
        return places

    async with ScriptedOrigin(script) as origin:
        await look()
        before = engine.stats().pool
        first, second = await look(), await look()
        after = engine.stats().pool
        assert first == second
        start, length = engine.pool_addresses()
        assert all(start <= place < start + length for place in first)
        assert after.bytes_copied == before.bytes_copied
        assert script.targets == ["/a"]


@SERVERS
async def test_one_request_says_its_key_its_lifetime_and_its_tags(caching: Edges, server: str) -> None:
    script = NumberedOrigin(numbered())
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(tags=("all",)))

        async def handler(request: web.Request) -> web.StreamResponse:
            video = request.match_info["video"]
            overrides = Overrides(key=f"/videos/{video}", lifetime=600, tags=[f"video-{video}"])  # type: ignore[arg-type]
            return await gateway.relay(request, overrides=overrides)

        app = app_of(("/{viewer}/{video}", handler))
        async with serving(caching, server, app) as port, client_of(port) as client:
            assert [(await client.ask(f"/{viewer}/7")).body for viewer in "ab"] == [b"1", b"1"]
            assert (await client.ask("/a/8")).body == b"2"
            seven, eight = cache_of(caching).list()
            assert (seven.url, seven.tags) == (f"{origin.url}/videos/7", ("all", "video-7"))
            assert (eight.url, eight.tags) == (f"{origin.url}/videos/8", ("all", "video-8"))
            assert 500 < seven.ttl <= 600
            assert cache_of(caching).purge(tag="video-7") == 1
            assert cache_of(caching).purge(url=f"{origin.url}/videos/8") == 1


async def test_a_lifetime_of_zero_is_stale_at_once_and_no_store_stands(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        if request.get("If-None-Match") is not None:
            return answer(FRESH, 'ETag: "a"', status="304 Not Modified")
        control = {"/a": FRESH, "/b": "Cache-Control: no-store", "/c": "Cache-Control: private"}
        return answer(control[request.target], 'ETag: "a"', "Content-Length: 2") + b"ok"

    script = NumberedOrigin(says)
    get = partial(caching.engine.get, caching=Caching())
    async with ScriptedOrigin(script) as origin:
        for _ in range(2):
            assert await get(f"{origin.url}/a", overrides=Overrides(lifetime=0)).bytes() == b"ok"
        assert [request.get("If-None-Match") for request in script.requests] == [None, '"a"']
        for target in ("/b", "/c"):
            for _ in range(2):
                assert await get(origin.url + target, overrides=Overrides(lifetime=60)).bytes() == b"ok"
        assert script.targets == ["/a", "/a", "/b", "/b", "/c", "/c"]


async def test_a_request_goes_past_the_cache_and_leaves_it_as_it_is(caching: Edges) -> None:
    script = NumberedOrigin(numbered())
    get = partial(caching.engine.get, caching=Caching())
    async with ScriptedOrigin(script) as origin:
        url = f"{origin.url}/a"
        assert await get(url).bytes() == b"1"
        async with get(url, overrides=Overrides(bypass=True)) as past:
            assert await past.bytes() == b"2"
            assert past.headers["Cache-Status"] == "penstock; fwd=bypass; fwd-status=200"
        assert await get(url).bytes() == b"1"


async def test_a_key_never_mixes_two_origins(caching: Edges) -> None:
    async with (
        ScriptedOrigin(NumberedOrigin(lambda *_: answer(FRESH, "Content-Length: 3") + b"one")) as one,
        ScriptedOrigin(NumberedOrigin(lambda *_: answer(FRESH, "Content-Length: 3") + b"two")) as two,
    ):
        for origin, body in ((one, b"one"), (two, b"two"), (one, b"one")):
            response = caching.engine.get(
                f"{origin.url}/x", caching=Caching(), overrides=Overrides(key="/same")
            )
            assert await response.bytes() == body


@pytest.mark.parametrize("way", ["preserved", "given"])
async def test_what_one_site_of_an_origin_answers_is_not_for_another(caching: Edges, way: str) -> None:
    """The origin tells its sites by Host, which is not in the key."""

    def says(_number: int, request: RecordedRequest) -> bytes:
        host = (request.get("Host") or "").encode()
        return answer(FRESH, f"Content-Length: {len(host)}") + host

    script = NumberedOrigin(says)
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url, forwarding=Forwarding(preserve_host=way == "preserved"))
        plain = caching.gateway(origin.url)
        routes = [
            plain.native("/plain/", rewrite="/", caching=Caching()),
            gateway.native("/own/", rewrite="/", caching=Caching()),
            gateway.native("/b/", rewrite="/", headers={"Host": "b.test"}, caching=Caching()),
        ]
        client = await caching.connect(await caching.serve(routes))
        own = b"gateway.test" if way == "preserved" else origin.url.removeprefix("http://").encode()
        for _ in range(2):
            assert (await client.ask("/plain/a")).body == origin.url.removeprefix("http://").encode()
            assert (await client.ask("/own/a")).body == own
            assert (await client.ask("/b/a")).body == b"b.test"
        # A purge by URL is of all of them.
        count = 3 if way == "preserved" else 2
        assert len(script.requests) == count
        assert cache_of(caching).purge(url=f"{origin.url}/a") == count


@SERVERS
async def test_a_client_that_leaves_a_relay_leaves_the_fetch_to_others(caching: Edges, server: str) -> None:
    script = NumberedOrigin(numbered(), 1)
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        app = app_of(("/{path:.*}", gateway.relay))
        async with serving(caching, server, app) as port, client_of(port) as first:
            await first.get("/a")
            await in_time(script.asked.wait())
            first.abort()
            async with client_of(port) as second:
                before = caching.engine.stats()

                def has_asked() -> bool:
                    now = caching.engine.stats()
                    # What a site hands over is no request of Python's.
                    return now.wakeups > before.wakeups if server == "site" else now.requests == 2

                await second.get("/a")
                await until(has_asked, "it has asked")
                script.go.set()
                assert await in_time(second.body(await in_time(second.head()))) == b"1"
            assert script.targets == ["/a"]


def options() -> list[Callable[[penstock.Engine | None], object]]:
    return [
        lambda engine: Gateway("http://o", engine=engine, caching=Caching()),
        lambda engine: Gateway("http://o", engine=engine or penstock.default_engine()).native(
            "/", caching=Caching()
        ),
        lambda engine: (engine or penstock.default_engine()).get("http://o/", caching=Caching()),
        lambda engine: (engine or penstock.default_engine()).get("http://o/", overrides=Overrides()),
    ]


@pytest.mark.parametrize("make", options())
async def test_caching_without_a_cache_is_refused_at_once(
    make: Callable[[penstock.Engine | None], object],
) -> None:
    async with penstock.Engine(memory="4MiB") as engine:
        with pytest.raises(ConfigurationError):
            make(engine)


@pytest.mark.parametrize(
    "wrong", [{"key": "a"}, {"key": "/a\n"}, {"key": ""}, {"lifetime": -1}, {"tags": "ab"}, {"tags": ("",)}]
)
def test_overrides_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Overrides(**wrong)


async def test_overrides_without_caching_are_refused(caching: Edges) -> None:
    failures: asyncio.Queue[BaseException] = asyncio.Queue()

    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            return await caching.gateway("http://127.0.0.1:9").relay(request, overrides=Overrides(key="/a"))
        except ConfigurationError as error:
            failures.put_nowait(error)
            raise web.HTTPInternalServerError from None

    async with serving(caching, "site", app_of(("/", handler))) as port, client_of(port) as client:
        assert (await client.ask("/")).head.status == 500
        assert failures.qsize() == 1


async def test_a_native_route_without_an_engine_of_its_own_is_for_a_site(
    caching: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere the process's engine would serve it, which has no cache: that is said, and nothing is fetched."""
    script = NumberedOrigin(numbered())
    async with ScriptedOrigin(script) as origin, penstock.Engine(memory="4MiB") as default:
        monkeypatch.setattr("penstock.web.handler.default_engine", lambda: default)
        for server, status in (("site", 200), ("stock", 500)):
            app = web.Application()
            app.add_routes([Gateway(origin.url).native("/", caching=Caching())])
            async with serving(caching, server, app) as port, client_of(port) as client:
                assert (await client.ask("/a")).head.status == status
        assert script.targets == ["/a"]
