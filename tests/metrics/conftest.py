"""Sites with pages about their engine, on one engine thread and on three."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from aiohttp import web

import penstock
from penstock.config import Edge, Status
from penstock.web import Site
from support.client import RawClient
from support.leaks import engine_under_test
from support.scraping import Pages


@dataclass
class Served:
    runner: web.AppRunner
    site: Site
    pages: Pages

    async def connect(self) -> RawClient:
        return await RawClient.connect(self.site.port)


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[penstock.Engine]:
    """Without a cache."""
    async with engine_under_test(request, threads=request.param) as engine:
        yield engine


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves an application, with pages, until the test ends."""
    runners: list[web.AppRunner] = []

    async def serve(
        engine: penstock.Engine,
        app: web.Application,
        *,
        edge: Edge | None = None,
        status: Status | None = None,
        shutdown: float = 0.2,
    ) -> Served:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown)
        await runner.setup()
        runners.append(runner)
        status = status or Status(listen="127.0.0.1:0")
        site = Site(runner, "127.0.0.1", 0, engine=engine, edge=edge, status=status)
        await site.start()
        assert site.status_url is not None
        return Served(runner, site, Pages(site.status_url))

    yield serve
    for runner in runners:
        await runner.cleanup()
