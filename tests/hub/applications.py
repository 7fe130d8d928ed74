"""Applications that let clients subscribe, on the engine's sockets, on stock transports, and behind an edge."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

import penstock
from penstock import Hub
from penstock.config import History
from penstock.web import Gateway, Site
from support.client import RawClient
from support.family import Family
from support.subscribers import Reader
from support.waiting import in_time, until
from support.worker_ends import EdgeEnd, Worker

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Served:
    """An application, and clients of it."""

    def __init__(self, engine: penstock.Engine, transport: str) -> None:
        self.engine = engine
        self.hub = Hub(engine=engine, history=History(memory="2MiB"))
        self.owner = self.hub
        """Whose the topics are, which is another one if the application is a worker's."""
        self.transport = transport
        self.clients: list[RawClient] = []
        self.runners: list[web.AppRunner] = []
        self._family: Family | None = None
        self._edges: list[tuple[EdgeEnd, Worker]] = []

    async def start(self) -> None:
        """Have the application be a worker's, if it is to be."""
        if self.transport != "workers":
            return
        self._family = Family(self.engine)
        worker = await self._family.worker()
        self._family.ready(worker)
        with worker.inside():
            self.hub = Hub(engine=self.engine, history=History(memory="2MiB"))
        # Whatever has a worker wait for its parent would wait for this loop.
        number = await asyncio.to_thread(worker.declared.number, self.hub)
        self.owner = self._family.declarations._hub(number)
        for name in ("stats", "topic_stats", "topics"):
            setattr(self.hub, name, getattr(self.owner, name))

    def gateway(self, origin: str, **options: Any) -> Gateway:
        if self._family is None:
            return Gateway(origin, engine=self.engine, **options)
        with self._family.workers[0].inside():
            return Gateway(origin, engine=self.engine, **options)

    async def serve(self, what: Handler | web.Application) -> int:
        app = what
        if not isinstance(app, web.Application):
            app = web.Application()
            app.router.add_get("/{topic}", what)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self.runners.append(runner)
        if self._family is not None:
            declared = self._family.declarations
            lines = self._family.workers[0].declared.lines
            worker = Worker(runner, self.engine, lines=lines)
            edge = EdgeEnd(self.engine, declared.plan, declared.feed)
            self._edges.append((edge, worker))
            await edge.workers.add(1, 0, worker.path)
            return edge.port
        where = (runner, "127.0.0.1", 0)
        site = web.TCPSite(*where) if self.transport == "stock" else Site(*where, engine=self.engine)
        await site.start()
        return int(runner.addresses[0][1])

    async def subscribe(self, port: int, *fields: str, path: str = "/news") -> "Reader":
        client = await RawClient.connect(port)
        self.clients.append(client)
        await client.get(path, *fields)
        return Reader(client, await in_time(client.head()))

    async def close(self) -> None:
        for client in self.clients:
            client.abort()
        await until(lambda: self.hub.stats().subscribers == 0, "all have left")
        for edge, worker in self._edges:
            await edge.close(worker)
        for runner in self.runners:
            await runner.cleanup()
        self.hub.close()
        if self._family is not None:
            await self._family.close()
