"""Upgrades of a process that serves: another one, with the code and the settings that are there now, takes its place.

The new process gets what this one listens to, builds all that it serves, and says when it is ready. Then it accepts, and
this one drains, as after SIGTERM. Until then nothing has changed for clients: if it fails, this process serves on.
"""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from penstock import __version__, _native
from penstock.exceptions import PenstockError, make_error

from .predecessor import Predecessor
from .successor import Successor

__all__ = ["Upgrades"]

_log: Final = logging.getLogger("penstock.serve")

_Act = Callable[[], Coroutine[Any, Any, None]]


class Manager(Protocol):
    """What is told of upgrades: the service manager."""

    def environment(self) -> dict[str, str]:
        """The variables by which a new process tells it its state."""

    def reloading(self) -> None:
        """An upgrade has begun."""

    def reloaded(self, failure: str | None = None) -> None:
        """It is over, and has failed."""

    def succeeded(self, number: int) -> None:
        """The process `number` serves in place of this one."""


class Upgrades:
    """The upgrades of this process, one at a time.

    Args:
        manager: told of them.
        timeout: seconds in which the new process must be ready.
        predecessor: what this process takes the place of itself; None without one.
    """

    def __init__(self, manager: Manager, timeout: float, predecessor: Predecessor | None = None) -> None:
        self._manager = manager
        self._timeout = timeout
        self._predecessor = predecessor
        self._listeners: list[socket.socket] = []
        self._begin: list[_Act] = []
        self._end: list[_Act] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._cache: _native.Cache | None = None
        self._engine: _native.Engine | None = None
        self._stop: asyncio.Future[str] | None = None
        self._successor: Successor | None = None
        self._is_under_way = False
        self._over = threading.Event()
        self._at_rest = threading.Event()
        self._giving: threading.Thread | None = None

    async def during(
        self,
        listener: socket.socket,
        begin: _Act,
        end: _Act,
    ) -> None:
        """Have the next process be given `listener`.

        Args:
            listener: a socket that Python listens to.
            begin: called when clients are to be accepted from it.
            end: called when another process does that.
        """
        self._listeners.append(listener)
        self._end.append(end)
        if self._predecessor is None:
            await begin()
        else:
            self._begin.append(begin)

    def keep(self, cache: _native.Cache) -> None:
        """Have the next process be given what `cache` has in memory, and `cache` what the process before gives."""
        self._cache = cache

    def at_end(self, act: _Act) -> None:
        """Have `act` be called when another process serves."""
        self._end.append(act)

    def watch(self, stop: "asyncio.Future[str]") -> None:
        """`stop` asks for a stop of this process: an upgrade sets it, and is given up if something else does."""
        self._stop = stop
        stop.add_done_callback(lambda _: self._give_up())

    def ready(self, engine: _native.Engine) -> None:
        """This process listens to all that it is configured to. Returns when it accepts, and blocks until then.

        Args:
            engine: what serves. Its metrics go on from those of the process before, and in the next one.

        Raises:
            PenstockError: the process before does not hand over (PROCESS_FAILED).
        """
        if self._predecessor is not None:
            self._predecessor.take_over(self._cache, engine)
            self._predecessor = None
        self._engine = engine
        self._call(self._begin)

    def by_signal(self) -> None:
        """Begin an upgrade, and log how it ends."""
        self._start(self._logged())

    async def _logged(self) -> None:
        try:
            await self.upgrade()
        except PenstockError as error:
            _log.error("SIGUSR2: %s", error.detail)
        except Exception:  # noqa: BLE001 (there is nothing above that would say it)
            _log.exception("SIGUSR2: the upgrade has failed, and this process serves on")

    async def upgrade(self) -> int:
        """Have another process serve, and this one stop. Returns the number of that process.

        Raises:
            PenstockError: this process serves on, or stops already (PROCESS_FAILED).
        """
        stop = self._stop
        engine = self._engine
        if stop is None or engine is None:
            raise make_error("PROCESS_FAILED", "this process does not serve yet")
        if stop.done():
            raise make_error("PROCESS_FAILED", "this process is stopping already")
        if self._is_under_way:
            raise make_error("PROCESS_FAILED", "an upgrade is under way already")
        if os.getpid() == 1:
            detail = "this is the first process of its container, which ends with it: replace the container"
            raise make_error("PROCESS_FAILED", detail)
        self._is_under_way = True
        self._manager.reloading()
        _log.info("upgrade: starting the next process")
        try:
            number = await asyncio.to_thread(self._replace, stop, engine)
        except PenstockError as error:
            self._manager.reloaded(f"the upgrade has failed: {error.detail}")
            detail = f"the upgrade has failed, and this process serves on: {error.detail}"
            raise make_error("PROCESS_FAILED", detail) from error
        finally:
            self._is_under_way = False
        if not stop.done():
            stop.set_result(f"upgrade: process {number} serves")
        self._call(self._end)
        return number

    def _replace(self, stop: "asyncio.Future[str]", engine: _native.Engine) -> int:
        """Start the next process, and let it accept. Beside the loop."""
        successor = Successor(self._manager.environment(), self._timeout, __version__)
        self._successor = successor
        try:
            # What asks for a stop from now on interrupts it.
            if stop.done():
                raise make_error("PROCESS_FAILED", "this process was stopped meanwhile")  # noqa: TRY301 (as the others)
            successor.prepare(self._listeners)
            _native.hold_clients()
            # Before the next process is scraped.
            successor.give_counters(engine)
            successor.take()
            decisions = successor.give_decisions()
            hubs = successor.give_hubs()
            responses = 0 if self._cache is None else successor.give_cache(self._cache)
            given, refused = successor.give_streams()
            successor.finish()
        except BaseException as error:
            self._successor = None
            successor.abort(error.detail if isinstance(error, PenstockError) else str(error))
            _native.let_clients_in()
            raise
        self._successor = None
        self._manager.succeeded(successor.number)
        if decisions:
            _log.info("upgrade: %d decisions of hooks have moved", decisions)
        if hubs:
            _log.info("upgrade: %d hubs have moved", hubs)
        if responses:
            _log.info("upgrade: %d stored responses have moved", responses)
        if given or refused:
            _log.info("upgrade: %d event streams have moved, and %d could not", given, refused)
        # Before this process begins to drain.
        _native.give_clients_away()
        giving = threading.Thread(
            target=self._give_clients, args=(successor, engine), name="penstock-upgrade", daemon=True
        )
        giving.start()
        self._giving = giving
        return successor.number

    def _give_clients(self, successor: Successor, engine: _native.Engine) -> None:
        try:
            successor.give_clients(self._over.is_set, self._at_rest.set, engine)
        finally:
            self._at_rest.set()

    def wait_for_clients(self, within: float | None = None) -> None:
        """Block until the next process has the connections on which no request was under way when it began to serve.

        Until then this process answers what comes on them. Returns at once if there was no upgrade.

        Args:
            within: seconds at most; None: until this process ends.
        """
        if self._giving is not None:
            self._at_rest.wait(within)

    def close(self) -> None:
        """Have the next process be given what is left for it. Idempotent; called when nothing serves any more."""
        self._over.set()
        if self._giving is not None:
            self._giving.join()
            self._giving = None

    def _give_up(self) -> None:
        """Another reason to stop has come."""
        if self._successor is not None:
            self._successor.interrupt()

    def _call(self, acts: list[_Act]) -> None:
        for act in acts:
            self._start(act())
        acts.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the loop do `work`, and keep it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
