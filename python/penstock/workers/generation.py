"""The workers of one generation: they run the same code, and are as many as there shall be.

One that ends is started again, for as long as its generation is there. A generation begins when all of its workers are
ready and serve the same; it never becomes another one.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final, Literal, Protocol

from penstock.config import Workers
from penstock.exceptions import PenstockError, make_error

from .backoff import Backoff
from .process import WorkerProcess, how

__all__ = ["Generation", "Home", "Requests"]

_log: Final = logging.getLogger("penstock.workers")

# What a request has that has chosen a worker, when that is to get no more, to connect to it (arbitrary): it takes some
# microseconds, unless its thread is kept from its core. What has connected is taken, however late.
_ON_ITS_WAY: Final = 0.1


Restart = Literal["ended", "hung", "reloaded"]
"""Why a worker is started in the place of another: that has ended by itself, was killed because it gave no sign,
or has code that is replaced."""


class Requests(Protocol):
    """Who passes requests on to workers: `_native.Workers`."""

    def add(self, number: int, generation: int, path: str) -> Awaitable[None]:
        """A worker listens at `path`."""

    def switch(self, generation: int) -> None:
        """Requests go to workers of `generation` alone from now on."""

    def retire(self, number: int) -> None:
        """No new request goes to a worker."""

    def remove(self, number: int) -> None:
        """A worker is gone."""

    def restarted(self, reason: Restart, count: int) -> None:
        """So many workers are started in the place of others."""


class Home(Protocol):
    """Who has generations: `Supervisor`."""

    @property
    def settings(self) -> Workers:
        """How many workers there shall be, and their limits."""

    @property
    def requests(self) -> Requests:
        """Who passes requests on to them."""

    async def spawn(self, generation: int) -> WorkerProcess:
        """Start a process."""

    def joined(self, worker: WorkerProcess) -> None:
        """A worker is ready."""

    def left(self, worker: WorkerProcess) -> None:
        """A process has ended."""

    def reload(self) -> None:
        """There is newer code."""


class Generation:
    """Workers of one generation, from `start` until `stop`.

    Attributes:
        number: which one it is.
        registration: what its workers serve; None before one of them is ready.
        workers: the ready ones, by their numbers.
    """

    def __init__(self, number: int, home: Home) -> None:
        self.number: Final = number
        self.registration: Any = None
        self.workers: Final[dict[int, WorkerProcess]] = {}
        self._home = home
        self._places: list[asyncio.Task[None]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._over: asyncio.Event | None = None

    async def start(self) -> None:
        """Have all workers ready. Cancelling it ends the workers that have been started.

        Raises:
            PenstockError: one could not be started, or was not ready in time (PROCESS_FAILED); or they do not serve the
                same (BAD_CONFIGURATION). None is left.
        """
        starting = [asyncio.create_task(self._started()) for _ in range(self._home.settings.count)]
        try:
            for first in asyncio.as_completed(starting):
                await first
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.wait(starting)
            await self.stop(0)
            raise
        self._places = [asyncio.create_task(self._keep(task.result())) for task in starting]

    async def stop(self, seconds: float, over: asyncio.Event | None = None) -> None:
        """Let what is under way finish within `seconds`, and end all workers, for whom there are no new requests.

        Args:
            seconds: for what is under way.
            over: set when they get no more calls; until then workers that have finished stay. None: they get none.
        """
        self._over = over
        for place in self._places:
            place.cancel()
        if self._places:
            await asyncio.wait(self._places)
        await asyncio.gather(*(self._end(worker, seconds) for worker in list(self.workers.values())))
        if self._closing:
            await asyncio.wait(self._closing)

    async def _started(self) -> WorkerProcess:
        """A worker that is ready. One that fails to be is killed."""
        home = self._home
        worker = await home.spawn(self.number)
        worker.link.handle("stopping", lambda: self._leaves(worker))
        worker.link.handle("finished", self._has_finished)
        try:
            await worker.until_ready(home.settings.start_timeout)
            self._check(worker)
            await home.requests.add(worker.number, self.number, str(worker.path))
        except BaseException:
            self._gone(worker)
            raise
        self.workers[worker.number] = worker
        home.joined(worker)
        return worker

    def _check(self, worker: WorkerProcess) -> None:
        if self.registration is None:
            self.registration = worker.registration
        elif self.registration != worker.registration:
            text = f"{worker.name} has other routes than its generation: the code has changed, or differs by chance"
            raise make_error("BAD_CONFIGURATION", text)

    async def _keep(self, worker: WorkerProcess) -> None:
        """Have a worker in one place."""
        settings = self._home.settings
        backoff = Backoff(settings.backoff, settings.max_backoff)
        while True:
            _log.warning("%s %s", worker.name, how(await worker.wait()))
            self._gone(worker)
            reason: Restart = "hung" if worker.hung else "ended"
            wait = backoff.after(worker.lived())
            while True:
                if wait:
                    _log.warning("another worker is started in %.1f s", wait)
                await asyncio.sleep(wait)
                self._home.requests.restarted(reason, 1)
                try:
                    worker = await self._started()
                    break
                except PenstockError as error:
                    _log.error("%s", str(error))
                    if error.name == "BAD_CONFIGURATION":
                        self._home.reload()
                reason, wait = "ended", backoff.after(0)

    async def _leaves(self, worker: WorkerProcess) -> None:
        """A worker that ends, because it was told to or by itself, waits for this before it takes no more requests."""
        worker.leaves(self._home.settings.stop_timeout)
        self._home.requests.retire(worker.number)
        await asyncio.sleep(_ON_ITS_WAY)

    async def _has_finished(self) -> None:
        """A worker whose requests are over waits for this before it cleans up."""
        if self._over is not None:
            await self._over.wait()

    async def _end(self, worker: WorkerProcess, seconds: float) -> None:
        status = await worker.stop(seconds)
        _log.log(logging.INFO if status == 0 else logging.WARNING, "%s %s", worker.name, how(status))
        self._gone(worker)

    def _gone(self, worker: WorkerProcess) -> None:
        self.workers.pop(worker.number, None)
        self._home.requests.remove(worker.number)
        # A task of its own: a cancelled caller must not leave half of this.
        task = asyncio.create_task(self._close(worker))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, worker: WorkerProcess) -> None:
        await worker.aclose()
        self._home.left(worker)
