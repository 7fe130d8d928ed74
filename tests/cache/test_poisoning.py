"""What one client sends shapes nothing that another gets, though the origin echoes all it received in what may be
stored: it is in the key, named in Vary, or not sent.

Where the meaning must not depend on who serves a route, each test is one of every way to a client; that of worker
processes is in `workers/test_relays.py`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from penstock.config import Caching, Forwarding, Overrides
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, Site
from support.client import RawClient
from support.echo import EVIL, NAMES, ask, echoed, get
from support.edges import Edges
from support.origins import NumberedOrigin

WAYS = pytest.mark.parametrize(
    ("server", "lane"),
    [("site", "native"), ("site", "app"), ("stock", "native"), ("stock", "app")],
    ids=["native route", "relay", "native route on a stock server", "relay on a stock server"],
)


@asynccontextmanager
async def serving(
    edges: Edges, server: str, lane: str, gateway: Gateway, headers: dict[str, str] | None = None
) -> AsyncIterator[int]:
    app = web.Application()
    if lane == "native":
        app.add_routes([gateway.native("/", headers=headers)])
    else:
        app.router.add_route("*", "/{path:.*}", partial(gateway.relay, headers=headers))
    async with running(edges, server, app) as port:
        yield port


@asynccontextmanager
async def running(edges: Edges, server: str, app: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site: web.BaseSite = (
        Site(runner, "127.0.0.1", 0, engine=edges.engine)
        if server == "site"
        else web.TCPSite(runner, "127.0.0.1", 0)
    )
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@WAYS
async def test_no_client_shapes_what_another_gets(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            shaping = {name: lambda path, name=name: get(path, f"{name}: {EVIL}") for name in NAMES}
            shaping["Host"] = lambda path: get(path, host=EVIL)
            shaping["its port"] = lambda path: get(path, host="honest.test:6666")
            shaping["version"] = lambda path: get(path, version="1.0")
            if server == "site":
                shaping["an absolute target"] = lambda path: get(f"http://{EVIL}{path}")
            for number, (what, raw) in enumerate(shaping.items()):
                path = f"/{number}"
                poisoned = await ask(port, raw(path))
                honest = await ask(port, get(path))
                for part in (EVIL, "6666", "1.0 penstock"):
                    assert part not in poisoned, what
                    assert part not in honest, what
            await ask(port, get("/address"), source="127.0.0.66")
            assert "127.0.0.66" not in await ask(port, get("/address"))


@WAYS
async def test_what_vary_names_is_sent_and_tells_answers_apart(
    caching: Edges, server: str, lane: str
) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed("Vary: X-Kind, Accept-Language"))) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            for kind in ("one", "two", "one"):
                assert f"X-Kind: {kind}" in await ask(port, get("/", f"X-Kind: {kind}"))
            assert "X-Kind" not in await ask(port, get("/"))
            assert len(origin.requests) == 3


@WAYS
async def test_the_scheme_that_a_proxy_tells_is_in_the_key(caching: Edges, server: str, lane: str) -> None:
    """Who is asked by https and told nothing of it redirects for ever."""
    trusting = Forwarding(trust_incoming=True)
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(), forwarding=trusting)
        async with serving(caching, server, lane, gateway) as port:
            for _ in range(2):
                secure = await ask(port, get("/", "X-Forwarded-Proto: https", "X-Forwarded-Host: h"))
                assert "X-Forwarded-Proto: https" in secure
                assert "X-Forwarded-Host" not in secure
                for other in ((), ("X-Forwarded-Proto: http",), (f"X-Forwarded-Proto: {EVIL}",)):
                    assert "X-Forwarded-Proto" not in await ask(port, get("/", *other))
            assert len(origin.requests) == 2


@WAYS
async def test_a_host_that_is_kept_is_in_the_key(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(), forwarding=Forwarding(preserve_host=True))
        async with serving(caching, server, lane, gateway) as port:
            for host in (EVIL, "honest.test", EVIL, "honest.test:8080"):
                assert f"Host: {host}\n" in await ask(port, get("/", host=host)) + "\n"
            assert len(origin.requests) == 3


@WAYS
async def test_an_operator_may_have_them_sent(caching: Edges, server: str, lane: str) -> None:
    """And the fields that tell what was asked for are in the key then."""
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(drop_fields=()))
        async with serving(caching, server, lane, gateway) as port:
            for host in (EVIL, "honest.test", EVIL):
                body = await ask(port, get("/", host=host))
                assert f"X-Forwarded-Host: {host}" in body
                assert "X-Forwarded-For: 127.0.0.1" in body
            assert len(origin.requests) == 2


@WAYS
async def test_an_operator_may_have_nothing_sent_but_what_is_named(
    caching: Edges, server: str, lane: str
) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(keep_fields=("X-Kept*", "Accept_Language")))
        async with serving(caching, server, lane, gateway) as port:
            fields = (
                "X-Kept-This: 1",
                "Accept-Language: sv",
                "User-Agent: u",
                "Cookie: c",
                "Authorization: a",
            )
            body = await ask(port, get("/", *fields))
            assert ("X-Kept-This: 1" in body, "Accept-Language: sv" in body) == (True, True)
            assert ("User-Agent" in body, "Cookie" in body, "X-Forwarded" in body) == (False, False, False)
            assert "Authorization: a" in body


@WAYS
async def test_what_the_operator_sets_is_sent(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway, {"X-Forwarded-Host": "cdn.test"}) as port:
            for host in (EVIL, "honest.test"):
                assert "X-Forwarded-Host: cdn.test" in await ask(port, get("/", host=host))
            assert len(origin.requests) == 1


@WAYS
async def test_what_is_not_stored_has_all_of_them(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            body = await ask(port, get("/", "Content-Length: 0").replace("GET", "PUT"))
            assert "X-Forwarded-Host: honest.test" in body
            assert "X-Forwarded-For: 127.0.0.1" in body


@WAYS
async def test_a_post_that_answers_gets_is_told_who_asks_and_not_by_which_host(
    caching: Edges, server: str, lane: str
) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed("Content-Location: /"))) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            raw = get("/", "Content-Length: 0", f"X-Original-URL: /{EVIL}", host=EVIL)
            posted = await ask(port, raw.replace("GET", "POST"))
            assert "X-Forwarded-For: 127.0.0.1" in posted
            assert EVIL not in posted
            assert await ask(port, get("/")) == posted


QUERIES = {
    "dropped": (Caching(), f"x=1&CMCD={EVIL}&y=2", "x=1&y=2"),
    "dropped, alone": (Caching(), f"CMCD={EVIL}", ""),
    "dropped by a pattern": (Caching(drop_parameters=("s*",)), f"session={EVIL}&x=1&s", "x=1"),
    "not kept": (Caching(keep_parameters=("x",)), f"x=1&callback={EVIL}", "x=1"),
    "none kept": (Caching(keep_parameters=()), f"callback={EVIL}", ""),
    "sorted": (Caching(sort_parameters=True), "b=1&a=2&b=0&&", "a=2&b=1&b=0"),
}


@WAYS
@pytest.mark.parametrize("query", QUERIES)
async def test_what_of_a_query_is_not_in_the_key_is_not_sent(
    caching: Edges, server: str, lane: str, query: str
) -> None:
    policy, sent, left = QUERIES[query]
    target = f"/a?{left}" if left else "/a"
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=policy)
        async with serving(caching, server, lane, gateway) as port:
            poisoned = await ask(port, get(f"/a?{sent}"))
            assert poisoned == await ask(port, get(target))
            assert [request.target for request in origin.requests] == [target]
            # What a client asks for anew is asked for without it too.
            await ask(port, get(f"/a?{sent}", "Cache-Control: no-cache"))
            await ask(port, get(f"/a?{sent}", "Cache-Control: no-store"))
            assert {request.target for request in origin.requests} == {target}


@WAYS
async def test_head_and_ranges_are_asked_for_without_it(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(range_fill="asked"))
        async with serving(caching, server, lane, gateway) as port:
            head = get(f"/a?CMCD={EVIL}").replace("GET", "HEAD")
            client = await RawClient.connect(port)
            await client.send(head.encode())
            assert (await client.head()).status == 200
            client.abort()
            client = await RawClient.connect(port)
            await client.send(get(f"/b?CMCD={EVIL}", "Range: bytes=0-3").encode())
            assert (await client.head()).status == 206
            client.abort()
            assert [request.target for request in origin.requests] == ["/a", "/b"]


@WAYS
async def test_a_post_that_answers_gets_is_sent_without_it(caching: Edges, server: str, lane: str) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed("Content-Location: /a?x=1"))) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            raw = get(f"/a?CMCD={EVIL}&x=1", "Content-Length: 0")
            posted = await ask(port, raw.replace("GET", "POST"))
            assert EVIL not in posted
            assert await ask(port, get("/a?x=1")) == posted


@WAYS
async def test_what_passes_the_cache_is_sent_the_whole_query(caching: Edges, server: str, lane: str) -> None:
    target = "/a?b=1&CMCD=x&a=2"
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching(sort_parameters=True))
        async with serving(caching, server, lane, gateway) as port:
            for method in ("PUT", "DELETE", "OPTIONS"):
                await ask(port, get(target, "Content-Length: 0").replace("GET", method))
        async with serving(caching, server, lane, caching.gateway(origin.url)) as port:
            await ask(port, get(target))
        assert [request.target for request in origin.requests] == [target] * 4


@pytest.mark.parametrize("server", ["site", "stock"])
async def test_a_key_of_a_handler_leaves_the_rest_of_the_rule(caching: Edges, server: str) -> None:
    """And a bypass sends all."""
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())

        async def relay(request: web.Request) -> web.StreamResponse:
            bypass = "bypass" in request.query
            overrides = Overrides(bypass=True) if bypass else Overrides(key="/vod/7")
            return await gateway.relay(request, overrides=overrides)

        app = web.Application()
        app.router.add_get("/{path:.*}", relay)
        async with running(caching, server, app) as port:
            poisoned = await ask(port, get(f"/a?CMCD={EVIL}&x=1"))
            assert poisoned == await ask(port, get("/b"))
            await ask(port, get("/a?CMCD=c&bypass"))
            assert [request.target for request in origin.requests] == ["/a?x=1", "/a?CMCD=c&bypass"]


@WAYS
async def test_cookies_that_vary_names_tell_answers_apart_and_none_is_given_to_another(
    caching: Edges, server: str, lane: str
) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed("Vary: Cookie"))) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            assert EVIL in await ask(port, get("/", f"Cookie: theme={EVIL}"))
            assert EVIL not in await ask(port, get("/", "Cookie: theme=dark"))
            assert EVIL not in await ask(port, get("/"))
    async with ScriptedOrigin(NumberedOrigin(echoed(f"Set-Cookie: theme={EVIL}"))) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            assert EVIL in await ask(port, get("/", f"Cookie: theme={EVIL}"))
            assert EVIL not in await ask(port, get("/"))


@WAYS
async def test_a_path_is_in_the_key_as_it_is_sent(caching: Edges, server: str, lane: str) -> None:
    """Two forms of one path, which an origin may take for one, are two keys."""
    async with ScriptedOrigin(NumberedOrigin(echoed())) as origin:
        gateway = caching.gateway(origin.url, caching=Caching())
        async with serving(caching, server, lane, gateway) as port:
            for target in ("/a", "/%61", "/A", "/a?%43MCD=x", "/a?cmcd=x", "/a;CMCD=x", "/a/"):
                assert (await ask(port, get(target))).startswith(f"GET {target}\n")
