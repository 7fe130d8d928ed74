"""Both ends of a worker process in one process: an edge, and an application behind the private channel."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

import penstock
from penstock import _native
from penstock.config import Edge
from penstock.serving.client_socket import ClientSocket
from penstock.web.handler import handler_factory
from penstock.web.sendfile import restore_sendfile, take_over_sendfile

from .waiting import until


def make_lane(
    engine: penstock.Engine,
    factory: Callable[[], Any],
    faults: list[tuple[Any, ...]],
    edge: Edge | None = None,
) -> _native.Lane:
    return _native.Lane(
        engine.native, edge or Edge(), factory, ClientSocket, lambda *fault: faults.append(fault), None
    )


class Worker:
    """The application's end."""

    def __init__(
        self,
        runner: web.BaseRunner,
        engine: penstock.Engine,
        listener: socket.socket | None = None,
        lines: _native.Lines | None = None,
    ) -> None:
        assert runner.server is not None
        self.directory = tempfile.TemporaryDirectory()
        self.path = str(Path(self.directory.name) / "worker")
        if listener is None:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.path)
            listener.listen(128)
        self.faults: list[tuple[Any, ...]] = []
        self.lane = make_lane(engine, handler_factory(runner.server, engine), self.faults)
        lines = lines or _native.Lines()
        with listener:
            self.site = _native.WorkerSite(engine.native, self.lane, listener.fileno(), os.getpid(), lines)
        take_over_sendfile(asyncio.get_running_loop())
        self._shutdown = runner.server.shutdown
        # As a worker's does; and so the collector sees that the lane belongs to the server.
        runner.server.shutdown = self._close  # type: ignore[method-assign]

    async def _close(self, timeout: float | None = None) -> None:
        self.site.drain()
        await self._shutdown(timeout)
        self.site.close()
        await self.site.idle()
        self.lane.close()
        restore_sendfile(asyncio.get_running_loop())
        self.directory.cleanup()


def no_plan(description: bytes) -> _native.Plan:
    """For workers that fetch by themselves."""
    raise LookupError(description)


class EdgeEnd:
    """The end that has the sockets."""

    def __init__(
        self,
        engine: penstock.Engine,
        make_plan: Callable[[bytes], _native.Plan] | None = None,
        feed: Callable[[_native.FeedRequest], object] | None = None,
        edge: Edge | None = None,
    ) -> None:
        self.orphans: list[_native.OrphanEnd] = []
        self.silences: list[tuple[int, float]] = []
        self.faults: list[tuple[Any, ...]] = []
        edge = edge or Edge()
        self.lane = make_lane(engine, lambda: None, self.faults, edge)
        self.site = _native.Site(engine.native, edge, [], None, self.lane)
        self.workers = _native.Workers(
            engine.native,
            self.lane,
            make_plan or no_plan,
            feed or (lambda _: None),
            self.orphans.append,
            lambda *silence: self.silences.append(silence),
        )
        self.port = self.site.listen_tcp("127.0.0.1", 0)[1]

    async def close(self, *told: Worker) -> None:
        """End everything, when these have been told how their responses have ended."""
        self.site.drain(0.0)
        self.site.close()
        await self.site.idle()
        for worker in told:
            await until(lambda: worker.lane.counts()[2] == 0, "a worker knows how its responses ended")  # noqa: B023
        self.workers.close()
        self.lane.close()
