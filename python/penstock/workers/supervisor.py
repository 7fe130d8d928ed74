"""Who starts workers, has them replaced, and ends them: one generation serves, another may be on its way.

A generation serves from when all of its workers are ready: routes and requests go to it in one turn of the loop, and
the one before finishes what it has. One that fails to become ready changes nothing.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.config import Workers
from penstock.exceptions import PenstockError

from .generation import Generation, Requests
from .process import Orders, WorkerProcess

__all__ = ["Front", "Supervisor"]

_log: Final = logging.getLogger("penstock.workers")


class Front(Protocol):
    """What stands in front of workers: the edge, and what they have declared there."""

    def serve(self, worker: WorkerProcess) -> None:
        """Say what answers the calls of a worker, which runs nothing of the application yet."""

    def joined(self) -> None:
        """There is one worker more that can be called."""

    def left(self, worker: WorkerProcess) -> None:
        """A worker has ended."""

    async def prepare(self, registration: Any) -> Callable[[], None]:
        """Make the routes of a registration; what is returned has them served, and raises nothing.

        Raises:
            PenstockError: they cannot be served.
        """


class Supervisor:
    """The workers of this process, from `start` until `stop`.

    Args:
        settings: how many, and their limits.
        directory: for their sockets, and for nothing else.
        orders: makes what a worker is told, of its number, its generation and its descriptors.
        front: what stands before them.
        reloaded: called after each `reload`, with what has failed, if newer code did not begin to serve.
    """

    requests: Requests
    """Who passes requests on to them."""

    def __init__(
        self,
        settings: Workers,
        directory: Path,
        orders: Callable[..., Orders],
        front: Front,
        reloaded: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self.settings: Final = settings
        self._directory = directory
        self._orders = orders
        self._front = front
        self._reloaded = reloaded
        self._numbers = itertools.count(1)
        self._generations = itertools.count(1)
        self._processes: dict[int, WorkerProcess] = {}
        self._current: Generation | None = None
        self._wanted = asyncio.Event()
        self._news = asyncio.Event()
        self._turns = itertools.count()
        self._reloading: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self, requests: Requests) -> None:
        """Have the first generation serve.

        Raises:
            PenstockError: it could not be started, or cannot be served. No worker is left.
        """
        self.requests = requests
        await self._begin()
        self._reloading = asyncio.create_task(self._reload())

    def reload(self) -> None:
        """Have the code that is there now serve: a new generation, after the one that is on its way if there is one."""
        self._wanted.set()

    async def stop(self, seconds: float, over: asyncio.Event) -> None:
        """End all workers, for whom there are no new requests.

        Args:
            seconds: for what is under way.
            over: set when they get no more calls; until then there are some.
        """
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})
        if self._current is not None:
            await self._current.stop(seconds, over)
        if self._retiring:
            await asyncio.wait(self._retiring)

    def kill(self) -> None:
        """End all workers at once, when this process is about to end."""
        for worker in self._processes.values():
            worker.kill()

    def silent(self, number: int, seconds: float) -> None:
        """Take note that a worker's event loop has given no sign for so long; kill it if that is too long."""
        worker = self._processes.get(number)
        hang = self.settings.hang
        if worker is not None and hang is not None and seconds >= hang:
            _log.error(
                "%s hangs: its event loop has given no sign for %.1f s: killing it", worker.name, seconds
            )
            worker.hung = True
            worker.kill()

    async def call(self, name: str, *arguments: object) -> Any:
        """Call `name` in a worker of the newest generation that serves, and in another one if that ends meanwhile.

        It waits while there is no worker. A call may so have begun twice.

        Raises:
            PenstockError, RuntimeError: what was raised there.
        """
        tried: set[int] = set()
        while True:
            workers = [] if self._current is None else list(self._current.workers.values())
            workers = [worker for worker in workers if worker.number not in tried]
            if not workers:
                await self._news.wait()
                continue
            worker = workers[next(self._turns) % len(workers)]
            try:
                return await worker.link.call(name, *arguments)
            except ConnectionError as error:
                if isinstance(error, PenstockError):
                    raise  # By what was called.
                tried.add(worker.number)

    async def spawn(self, generation: int) -> WorkerProcess:
        """Start a process, for `Generation`."""
        number = next(self._numbers)
        orders = partial(self._orders, number=number, generation=generation)
        worker = await WorkerProcess.spawn(orders, self._directory / str(number), self._front.serve)
        self._processes[number] = worker
        return worker

    def joined(self, worker: WorkerProcess) -> None:
        """A worker is ready, says a `Generation`."""
        _log.info("%s is ready", worker.name)
        if self._current is not None and worker.generation == self._current.number:
            self._tell()

    def left(self, worker: WorkerProcess) -> None:
        """A process has ended, says a `Generation`."""
        del self._processes[worker.number]
        self._front.left(worker)

    async def _reload(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            failure = await self._replace()
            if not self._wanted.is_set():
                self._reloaded(failure)

    async def _replace(self) -> str | None:
        """Have newer code serve; what has failed, if it does not."""
        before = self._current
        try:
            await self._begin()
        except Exception as error:  # noqa: BLE001 (what serves goes on, and may be replaced later)
            known = isinstance(error, PenstockError)
            _log.error("the code was not replaced: %s", str(error), exc_info=not known)
            return f"the code was not replaced: {error}"
        self.requests.restarted("reloaded", self.settings.count)
        if before is not None:
            task = asyncio.create_task(before.stop(self.settings.stop_timeout))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        return None

    async def _begin(self) -> None:
        """Have a new generation serve."""
        generation = Generation(next(self._generations), self)
        await generation.start()
        try:
            switch = await self._front.prepare(generation.registration)
        except BaseException:
            await generation.stop(0)
            raise
        # In one turn of the loop, so that no request meets the routes of one and the code of the other.
        switch()
        self.requests.switch(generation.number)
        self._current = generation
        _log.info("generation %d serves", generation.number)
        self._tell()

    def _tell(self) -> None:
        """Have those look again who wait for a worker."""
        self._news.set()
        self._news = asyncio.Event()
        self._front.joined()
