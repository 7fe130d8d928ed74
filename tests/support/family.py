"""A parent with a site of its own, and workers, over real links within one process.

What blocks in a worker is called from a thread, since the parent answers on the loop.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import _native, _shared, config
from penstock.workers.declarations import Declarations
from penstock.workers.link import Calls, Link
from penstock.workers.registration import Registration
from penstock.workers.shared_objects import Declared

from .client import RawClient
from .waiting import until


def no_application(*_: object) -> None:
    pytest.fail("a request goes to the application that no route has")


class Worker:
    """Both ends of a worker's links, and what it has declared."""

    def __init__(self, family: "Family", number: int) -> None:
        self.number = number
        (ours, theirs), (blocking, answering) = socket.socketpair(), socket.socketpair()
        self.parent_link = Link(ours)
        for name, function in family.declarations.handlers(number).items():
            self.parent_link.handle(name, function)
        self.parent_calls = self.parent_link.beside(answering)
        self.link, self.calls = Link(theirs), Calls(blocking)
        self.declared = Declared(self.link, self.calls)

    async def start(self) -> None:
        for link in (self.parent_link, self.parent_calls, self.link):
            await link.start()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is made in the block is made in this worker."""
        _shared.join(self.declared)
        try:
            yield
        finally:
            _shared.join(None)

    async def describe(self, app: web.Application) -> Registration:
        return await asyncio.to_thread(self.declared.describe, app)

    async def die(self) -> None:
        self.calls.close()
        for link in (self.link, self.parent_calls, self.parent_link):
            await link.aclose()


class Family:
    """A parent, its hooks, and its workers, of which the last one that is ready is asked."""

    def __init__(self, engine: penstock.Engine) -> None:
        self.engine = engine
        self.born: list[Worker] = []
        self.workers: list[Worker] = []
        self.declarations = Declarations(engine, self, ends=1 << 20)
        edge = config.Edge()
        self.lane = _native.Lane(engine.native, edge, no_application, no_application, no_application, None)
        self.site = _native.Site(engine.native, edge, [], None, self.lane)
        self.port = self.site.listen_tcp("127.0.0.1", 0)[1]
        self._clients: list[RawClient] = []
        self._applications: list[web.Application] = []
        self._numbers = 0

    async def call(self, name: str, *arguments: object) -> Any:
        """What hooks do."""
        while self.workers:
            worker = self.workers[-1]
            try:
                return await worker.parent_link.call(name, *arguments)
            except ConnectionError:
                if worker in self.workers:
                    raise
        message = "there is no worker"
        raise ConnectionError(message)

    async def worker(self) -> Worker:
        self._numbers += 1
        worker = Worker(self, self._numbers)
        await worker.start()
        self.born.append(worker)
        return worker

    def ready(self, worker: Worker) -> None:
        """Have a worker be asked from now on."""
        self.workers.append(worker)
        self.declarations.joined()

    async def serve(self, worker: Worker, *routes: web.AbstractRouteDef) -> None:
        """Have the parent serve what `worker` declares."""
        app = web.Application()
        app.add_routes(routes)
        self._applications.append(app)
        registration = await worker.describe(app)
        self.site.set_routes(self.declarations.routes(registration))
        self.declarations.serve(registration)
        if worker not in self.workers:
            self.ready(worker)

    async def lose(self, worker: Worker) -> None:
        self.born.remove(worker)
        if worker in self.workers:
            self.workers.remove(worker)
        await worker.die()
        self.declarations.left(worker.number)

    async def connect(self) -> RawClient:
        client = await RawClient.connect(self.port)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.abort()
        for worker in list(self.born):
            await self.lose(worker)
        await self.declarations.aclose()
        self.site.close()
        self.lane.close()
        await until(lambda: self.site.counts().connections == 0, "every connection has ended")
