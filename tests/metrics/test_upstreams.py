"""What is counted of several origins that stand in for one another, by what they are known together and one by one."""

import asyncio
import gc

import pytest
from aiohttp import web

import penstock
from penstock import Origin, Origins
from penstock.config import Check, Health, Retries
from penstock.web import Gateway
from support.backends import Backend, Backends, film
from support.scraping import Metrics
from support.waiting import in_time

from .conftest import Serve, Served

TOGETHER = "http://media.example"


async def ask(served: Served, path: str) -> tuple[int, bytes]:
    client = await served.connect()
    try:
        reply = await client.ask(path)
        return reply.head.status, reply.body
    finally:
        client.abort()


def one(metrics: Metrics, name: str, backend: Backend, upstream: str = TOGETHER) -> float:
    return metrics.get(f"upstream_origin_{name}", upstream=upstream, origin=backend.url)


@pytest.mark.parametrize("lane", ["native", "application"])
async def test_retries_ejections_and_weights(engine: penstock.Engine, serve: Serve, lane: str) -> None:
    async with Backends(2) as (a, b):
        a.mode = 500
        health = Health(failures=1, eject=600.0, max_eject=600.0)
        retries = Retries(budget_percent=0, budget_per_second=1)
        origins = Origins([a.url, Origin(b.url, weight=3)], name=TOGETHER, health=health, retries=retries)
        gateway = Gateway(origins, engine=engine)
        app = web.Application()
        if lane == "native":
            app.add_routes([gateway.native("/")])
        else:
            app.router.add_get("/{path:.*}", gateway.relay)
        served = await serve(engine, app)
        before = await served.pages.metrics()
        if lane == "native":
            assert one(before, "weight", a) == 1
            assert one(before, "ejected_seconds", a) == 0
        for number in range(8):
            assert await ask(served, f"/{number}") == (200, film(f"/{number}"))
        metrics = await served.pages.metrics()
        assert metrics.get("upstream_requests_total", upstream=TOGETHER) == 8
        assert metrics.get("upstream_retries_total", upstream=TOGETHER) == 1
        assert metrics.get("upstream_ejections_total", upstream=TOGETHER) == 1
        assert metrics.get("upstream_hedges_total", upstream=TOGETHER) == 0
        assert metrics.get("upstream_resumptions_total", upstream=TOGETHER) == 0
        assert metrics.get("upstream_budget_left", upstream=TOGETHER) == origins.stats().budget_left
        assert (one(metrics, "requests_total", a), one(metrics, "requests_total", b)) == (1, 8)
        assert (one(metrics, "failures_total", a), one(metrics, "failures_total", b)) == (1, 0)
        assert (one(metrics, "weight", a), one(metrics, "weight", b)) == (0, 3)
        assert 500 < one(metrics, "ejected_seconds", a) <= 600
        assert (one(metrics, "ejected_seconds", b), one(metrics, "up", b)) == (0, 1)


async def test_a_hedge_is_counted_and_who_loses_to_it_has_failed(
    engine: penstock.Engine, serve: Serve
) -> None:
    async with Backends(2) as (a, b):
        a.mode = "hold"
        origins = Origins([a.url, b.url], name=TOGETHER, retries=Retries(hedge=0.05))
        app = web.Application()
        app.add_routes([Gateway(origins, engine=engine).native("/")])
        served = await serve(engine, app)
        assert await ask(served, "/a") == (200, film("/a"))
        metrics = await served.pages.metrics()
        assert metrics.get("upstream_requests_total", upstream=TOGETHER) == 1
        assert metrics.get("upstream_hedges_total", upstream=TOGETHER) == 1
        assert metrics.get("upstream_retries_total", upstream=TOGETHER) == 0
        assert (one(metrics, "requests_total", a), one(metrics, "requests_total", b)) == (1, 1)
        assert (one(metrics, "failures_total", a), one(metrics, "failures_total", b)) == (1, 0)


async def test_what_is_under_way_and_over_the_budget(engine: penstock.Engine, serve: Serve) -> None:
    async with Backends(2) as (a, b):
        retries = Retries(hedge=0.05, budget_percent=0, budget_per_second=0)
        health = Health(failures=None, failure_percent=None)
        origins = Origins([a.url, b.url], name=TOGETHER, health=health, retries=retries)
        app = web.Application()
        app.add_routes([Gateway(origins, engine=engine).native("/")])
        served = await serve(engine, app)
        a.mode = "hold"
        client = await served.connect()
        await client.get("/a")
        metrics = await served.pages.until(
            lambda metrics: metrics.get("upstream_over_budget_total", upstream=TOGETHER) == 1,
            "the hedge is not within the budget",
        )
        assert metrics.get("upstream_budget_left", upstream=TOGETHER) == 0
        assert (one(metrics, "requests_active", a), one(metrics, "requests_active", b)) == (1, 0)
        a.released.set()
        await in_time(client.body(await in_time(client.head())))
        client.abort()
        await served.pages.until(
            lambda metrics: one(metrics, "requests_active", a) == 0, "the request is over"
        )


async def test_the_rest_of_a_body_is_counted(engine: penstock.Engine, serve: Serve) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut reset"
        origins = Origins([a.url, b.url], name=TOGETHER)
        app = web.Application()
        app.add_routes([Gateway(origins, engine=engine).native("/")])
        served = await serve(engine, app)
        assert await ask(served, "/a") == (200, film("/a"))
        metrics = await served.pages.metrics()
        assert metrics.get("upstream_resumptions_total", upstream=TOGETHER) == 1
        assert one(metrics, "failures_total", a) == 1


async def test_what_checks_find_is_shown(engine: penstock.Engine, serve: Serve) -> None:
    async with Backends(2) as (a, b):
        check = Check(path="/check", interval=0.05, fall=1, rise=1)
        origins = Origins([a.url, b.url], name=TOGETHER, check=check)
        app = web.Application()
        app.add_routes([Gateway(origins, engine=engine).native("/")])
        served = await serve(engine, app)
        assert await ask(served, "/a") == (200, film("/a"))
        a.mode = 500
        metrics = await served.pages.until(lambda metrics: one(metrics, "up", a) == 0, "a is down")
        assert (one(metrics, "weight", a), one(metrics, "up", b)) == (0, 1)


async def test_what_is_declared_again_goes_on_counting(engine: penstock.Engine, serve: Serve) -> None:
    async with Backends(2) as (a, b):
        for total in (1, 2, 3):
            origins = Origins([a.url, b.url], name=TOGETHER)
            app = web.Application()
            app.add_routes([Gateway(origins, engine=engine).native("/")])
            served = await serve(engine, app)
            assert await ask(served, "/a") == (200, film("/a"))
            metrics = await served.pages.metrics()
            assert metrics.get("upstream_requests_total", upstream=TOGETHER) == total
            assert one(metrics, "requests_total", a) == total
            await served.runner.cleanup()
            del origins, app, served
            await asyncio.sleep(0)
            gc.collect()
