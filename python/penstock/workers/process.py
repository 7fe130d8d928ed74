"""One worker, as its parent sees it: a process with two links and a listening socket, from its start to its end.

The parent makes the sockets, so that no worker chooses where it listens. A worker that has lost its link does not stay:
no process could tell it to stop any more.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from penstock.exceptions import make_error

from .link import Link
from .registration import Registration

__all__ = ["GRACE", "Orders", "WorkerProcess", "how"]

_log: Final = logging.getLogger("penstock.workers")

# Connections that wait for a worker to accept: one for each request that is being passed on (arbitrary).
_BACKLOG: Final = 1024
GRACE: Final = 5.0
"""Seconds for handlers that have been cut off to end, and for the application's own cleanup, before it is killed."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is told on its command line."""

    app: str
    """MODULE:APP."""
    number: int
    generation: int
    parent: int
    """The process that alone may connect, and whose end is the worker's."""
    link: int
    """Descriptors: of the link, of blocking calls, and of the listening socket."""
    calls: int
    listener: int
    memory: int
    """Bytes, for its own engine."""
    stop_timeout: float
    """Seconds that its requests get to finish."""
    log_level: str
    uvloop: bool | None

    def write(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """What `write` has written."""
        return cls(**json.loads(text))


class WorkerProcess:
    """A process that runs the application. `spawn` makes it.

    Attributes:
        number: its own; no other one of this parent has had it.
        generation: of which code it is.
        path: where it listens.
        pid: its process.
        name: what it is called where people read it.
        link: to it.
        registration: what it serves, once it is ready.
        hung: whether it was killed because its event loop gave no sign.
    """

    def __init__(
        self, orders: Orders, path: Path, popen: "subprocess.Popen[bytes]", link: Link, calls: Link
    ) -> None:
        loop = asyncio.get_running_loop()
        self.number: Final = orders.number
        self.generation: Final = orders.generation
        self.path: Final = path
        self.pid: Final = popen.pid
        # For logs, which would keep the engine with the worker.
        self.name: Final = f"worker {self.number} (process {popen.pid})"
        self.link: Final = link
        self.registration: Registration | None = None
        self.hung = False
        self._calls = calls
        self._watching: list[asyncio.Task[None]] = []
        self._kills: list[asyncio.TimerHandle] = []
        self._popen = popen
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ready_at = loop.time()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._descriptor = os.pidfd_open(popen.pid)
        loop.add_reader(self._descriptor, self._has_ended)
        link.handle("register", self._register)
        link.handle("ready", self._is_ready)

    @classmethod
    async def spawn(cls, orders: Callable[..., Orders], path: Path, serve: Callable[[Self], None]) -> Self:
        """Start a process.

        Args:
            orders: makes what it is told, of the descriptors `link`, `calls` and `listener`.
            path: where it shall listen; nothing is there yet.
            serve: says what answers its calls.

        Raises:
            SystemFailureError: the operating system refused it (PROCESS_FAILED).
        """
        try:
            told, popen, link, calls = _begun(orders, path)
        except OSError as error:
            raise make_error("PROCESS_FAILED", f"a worker could not be started: {error}") from error
        near = Link(link)
        worker = cls(told, path, popen, near, near.beside(calls))
        serve(worker)
        try:
            await worker._start()
        except BaseException:
            await worker.aclose()
            raise
        return worker

    async def _start(self) -> None:
        await self.link.start()
        await self._calls.start()
        self._watching = [asyncio.create_task(self._watch(each)) for each in (self.link, self._calls)]

    async def _watch(self, link: Link) -> None:
        await link.wait_closed()
        if link.broken:
            _log.error("%s does not speak as a worker does: killing it", self.name)
            self.kill()
        # It is the last thing that goes before the process; what goes on without it cannot be told anything.
        self.leaves(0)

    async def until_ready(self, seconds: float) -> None:
        """Wait until it serves.

        Raises:
            SystemFailureError: it has ended, or is not ready within `seconds` (PROCESS_FAILED). It may still run.
        """
        either: set[asyncio.Future[Any]] = {self._ready, self._ended}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._ended.done():
            raise make_error("PROCESS_FAILED", f"{self.name} {how(self._ended.result())} before it was ready")
        if not self._ready.done():
            raise make_error("PROCESS_FAILED", f"{self.name} was not ready within {seconds:g} s")
        self._ready_at = asyncio.get_running_loop().time()

    async def wait(self) -> int:
        """Wait until it has ended: its exit status, or minus the number of the signal that killed it."""
        return await asyncio.shield(self._ended)

    def lived(self) -> float:
        """Seconds since it was ready."""
        return asyncio.get_running_loop().time() - self._ready_at

    async def stop(self, seconds: float) -> int:
        """Have its requests finish within `seconds`, and kill it if it does not end soon after that. As `wait`."""
        self._signal(signal.SIGTERM)
        await asyncio.wait({self._ended}, timeout=seconds + GRACE)
        if not self._ended.done():
            _log.warning("%s did not end within %g s of being cut off: killing it", self.name, GRACE)
            self.kill()
        return await self.wait()

    def leaves(self, seconds: float) -> None:
        """Let it end by itself, as it has said that it will; it is killed soon behind `seconds` if it does not."""
        self._kills.append(asyncio.get_running_loop().call_later(seconds + GRACE, self.kill))

    def kill(self) -> None:
        """End it at once, if it has not."""
        self._signal(signal.SIGKILL)

    async def aclose(self) -> None:
        """Kill it if it runs, and release its resources. Idempotent."""
        self.kill()
        await self.wait()
        for kill in self._kills:
            kill.cancel()
        for task in self._watching:
            task.cancel()
        await self.link.aclose()
        await self._calls.aclose()
        self.path.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if not self._ended.done():
            # Not by its number, which may be another's as soon as it has been waited for.
            signal.pidfd_send_signal(self._descriptor, number)

    def _register(self, registration: object) -> None:
        if not isinstance(registration, Registration):
            raise TypeError(f"a {type(registration).__name__} is no registration")
        self.registration = registration

    def _is_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._ended.set_result(self._popen.wait())


def _begun(
    orders: Callable[..., Orders], path: Path
) -> "tuple[Orders, subprocess.Popen[bytes], socket.socket, socket.socket]":
    """A process, what it was told, and the near ends of its link and of its blocking calls."""
    with ExitStack() as ours, ExitStack() as theirs:
        link, far_link = socket.socketpair()
        calls, far_calls = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        for stack, sockets in ((ours, (link, calls)), (theirs, (far_link, far_calls, listener))):
            for each in sockets:
                stack.enter_context(each)
        listener.bind(os.fspath(path))
        listener.listen(_BACKLOG)
        passed = (far_link.fileno(), far_calls.fileno(), listener.fileno())
        told = orders(link=passed[0], calls=passed[1], listener=passed[2])
        # The loop waits for it, some milliseconds: asyncio's own way has a thread for each child. -P: what stands in the
        # current directory is the application's, and is found when that is imported, not before.
        popen = subprocess.Popen(  # noqa: S603 (this interpreter, and text that the engine's user has given)
            [sys.executable, "-P", "-m", "penstock.workers.child", told.write()],
            stdin=subprocess.DEVNULL,
            pass_fds=passed,
        )
        ours.pop_all()
        return told, popen, link, calls


def how(status: int) -> str:
    """How a process has ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"
