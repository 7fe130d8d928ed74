"""Applications for workers, as files that tests write and change, and the supervisor without an edge before it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from conftest import until
from penstock.config import Workers
from penstock.workers.process import Directory, Orders, WorkerProcess
from penstock.workers.supervisor import Supervisor

PLAIN = """
from aiohttp import web
app = web.Application()
"""


class Requests:
    """What is told of workers, in place of who passes requests on."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.added: dict[int, int] = {}
        self.current = 0

    async def add(self, number: int, generation: int, path: str) -> None:
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        self.added[number] = generation

    def switch(self, generation: int) -> None:
        self.told.append(("switch", generation))
        self.current = generation

    def retire(self, number: int) -> None:
        self.told.append(("retire", number))

    def remove(self, number: int) -> None:
        self.added.pop(number, None)
        self.told.append(("remove", number))


class Front:
    """Takes whatever workers register."""

    def __init__(self) -> None:
        self.served: list[Any] = []
        self.refuses: Exception | None = None
        self.left_: list[int] = []

    def serve(self, worker: WorkerProcess) -> None:
        worker.link.handle("has_cache", lambda: False)

    def joined(self) -> None:
        pass

    def left(self, worker: WorkerProcess) -> None:
        self.left_.append(worker.number)

    async def prepare(self, registration: Any) -> Callable[[], None]:
        if self.refuses is not None:
            raise self.refuses
        return lambda: self.served.append(registration)


class Workshop:
    """A supervisor of real processes, which import `mine.py` of a directory of their own."""

    def __init__(self, directory: Path, sockets: Path, settings: Workers) -> None:
        self.directory = directory
        self.sockets = sockets
        self.front = Front()
        self.requests = Requests()
        self.supervisor = Supervisor(settings, sockets, self.orders, self.front)
        self.settings = settings

    def orders(self, **each: int) -> Orders:
        return Orders(
            **each,
            app="mine:app",
            parent=os.getpid(),
            memory=4 << 20,
            stop_timeout=self.settings.stop_timeout,
            access_log=False,
            log_level="info",
            uvloop=None,
        )

    def write(self, text: str) -> None:
        """What workers import from now on."""
        (self.directory / "mine.py").write_text(text)

    @property
    def workers(self) -> dict[int, WorkerProcess]:
        """Those that serve."""
        current = self.supervisor._current
        return {} if current is None else current.workers

    def pids(self) -> set[int]:
        return {worker.pid for worker in self.workers.values()}

    async def start(self) -> None:
        await self.supervisor.start(self.requests)

    async def full(self, but: set[int] = frozenset()) -> None:
        """Wait until there are as many as there shall be, and none of the processes `but`."""
        count = self.settings.count
        await until(lambda: len(self.pids()) == count and not self.pids() & but, f"{count} others serve")

    async def serving(self, generation: int) -> None:
        await until(lambda: self.requests.current == generation, f"generation {generation} serves")


@asynccontextmanager
async def workshop(directory: Path, app: str = PLAIN, **settings: Any) -> AsyncIterator[Workshop]:
    """A supervisor that has not begun; its workers are ended behind the block."""
    with Directory() as sockets:
        shop = Workshop(directory, sockets, Workers(**{"count": 2, "stop_timeout": 1.0, **settings}))
        shop.write(app)
        try:
            yield shop
        finally:
            await shop.supervisor.stop(shop.settings.stop_timeout)
        assert not shop.supervisor._processes
        assert not list(sockets.iterdir())
