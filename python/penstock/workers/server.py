"""Serving an application in worker processes until a signal: what `penstock serve MODULE:APP --workers N` runs.

This process is the edge: it has the engine, the clients and what is relayed to them, and no code of the application.
SIGHUP replaces that. The first SIGTERM or SIGINT stops accepting and lets requests finish until the deadline; what is
left then is cut off. A second one ends everything at once.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock import _native
from penstock._awaited import awaited_at_start
from penstock.config import AccessLog, Edge, Status, Workers, parse_size
from penstock.config.listen import Listen
from penstock.engine import Engine
from penstock.exceptions import make_error
from penstock.serving.announcer import Announcer
from penstock.serving.listener import Listening, Where, make_lane
from penstock.serving.shutdown import last_act, say_waiting, stop_signal
from penstock.web.runner_settings import edge_as_told

from .declarations import Declarations
from .directory import Directory
from .process import Orders, WorkerProcess
from .supervisor import Supervisor

__all__ = ["Front", "no_application", "serve"]

_log: Final = logging.getLogger("penstock.serve")

# Seconds in which the application is told how the last responses have ended (arbitrary): it is some calls.
_TELLING: Final = 1.0


async def serve(
    app: str,
    listen: Listen,
    *,
    engine: Engine,
    settings: Workers,
    edge: Edge,
    access_log: AccessLog | None,
    log_level: str,
    uvloop: bool | None,
    status: Status | None,
    announcer: Announcer,
    reread: Callable[[], str | None] | None = None,
) -> None:
    """Serve `app` until SIGTERM or SIGINT.

    Args:
        app: MODULE:APP, which workers import.
        listen: host and port, the path of a Unix socket, or sockets that are there already.
        engine: what serves.
        settings: of the workers; what is under way has their `stop_timeout` to finish.
        edge: what clients may take.
        access_log: where a line for each request goes; None for nowhere.
        log_level: for workers: the least that they log.
        uvloop: for workers: which loop they run.
        status: where pages about the engine are served, from before the workers are started; None for nowhere.
        announcer: told when connections are accepted, and what happens then.
        reread: called at SIGHUP, besides the replacement of the workers; returns what has failed.

    Raises:
        SystemFailureError: the address cannot be listened on, or a worker was not ready (PROCESS_FAILED).
        PenstockError: what the application declares cannot be served.
    """
    where = Where.of(listen)
    addresses = await where.addresses()
    lane = make_lane(engine, no_application, edge, where.unix())
    listening = Listening(engine, lane, edge, [], access_log, status)
    listening.tell = say_waiting(announcer)
    front = Front(listening, edge)
    orders = partial(
        Orders,
        app=app,
        parent=os.getpid(),
        memory=parse_size(settings.memory),
        stop_timeout=settings.stop_timeout,
        log_level=log_level,
        uvloop=uvloop,
    )
    reloads = _Reloads(announcer, reread)
    with Directory() as directory:
        supervisor = Supervisor(settings, directory, orders, front, reloads.replaced)
        declared = Declarations(engine, supervisor, ends=parse_size(edge.app_ends))
        front.declarations = declared
        requests = _native.Workers(
            engine.native, lane, declared.plan, declared.feed, declared.orphan, supervisor.silent
        )

        def reload() -> None:
            reloads.begin()
            supervisor.reload()
            listening.reload_tls()

        stop = stop_signal(reload=reload, announcer=announcer)
        with last_act(supervisor.kill):
            starting = asyncio.create_task(supervisor.start(requests))
            try:
                either: set[asyncio.Future[Any]] = {starting, stop}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not stop.done():
                    await starting
                    listening.listen(where, addresses, where.close)
                    pages = None if listening.pages is None else listening.pages.url
                    announcer.ready([listening.url], pages, engine, (status or Status()).hung)
                _log.info("%s: stopping, requests have %g s to finish", await stop, settings.stop_timeout)
            finally:
                starting.cancel()
                await asyncio.wait({starting})
                await _stop(listening, supervisor, declared, settings.stop_timeout)
                requests.close()


class _Reloads:
    """What a SIGHUP comes to: of what is read again here, and of the workers, which are replaced."""

    def __init__(self, announcer: Announcer, reread: Callable[[], str | None] | None) -> None:
        self._announcer = announcer
        self._reread = reread
        self._failure: str | None = None

    def begin(self) -> None:
        self._failure = None if self._reread is None else self._reread()

    def replaced(self, failure: str | None) -> None:
        """The workers have been replaced, or not."""
        failures = [each for each in (self._failure, failure) if each is not None]
        self._announcer.reloaded("; ".join(failures) if failures else None)


async def _stop(
    listening: Listening, supervisor: Supervisor, declarations: Declarations, seconds: float
) -> None:
    """Stop accepting, let requests finish for `seconds`, tell the application of their ends, and end its workers."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    listening.close()
    await listening.part(deadline)
    over = asyncio.Event()
    ending = asyncio.create_task(supervisor.stop(max(0, deadline - loop.time()), over))
    await listening.finish(deadline)
    await declarations.told(_TELLING)
    over.set()
    await ending
    await declarations.aclose()


def no_application() -> Any:
    """In place of what makes protocols for an application."""
    raise RuntimeError("requests of the application are for the workers")


class Front:
    """What stands before the workers."""

    declarations: Declarations

    def __init__(self, listening: Listening, edge: Edge) -> None:
        self._listening = listening
        self._edge = edge

    def serve(self, worker: WorkerProcess) -> None:
        """Say what answers the calls of a worker."""
        for name, function in self.declarations.handlers(worker.number).items():
            worker.link.handle(name, function)

    def joined(self) -> None:
        """There is one worker more that can be called."""
        self.declarations.joined()

    def left(self, worker: WorkerProcess) -> None:
        """A worker has ended."""
        self.declarations.left(worker.number)

    async def prepare(self, registration: Any) -> Callable[[], None]:
        """Make the routes of a registration.

        Raises:
            PenstockError: they cannot be served, or the application was told of connections what the edge, which was
                made before it, does otherwise.
        """
        self._check(registration.connections)
        routes = self.declarations.routes(registration)
        await awaited_at_start(asyncio.get_running_loop())

        def switch() -> None:
            self._listening.set_routes(routes)
            self.declarations.serve(registration)

        return switch

    def _check(self, connections: dict[str, Any]) -> None:
        try:
            differing = [
                f"{name}={value!r}"
                for name, value in connections.items()
                if edge_as_told({name: value}, self._edge) != self._edge
            ]
        except TypeError as error:
            text = f"the application's handler_args cannot be: {error}"
            raise make_error("BAD_CONFIGURATION", text) from None
        if differing:
            text = (
                f"Application(handler_args=...) has {', '.join(differing)}. With --workers clients' connections are the "
                "parent's, which has none of the application's settings: leave these out, or serve without --workers"
            )
            raise make_error("BAD_CONFIGURATION", text)
