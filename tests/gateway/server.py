"""Serves gateways for tests, as `web.run_app` would, and keeps what became of each relay."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web, web_app
from aiohttp.typedefs import Handler

import penstock
from penstock.web import Gateway


@dataclass
class Served:
    port: int
    runner: web.AppRunner
    outcomes: "asyncio.Queue[web.StreamResponse | BaseException]" = field(default_factory=asyncio.Queue)
    """What each relay returned or raised, in order."""


class Serving:
    def __init__(self, engine: penstock.Engine) -> None:
        self.engine = engine
        self._served: list[Served] = []

    async def gateway(self, origin: str, *, server: dict[str, Any] | None = None, **options: Any) -> Served:
        """Serve a gateway for every path and method."""
        return await self.handler(Gateway(origin, engine=self.engine, **options).relay, server=server)

    async def handler(self, handler: Handler, *, server: dict[str, Any] | None = None) -> Served:
        """Serve one handler for every path and method."""
        outcomes: asyncio.Queue[web.StreamResponse | BaseException] = asyncio.Queue()

        async def observed(request: web.Request) -> web.StreamResponse:
            try:
                response = await handler(request)
            except BaseException as error:
                outcomes.put_nowait(error)
                raise
            outcomes.put_nowait(response)
            return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", observed)
        served = await self.app(app, server=server)
        served.outcomes = outcomes
        return served

    async def app(self, app: web.Application, *, server: dict[str, Any] | None = None) -> Served:
        options = {"access_log": None, "shutdown_timeout": 0.2, **(server or {})}
        runner = web.AppRunner(app, **options)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._served.append(Served(runner.addresses[0][1], runner))
        return self._served[-1]

    async def close(self) -> None:
        for served in self._served:
            await served.runner.cleanup()
        # aiohttp caches the handlers of applications that have middlewares, and so what they refer to.
        web_app._cached_build_middleware.cache_clear()
