"""aiohttp applications on the engine's sockets: raw clients in front, on asyncio and on uvloop, on one engine thread
and on three."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web, web_app
from aiohttp.typedefs import Handler

import penstock
from penstock.config import Edge, OriginLimits
from penstock.web import Site
from support.client import RawClient
from support.leaks import engine_under_test
from support.loops import both_loops, leave_out


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A loop is woken alike by one thread and by three.
    leave_out(items, "engine", {(1, "uvloop"), (3, "asyncio")})


pytest_asyncio_loop_factories = both_loops


@dataclass
class Served:
    runner: web.AppRunner
    site: Site

    @property
    def port(self) -> int:
        return self.site.port

    def counts(self) -> tuple[int, int, int]:
        """Requests that wait, handlers that are idle, streams that the engine sends alone."""
        return self.site._server.lane.counts()

    def connections(self) -> int:
        return self.site._server.site.counts().connections


Serve = Callable[..., Awaitable[Served]]
Connect = Callable[..., Awaitable[RawClient]]


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[penstock.Engine]:
    """A small engine."""
    limits = OriginLimits(upload_part=0)
    async with engine_under_test(request, threads=request.param, limits=limits) as engine:
        yield engine


@pytest.fixture
async def serve(engine: penstock.Engine) -> AsyncIterator[Serve]:
    """Serves a handler for every path and method, or an application, until the test ends."""
    runners: list[web.AppRunner] = []

    async def serve(
        what: Handler | web.Application,
        *,
        server: dict[str, Any] | None = None,
        edge: Edge | None = None,
        **where: Any,
    ) -> Served:
        app = what
        if not isinstance(app, web.Application):
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", what)
        options = {"access_log": None, "shutdown_timeout": 0.2, **(server or {})}
        runner = web.AppRunner(app, **options)
        await runner.setup()
        runners.append(runner)
        site = Site(runner, **(where or {"host": "127.0.0.1", "port": 0}), engine=engine, edge=edge)
        await site.start()
        return Served(runner, site)

    yield serve
    for runner in runners:
        await runner.cleanup()
    # aiohttp caches the handlers of applications that have middlewares, and so what they refer to.
    web_app._cached_build_middleware.cache_clear()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens raw connections, which are closed when the test ends."""
    clients: list[RawClient] = []

    async def connect(served: Served, receive_buffer: int | None = None) -> RawClient:
        clients.append(await RawClient.connect(served.port, receive_buffer))
        return clients[-1]

    yield connect
    for client in clients:
        client.abort()
