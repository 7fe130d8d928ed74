"""A parent before one worker, whose engines are two: what the worker's own has nothing of has not come to the worker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import Origins, config
from penstock.web import Gateway

from .client import RawClient
from .family import Family, Worker
from .leaks import engine_under_test, forget
from .waiting import until
from .worker_ends import EdgeEnd
from .worker_ends import Worker as WorkerEnd


class Relaying:
    """The parent, the worker, and their clients."""

    def __init__(self, family: Family, worker: Worker, own: penstock.Engine) -> None:
        self.family = family
        self.worker = worker
        self.own = own
        self.edge = EdgeEnd(family.engine, family.declarations.plan, family.declarations.feed)
        self._sites: list[WorkerEnd] = []
        self._runners: list[web.AppRunner] = []
        self._clients: list[RawClient] = []

    def gateway(self, origin: str | Origins, **options: Any) -> Gateway:
        with self.worker.inside():
            return Gateway(origin, engine=self.own, **options)

    async def inspecting(self, origin: str, **options: Any) -> Gateway:
        """As `gateway`; the first relay that is inspected would wait for the parent, which is on this loop."""
        gateway = self.gateway(origin, **options)
        await asyncio.to_thread(self.worker.declared.number, gateway)
        return gateway

    async def serve(self, handler: Callable[[web.Request], Any], *prepare: Callable[..., Any]) -> WorkerEnd:
        """Serve `handler` for every path, with what is called before each response."""
        app = web.Application()
        app.on_response_prepare.extend(prepare)
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._runners.append(runner)
        site = WorkerEnd(runner, self.own)
        self._sites.append(site)
        await self.edge.workers.add(len(self._sites), 0, site.path)
        return site

    async def connect(self) -> RawClient:
        client = await RawClient.connect(self.edge.port)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.abort()
        await self.edge.close()
        for runner in self._runners:
            await runner.cleanup()


@pytest.fixture
async def family(request: pytest.FixtureRequest) -> AsyncIterator[Family]:
    async with engine_under_test(
        request, cache=config.Cache(memory="4MiB"), limits=config.OriginLimits(idle_timeout=30)
    ) as engine:
        family = Family(engine)
        yield family
        await family.close()
        del family


@pytest.fixture
async def relaying(request: pytest.FixtureRequest, family: Family) -> AsyncIterator[Relaying]:
    worker = await family.worker()
    family.ready(worker)
    with worker.inside():
        own = await asyncio.to_thread(penstock.Engine, memory="16MiB", threads=1)
    async with own:
        relaying = Relaying(family, worker, own)
        yield relaying
        await relaying.close()
        del relaying
        forget(request)
        await until(lambda: own.stats().pool.live_bytes == 0, "every slab of the worker is back")
