"""Applications for workers, as a file that tests write and change, and a supervisor of them without clients."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import penstock
from penstock import _native, config
from penstock.serving.listener import Listening, make_lane
from penstock.workers.declarations import Declarations
from penstock.workers.directory import Directory
from penstock.workers.process import Orders, WorkerProcess
from penstock.workers.server import Front, no_application
from penstock.workers.supervisor import Supervisor
from support.waiting import until

PLAIN = """
from aiohttp import web
app = web.Application()
"""


class Workshop:
    """A supervisor of real processes, which import `mine.py` of a directory of their own."""

    def __init__(
        self, directory: Path, sockets: Path, settings: config.Workers, engine: penstock.Engine
    ) -> None:
        self.directory = directory
        self.sockets = sockets
        self.settings = settings
        edge = config.Edge()
        lane = make_lane(engine, no_application, edge, None)
        self.listening = Listening(engine, lane, edge, [], None, None)
        front = Front(self.listening, edge)
        self.supervisor = Supervisor(settings, sockets, self.orders, front)
        self.declarations = front.declarations = Declarations(engine, self.supervisor, ends=1 << 20)
        self.requests = _native.Workers(
            *(engine.native, lane, self.declarations.plan, self.declarations.feed),
            *(self.declarations.orphan, self.supervisor.silent),
        )

    def orders(self, **each: int) -> Orders:
        return Orders(
            **each,
            app="mine:app",
            parent=os.getpid(),
            memory=4 << 20,
            stop_timeout=self.settings.stop_timeout,
            log_level="info",
            uvloop=None,
        )

    def write(self, text: str) -> None:
        """What workers import from now on."""
        (self.directory / "mine.py").write_text(text)

    @property
    def generation(self) -> int:
        """The one that serves."""
        current = self.supervisor._current
        return 0 if current is None else current.number

    @property
    def workers(self) -> dict[int, WorkerProcess]:
        """The processes that serve."""
        current = self.supervisor._current
        return {} if current is None else current.workers

    @property
    def processes(self) -> int:
        """How many processes have not ended, whether they serve or not."""
        return len(self.supervisor._processes)

    def pids(self) -> set[int]:
        return {worker.pid for worker in self.workers.values()}

    async def start(self) -> None:
        await self.supervisor.start(self.requests)

    async def full(self, but: frozenset[int] = frozenset()) -> None:
        """Wait until there are as many as there shall be, and none of the processes `but`."""
        count = self.settings.count
        await until(lambda: len(self.pids()) == count and not self.pids() & but, f"{count} others serve")

    async def serving(self, generation: int) -> None:
        await until(lambda: self.generation == generation, f"generation {generation} serves")

    async def close(self) -> None:
        self.listening.close()
        await self.listening.finish(None)
        over = asyncio.Event()
        over.set()
        await self.supervisor.stop(self.settings.stop_timeout, over)
        await self.declarations.aclose()
        self.requests.close()


@asynccontextmanager
async def workshop(directory: Path, app: str = PLAIN, **settings: Any) -> AsyncIterator[Workshop]:
    """A supervisor that has not begun; its workers are ended after the block."""
    limits = config.Workers(**{"count": 2, "stop_timeout": 1.0, **settings})
    async with penstock.Engine(memory="4MiB") as engine:
        with Directory() as sockets:
            shop = Workshop(directory, sockets, limits, engine)
            shop.write(app)
            try:
                yield shop
            finally:
                await shop.close()
            assert not shop.processes
            assert not list(sockets.iterdir())
