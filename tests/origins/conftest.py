"""Several origins behind one route, through real sockets, on each way that a request takes through penstock."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import Origins, config
from penstock.web import Gateway, Site
from support.client import RawClient
from support.leaks import engine_under_test

WAYS = {
    "native": ("native", 1),
    "native on three threads": ("native", 3),
    "application on three threads": ("application", 3),
    "cache": ("cache", 1),
    "stock": ("stock", 1),
}


@dataclass
class Front:
    """Serves every path from origins, in one way, until the test ends."""

    engine: penstock.Engine
    way: str
    runners: list[web.AppRunner] = field(default_factory=list)
    clients: list[RawClient] = field(default_factory=list)

    @property
    def is_cached(self) -> bool:
        return self.way == "cache"

    async def serve(self, origins: Origins | str, **options: Any) -> int:
        """The port of a site that relays to `origins`."""
        caching = config.Caching(lifetime=3600) if self.is_cached else None
        gateway = Gateway(origins, engine=self.engine, caching=caching, **options)
        app = web.Application()
        if self.way == "application":
            app.router.add_route("*", "/{path:.*}", gateway.relay)
        else:
            app.add_routes([gateway.native("/")])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self.runners.append(runner)
        if self.way == "stock":
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port: int = runner.addresses[0][1]
            return port
        site = Site(runner, host="127.0.0.1", port=0, engine=self.engine)
        await site.start()
        return site.port

    async def connect(self, port: int) -> RawClient:
        client = await RawClient.connect(port)
        self.clients.append(client)
        return client

    async def close(self) -> None:
        for client in self.clients:
            client.abort()
        for runner in self.runners:
            await runner.cleanup()


async def _front(request: pytest.FixtureRequest) -> AsyncIterator[Front]:
    way, threads = WAYS[request.param]
    async with engine_under_test(
        request,
        threads=threads,
        limits=config.OriginLimits(idle_timeout=30),
        cache=config.Cache(memory="8MiB") if way == "cache" else None,
    ) as engine:
        front = Front(engine, way)
        yield front
        await front.close()
        del front


front = pytest.fixture(_front, params=WAYS, name="front")
"""A way in, each in turn."""

cached = pytest.fixture(_front, params=["cache"], name="cached")
"""A native route with a cache."""

native = pytest.fixture(_front, params=["native", "native on three threads"], name="native")
"""A native route, for what does not depend on the way."""
