"""Large bodies that the kernel moves from an origin's socket to a client's: by a native route, and by the application's
lane where the handler is `Gateway.relay` itself."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from support.leaks import engine_under_test
from support.ways import Relay, Way

WAYS = [("native", 1), ("native", 3), ("app", 1)]


class Splicing(Way):
    async def relay(self, origin: str, **options: Any) -> Relay:
        gateway = await self.gateway(origin, **options)
        app = web.Application()
        if self.is_route:
            app.add_routes([gateway.native("/")])
        else:
            app.router.add_route("*", "/{path:.*}", gateway.relay)
        return await self.serve(app)

    @property
    def spliced(self) -> int:
        return self.engine.stats().bytes_spliced


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}, {way[1]} threads")
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Splicing]:
    name, threads = request.param
    async with engine_under_test(request, threads=threads) as engine:
        way = Splicing(engine, name)
        yield way
        await way.close()
        del way
