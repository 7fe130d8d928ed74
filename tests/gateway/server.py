"""Serves gateways for tests, as `web.run_app` would, and keeps what became of each relay."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web, web_app
from aiohttp.typedefs import Handler

import penstock
from penstock.web import Gateway, RelayEnd, Site
from support.family import Family
from support.worker_ends import EdgeEnd, Worker

Prepare = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


@dataclass
class Served:
    port: int
    runner: web.AppRunner
    outcomes: "asyncio.Queue[web.StreamResponse | BaseException]" = field(default_factory=asyncio.Queue)
    """What each handler returned or raised, in order."""
    ends: "asyncio.Queue[RelayEnd]" = field(default_factory=asyncio.Queue)
    """What became of each relay, in order."""

    async def error(self) -> BaseException | None:
        """Why the next relay to end has not ended well."""
        return (await self.ends.get()).error


class Serving:
    def __init__(self, engine: penstock.Engine, transport: str = "stock") -> None:
        self.engine = engine
        self.transport = transport
        self._served: list[Served] = []
        self._edges: list[tuple[EdgeEnd, Worker]] = []
        self._family: Family | None = None

    async def gateway(
        self, origin: str, *prepare: Prepare, server: dict[str, Any] | None = None, **options: Any
    ) -> Served:
        """Serve a gateway for every path and method, with what is called before each response."""
        with await self._where():
            gateway = Gateway(origin, engine=self.engine, **options)
        ends: asyncio.Queue[RelayEnd] = asyncio.Queue()
        served = await self.handler(
            lambda request: gateway.relay(request, on_complete=ends.put_nowait), *prepare, server=server
        )
        served.ends = ends
        return served

    async def handler(
        self, handler: Handler, *prepare: Prepare, server: dict[str, Any] | None = None
    ) -> Served:
        """Serve one handler for every path and method, with what is called before each response."""
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
        app.on_response_prepare.extend(prepare)
        app.router.add_route("*", "/{path:.*}", observed)
        served = await self.app(app, server=server)
        served.outcomes = outcomes
        return served

    async def app(self, app: web.Application, *, server: dict[str, Any] | None = None) -> Served:
        options = {"access_log": None, "shutdown_timeout": 0.2, **(server or {})}
        runner = web.AppRunner(app, **options)
        await runner.setup()
        if self.transport == "workers":
            return await self._behind_an_edge(runner)
        site: web.BaseSite
        if self.transport == "site":
            site = Site(runner, "127.0.0.1", 0, engine=self.engine)
        else:
            site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._served.append(Served(runner.addresses[0][1], runner))
        return self._served[-1]

    async def _where(self) -> AbstractContextManager[None]:
        """Where an application is: with workers in one of them, whose parent fetches what it relays."""
        if self.transport != "workers":
            return nullcontext()
        if self._family is None:
            self._family = Family(self.engine)
            self._family.ready(await self._family.worker())
        return self._family.workers[0].inside()

    async def _behind_an_edge(self, runner: web.AppRunner) -> Served:
        worker = Worker(runner, self.engine)
        edge = EdgeEnd(self.engine, None if self._family is None else self._family.declarations.plan)
        self._edges.append((edge, worker))
        await edge.workers.add(1, 0, worker.path)
        self._served.append(Served(edge.port, runner))
        return self._served[-1]

    async def close(self) -> None:
        for edge, worker in self._edges:
            await edge.close(worker)
        for served in self._served:
            await served.runner.cleanup()
        if self._family is not None:
            await self._family.close()
            self._family = None
        # aiohttp caches the handlers of applications that have middlewares, and so what they refer to.
        web_app._cached_build_middleware.cache_clear()
