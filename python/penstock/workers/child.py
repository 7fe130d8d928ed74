"""A worker: `python -m penstock.workers.child ORDERS`, which its parent alone starts.

It runs the application as `penstock serve` does in one process, but for the clients, who are the parent's: requests come
over a socket that the parent alone may connect to. It ends when it is told to by SIGTERM, and with its parent.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import socket
from typing import Final

from aiohttp import web

from penstock import _native
from penstock.config import Edge
from penstock.engine import Engine, make_default
from penstock.serving.listener import make_lane
from penstock.serving.names import FailedError, NotFoundError
from penstock.serving.startup import log_to_stderr, loop_factory
from penstock.web.app_import import load
from penstock.web.handler import handler_factory
from penstock.web.runner_settings import told as told_of
from penstock.web.sendfile import restore_sendfile, take_over_sendfile
from penstock.web.server import make_runner

from . import Worker, become
from .link import Calls, Link
from .process import Orders
from .shared_objects import Declared, join

__all__ = ["main"]

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Be the worker that the command line orders."""
    orders = Orders.read(sys.argv[1])
    # A terminal sends both to all of its processes; they are the parent's to obey.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _end_with(orders.parent)
    log_to_stderr(orders.log_level)
    try:
        with asyncio.Runner(loop_factory=loop_factory(orders.uvloop)) as runner:
            worker, declared = runner.run(_join(orders))
            engine = Engine(memory=orders.memory, threads=1)
            make_default(engine)
            # While no loop runs, as in one process: modules may run one of their own.
            make = load(orders.app)
            runner.run(_serve(orders, make, worker, declared, engine))
    except (FailedError, NotFoundError) as error:
        sys.exit(f"penstock: {error}")


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends, however that ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        sys.exit("penstock: the parent has ended")


async def _join(orders: Orders) -> tuple[Worker, Declared]:
    link = Link(socket(fileno=orders.link))
    await link.start()
    worker = Worker(orders.number, orders.generation, link, Calls(socket(fileno=orders.calls)))
    become(worker)
    return worker, join(worker.link, worker.calls)


async def _serve(
    orders: Orders,
    make: Callable[[], Awaitable[web.Application]],
    worker: Worker,
    declared: Declared,
    engine: Engine,
) -> None:
    """Run the application until SIGTERM, or until the parent is gone."""
    loop = asyncio.get_running_loop()
    app = await make()
    runner = make_runner(app, drain=orders.stop_timeout, decode_requests=True)
    await runner.setup()
    try:
        server = runner.server
        assert server is not None  # noqa: S101 (it is set up)
        lane = make_lane(engine, handler_factory(server, engine), Edge(), None)
        site = _native.WorkerSite(engine.native, lane, orders.listener, orders.parent, declared.lines)
        os.close(orders.listener)
        _finish_with(server, lane, site, worker.link)
        take_over_sendfile(loop)
        told = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, told.set)
        registration = declared.describe(app, told_of(server))
        # Without its parent it ends, as it would a moment later.
        with suppress(ConnectionError):
            await worker.link.call("register", registration)
            await worker.link.call("ready")
            await _first(told.wait(), worker.link.wait_closed())
            await worker.link.call("stopping")
        # As a site that stops: what comes now is for others.
        site.drain()
        lane.drain()
    finally:
        await runner.cleanup()
        restore_sendfile(loop)


def _finish_with(server: web.Server, lane: _native.Lane, site: _native.WorkerSite, link: Link) -> None:
    """Have `server.shutdown`, which waits for handlers, wait for requests that are open as well."""
    wait_for_handlers = server.shutdown

    async def shutdown(timeout: float | None = None) -> None:  # noqa: ASYNC109 (aiohttp's signature)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout or 0)
        idle = site.idle()
        await asyncio.wait({idle}, timeout=timeout)
        # aiohttp cancels late handlers then, and takes 0 for no limit.
        await wait_for_handlers(max(0.01, deadline - loop.time()))
        site.close()
        await idle
        lane.close()
        # The parent may still have to ask the application something, or to tell it.
        with suppress(ConnectionError):
            await link.call("finished")

    server.shutdown = shutdown  # type: ignore[method-assign]


async def _first(*either: Awaitable[object]) -> None:
    """Wait until one of these is over."""
    tasks = [asyncio.ensure_future(each) for each in either]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    main()
