"""A parent before one worker, whose engines are two: what the worker's own has nothing of has not come to the worker."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

import penstock
from penstock import Origins
from penstock.web import Gateway
from support.client import RawClient

from . import ends
from .family import Family, Worker


class Relaying:
    """The parent, the worker, and their clients."""

    def __init__(self, family: Family, worker: Worker, own: penstock.Engine) -> None:
        self.family = family
        self.worker = worker
        self.own = own
        self.edge = ends.EdgeEnd(family.engine, family.declarations.plan, family.declarations.feed)
        self._sites: list[ends.Worker] = []
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

    async def serve(self, handler: Callable[[web.Request], Any], *prepare: Callable[..., Any]) -> ends.Worker:
        """Serve `handler` for every path, with what is called before each response."""
        app = web.Application()
        app.on_response_prepare.extend(prepare)
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._runners.append(runner)
        site = ends.Worker(runner, self.own)
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
