"""What is counted of decisions and of tenants, by route."""

import asyncio

from aiohttp import web

import penstock
from penstock.config import Access, TenantLimits
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.hooks import OK, TOKEN, Hook
from support.origins import Recorder
from support.scraping import Metrics
from support.waiting import in_time, until

from .conftest import Serve, Served


async def ask(served: Served, path: str, token: str) -> int:
    client = await served.connect()
    try:
        return (await client.ask(path, f"Token: {token}")).head.status
    finally:
        client.abort()


def lookups(metrics: Metrics, route: str) -> dict[str, float]:
    results = ("hit", "denied_hit", "asked", "joined")
    return {result: metrics.get("decision_lookups_total", route=route, result=result) for result in results}


async def test_decisions_that_two_routes_share_are_told_apart(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder(response=OK)) as origin:
        hook = Hook(gate=asyncio.Event())
        gateway = Gateway(origin.url, engine=engine)
        # The third leaves no room for the second, which was not used again.
        access = Access(decisions=2, denials=1)
        live = gateway.native("/live/", name="live", authorise=hook, decision_key=TOKEN, access=access)
        decisions = live.decisions
        assert decisions is not None
        vod = gateway.native("/vod/", name="vod", authorise=decisions)
        app = web.Application()
        app.add_routes([live, vod])
        served = await serve(engine, app)
        both = [asyncio.create_task(ask(served, "/live/a", "good-a")) for _ in range(3)]
        await until(lambda: decisions.stats().joined == 2, "they wait for one answer")
        metrics = await served.pages.metrics()
        assert metrics.get("decision_questions_open", route="live") == 1
        assert metrics.get("decision_questions_open", route="vod") == 0
        assert hook.gate is not None
        hook.gate.set()
        assert await asyncio.gather(*both) == [200, 200, 200]
        for path, token, status in (
            ("/live/a", "good-a", 200),
            ("/live/a", "bad", 403),
            ("/live/a", "bad", 403),
            ("/vod/a", "good-a", 200),
            ("/vod/a", "good-b", 200),
        ):
            assert await ask(served, path, token) == status
        metrics = await served.pages.metrics()
        assert lookups(metrics, "live") == {"hit": 1, "denied_hit": 1, "asked": 2, "joined": 2}
        assert lookups(metrics, "vod") == {"hit": 0, "denied_hit": 0, "asked": 2, "joined": 0}
        assert metrics.get("decision_seconds_count", route="live") == 2
        assert metrics.get("decision_seconds_count", route="vod") == 2
        assert metrics.get("decisions_remembered", route="live", verdict="allow") == 1
        assert metrics.get("decisions_remembered", route="live", verdict="deny") == 1
        assert metrics.get("decisions_remembered", route="vod", verdict="allow") == 1
        assert metrics.get("decision_evictions_total", route="vod") == 1
        decisions.revoke(everybody=True)
        metrics = await served.pages.metrics()
        assert metrics.get("decision_revocations_total", route="live") == 2
        assert metrics.get("decision_revocations_total", route="vod") == 1
        assert metrics.get("decisions_remembered", route="vod", verdict="allow") == 0
        assert metrics.get("decision_failures_total", route="vod") == 0


async def test_a_question_that_is_not_answered_has_failed(engine: penstock.Engine, serve: Serve) -> None:
    def fail(request: penstock.web.NativeRequest) -> bool:
        raise ValueError(request.route)

    route = Gateway("http://127.0.0.1:1", engine=engine).native(
        "/", name="vod", authorise=fail, decision_key=TOKEN
    )
    app = web.Application()
    app.add_routes([route])
    served = await serve(engine, app)
    assert await ask(served, "/a", "any") == 500
    metrics = await served.pages.metrics()
    assert metrics.get("decision_failures_total", route="vod") == 1
    assert metrics.get("decision_seconds_count", route="vod") == 1
    assert lookups(metrics, "vod") == {"hit": 0, "denied_hit": 0, "asked": 1, "joined": 0}


async def test_tenants_are_counted_by_route_and_never_named(engine: penstock.Engine, serve: Serve) -> None:
    go = asyncio.Event()

    async def halves(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
            await go.wait()
            await peer.send(b"later")

    async with ScriptedOrigin(halves) as origin:
        gateway = Gateway(origin.url, engine=engine)
        limits = Access(tenant_limits=TenantLimits(streams=1))
        route = gateway.native("/vod/", name="vod", authorise=Hook(), decision_key=TOKEN, access=limits)
        app = web.Application()
        app.add_routes([route, gateway.native("/open/", name="open")])
        served = await serve(engine, app)
        clients = [await served.connect() for _ in range(2)]
        for number, client in enumerate(clients):
            await client.get("/vod/a", f"Token: good-tenant{number}")
            await in_time(client.head())
        assert await ask(served, "/vod/a", "good-tenant0") == 429
        assert await ask(served, "/vod/a", "bad") == 403
        metrics = await served.pages.until(
            lambda metrics: metrics.get("tenant_requests_total", route="vod", result="refused") == 1,
            "the refusal is counted",
        )
        assert metrics.get("tenant_requests_active", route="vod") == 2
        assert metrics.get("tenant_requests_total", route="vod", result="let_in") == 2
        assert metrics.get("decision_responses_running", route="vod") == 2
        go.set()
        for client in clients:
            assert await in_time(client.reader.readexactly(10)) == b"firstlater"
            client.abort()
        assert await ask(served, "/open/a", "any") == 200
        metrics = await served.pages.until(
            lambda metrics: metrics.get("tenant_requests_active", route="vod") == 0, "they have ended"
        )
        assert metrics.get("tenant_body_bytes_total", route="vod") == 20
        assert metrics.get("decision_responses_running", route="vod") == 0
        assert not metrics.has("tenant_requests_active", route="open"), "no client is on an account there"
        assert "tenant0" not in metrics.text
        assert route.decisions is not None
        assert {stats.bytes for stats in route.decisions.tenants().values()} == {10}


async def test_a_route_that_is_declared_anew_goes_on_counting(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder(response=OK)) as origin:
        for total in (1, 2):
            route = Gateway(origin.url, engine=engine).native(
                "/", name="vod", authorise=Hook(), decision_key=TOKEN
            )
            app = web.Application()
            app.add_routes([route])
            served = await serve(engine, app)
            assert await ask(served, "/a", "good-a") == 200
            metrics = await served.pages.metrics()
            assert lookups(metrics, "vod")["asked"] == total
            await served.runner.cleanup()
