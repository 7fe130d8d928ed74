"""Sites that an engine serves natively, and the fixtures `edge`, `anywhere` and `caching` of them."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import _native, config
from penstock.cache import Cache
from penstock.config import OriginLimits
from penstock.web import Gateway, Site
from penstock.web.native import NativeRoute, native_routes

from .client import RawClient
from .leaks import engine_under_test
from .waiting import until

DEFAULT = config.Edge()

Routes = Iterable[NativeRoute] | web.Application
"""Native routes, or an application that has some."""


@dataclass
class Served:
    """A way in, with a port of its own."""

    port: int
    site: _native.Site | None
    """None where a stock aiohttp runner serves the same routes."""

    @property
    def native(self) -> _native.Site:
        assert self.site is not None
        return self.site

    @property
    def connections(self) -> int:
        return self.native.counts().connections

    @property
    def requests(self) -> int:
        return self.native.counts().requests


class Edges:
    """Serves native routes, on sites of the engine's own or on stock runners, until the test ends."""

    def __init__(self, engine: penstock.Engine, *, stock: bool = False) -> None:
        self.engine = engine
        self.stock = stock
        self._sites: list[_native.Site] = []
        self._runners: list[web.AppRunner] = []
        self._clients: list[RawClient] = []

    def gateway(self, origin: str, **options: Any) -> Gateway:
        return Gateway(origin, engine=self.engine, **options)

    async def relay(
        self, origin: str, *, edge: config.Edge = DEFAULT, log: Path | None = None, **options: Any
    ) -> Served:
        """Serve every path from `origin`."""
        return await self.serve([self.gateway(origin).native("/", **options)], edge=edge, log=log)

    async def serve(self, routes: Routes, *, edge: config.Edge = DEFAULT, log: Path | None = None) -> Served:
        """Serve `routes` on a free port."""
        if not self.stock:
            site = self.site(routes, edge=edge, log=log)
            return Served(site.listen_tcp("127.0.0.1", 0)[1], site)
        runner = web.AppRunner(application(routes), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return Served(runner.addresses[0][1], None)

    def site(self, routes: Routes, *, edge: config.Edge = DEFAULT, log: Path | None = None) -> _native.Site:
        """A site that listens to nothing yet."""
        lines = None if log is None else _native.AccessLog(str(log))
        site = _native.Site(self.engine.native, edge, self.natives(routes), lines, None)
        self._sites.append(site)
        return site

    def natives(self, routes: Routes) -> list[_native.Route]:
        return native_routes(application(routes), self.engine)

    async def connect(self, served: Served, receive_buffer: int | None = None) -> RawClient:
        """A connection, which is closed when the test ends."""
        client = await RawClient.connect(served.port, receive_buffer)
        self.keep(client)
        return client

    def keep(self, client: RawClient) -> None:
        self._clients.append(client)

    async def close(self) -> None:
        for client in self._clients:
            client.abort()
        for site in self._sites:
            site.close()
        for runner in self._runners:
            await runner.cleanup()
        await until(
            lambda: all(site.counts().connections == 0 for site in self._sites), "every connection has ended"
        )


def application(routes: Routes) -> web.Application:
    if isinstance(routes, web.Application):
        return routes
    app = web.Application()
    app.add_routes(list(routes))
    return app


@asynccontextmanager
async def serving(edges: Edges, server: str, app: web.Application) -> AsyncIterator[int]:
    """The port of `app`, on the engine's sockets or on aiohttp's own."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    sites: dict[str, Callable[[], web.BaseSite]] = {
        "site": lambda: Site(runner, "127.0.0.1", 0, engine=edges.engine),
        "stock": lambda: web.TCPSite(runner, "127.0.0.1", 0),
    }
    await sites[server]().start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


THREADS = [pytest.param(1, id="one thread"), pytest.param(3, id="three threads")]


@asynccontextmanager
async def edges_of(
    request: pytest.FixtureRequest, *, stock: bool = False, **settings: Any
) -> AsyncIterator[Edges]:
    """The sites of a test, on an engine with `settings` of its own."""
    async with engine_under_test(request, **settings) as engine:
        edges = Edges(engine, stock=stock)
        yield edges
        await edges.close()
        del edges


async def edges_under_test(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    stock = request.param == "stock"
    # No origin's connection outlives its use by more than that, so that what is left is seen. It is taken with the head
    # of a request, so that tests can step through its body; tests/overload have the default.
    limits = OriginLimits(idle_timeout=30, upload_part=0)
    async with edges_of(request, stock=stock, threads=1 if stock else request.param, limits=limits) as edges:
        yield edges
        del edges


async def caching_under_test(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    limits, cache = OriginLimits(idle_timeout=30), config.Cache(memory="8MiB")
    async with edges_of(request, threads=request.param, limits=limits, cache=cache) as edges:
        yield edges
        del edges


edge = pytest.fixture(edges_under_test, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""

anywhere = pytest.fixture(
    edges_under_test, params=[*THREADS, pytest.param("stock", id="stock")], name="anywhere"
)
"""The same, and a stock runner that serves the same routes."""

caching = pytest.fixture(caching_under_test, params=THREADS, name="caching")
"""Sites whose engine has a cache."""


def app_of(*routes: tuple[str, Any]) -> web.Application:
    app = web.Application()
    for path, handler in routes:
        app.router.add_route("*", path, handler)
    return app


def cache_of(edges: Edges) -> Cache:
    assert edges.engine.cache is not None
    return edges.engine.cache
