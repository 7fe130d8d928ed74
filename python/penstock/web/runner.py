"""`run_app`: aiohttp's own, with the engine's sockets."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web, web_log
from aiohttp.abc import AbstractAccessLogger
from aiohttp.log import access_logger

from penstock import _arguments
from penstock.config import TLS, Edge, Status
from penstock.engine import Engine
from penstock.serving.listener import reload_of
from penstock.serving.shutdown import HOW_TO_END, stop_signal

from .access import OwnAccessLogger
from .app_import import foreign
from .site import Site

__all__ = ["run_app"]


def run_app(
    app: web.Application | Awaitable[web.Application],
    *,
    host: str | Iterable[str] | None = None,
    port: int | None = None,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    sock: socket.socket | Iterable[socket.socket] | None = None,
    shutdown_timeout: float = 60.0,
    keepalive_timeout: float | None = None,
    print: Callable[..., None] | None = print,  # noqa: A002 (aiohttp's name)
    backlog: int | None = None,
    access_log_class: type[AbstractAccessLogger] | None = None,
    access_log_format: str = web_log.AccessLogger.LOG_FORMAT,
    access_log: logging.Logger | None = access_logger,
    ssl_context: TLS | None = None,
    handle_signals: bool = True,
    reuse_port: bool | None = None,
    handler_cancellation: bool = False,
    loop: asyncio.AbstractEventLoop | None = None,
    engine: Engine | None = None,
    edge: Edge | None = None,
    status: Status | None = None,
    **kwargs: Any,
) -> None:
    """Serve `app` until SIGINT or SIGTERM, as `aiohttp.web.run_app` does, with its arguments.

    Requests under way get `shutdown_timeout` seconds to finish then; subscriptions to topics end at once, because their
    clients come back for the rest. What is waited for is printed. A second signal cuts it off, and the process ends with
    status 1, whatever it does. SIGHUP has certificates read anew; without TLS it only says that there is nothing to
    reload, and if the process has a terminal it stops, because the terminal is gone.

    Args:
        app: the application, or a coroutine that makes it on the loop.
        host: names or addresses to listen to; None, with neither `path` nor `sock`, for all interfaces.
        port: 8080 by default, 8443 over TLS.
        path: of one or several Unix sockets.
        sock: one or several sockets that are bound.
        shutdown_timeout: seconds that requests under way get to finish.
        keepalive_timeout: seconds that a connection may be idle, in place of `edge`'s.
        print: told where it listens; None for no output.
        backlog: connections that may wait to be accepted, in place of `edge`'s.
        access_log_class: writes the lines of the application's responses in place of the engine, which writes one at
            the end of each, with the bytes that were sent and the failure, and without the values of tokens.
        access_log_format: for `access_log_class`; given alone, for aiohttp's, which shows targets and referrers whole.
        access_log: where the lines go; None logs no requests.
        ssl_context: a `penstock.web.TLS`, in place of `Edge.tls`: clients then speak TLS.
        handle_signals: whether SIGINT and SIGTERM end it.
        reuse_port: whether other processes may listen to the same address, in place of `edge`'s.
        handler_cancellation: whether a handler is cancelled when its client leaves.
        loop: a new one by default.
        engine: what serves; by default the one that gateways of the application's routes were given, and where they were
            given none the one that the process shares.
        edge: what clients may take.
        status: where pages about the engine are served, `penstock.metrics`; None for nowhere.
        kwargs: for aiohttp's handlers of requests, such as `max_line_size`.

    Raises:
        ConfigurationError: `ssl_context` is another thing than a `penstock.web.TLS`, or its files cannot be used.
    """
    kwargs.pop("reuse_address", None)  # It always is.
    _arguments.instance("engine", engine, Engine, "a penstock.Engine, or None for the shared one")
    _arguments.EDGE("edge", edge)
    _arguments.server_tls("ssl_context", ssl_context)
    _arguments.STATUS("status", status)
    # What a site takes for the default is aiohttp's own class.
    if access_log_class is web_log.AccessLogger:
        access_log_class = OwnAccessLogger
    settings = _with(
        edge, idle_timeout=keepalive_timeout, backlog=backlog, reuse_port=reuse_port, tls=ssl_context
    )

    async def serve() -> None:
        runner = web.AppRunner(
            await _application(app),
            shutdown_timeout=shutdown_timeout,
            access_log_class=access_log_class or web_log.AccessLogger,
            access_log_format=access_log_format,
            access_log=access_log,
            handler_cancellation=handler_cancellation,
            **kwargs,
        )
        sites: list[Site] = []
        if handle_signals:
            _cancel_on_signal(reload_of(settings, sites))
        await runner.setup()
        try:
            sites += _sites(runner, _places(host, port, path, sock), engine, settings, status)
            await _start(sites, print)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    _run(serve(), loop)


def _with(edge: Edge | None, **given: Any) -> Edge:
    """`edge`, or the default, with the settings of `given` that are not None."""
    return replace(edge or Edge(), **{name: value for name, value in given.items() if value is not None})


def _sites(
    runner: web.AppRunner,
    places: list[dict[str, Any]],
    engine: Engine | None,
    edge: Edge,
    status: Status | None,
) -> list[Site]:
    """A site for each of the places."""
    first, *others = places
    # The pages are about the engine, which all of them have in common, and one redirects for all.
    site = Site(runner, **first, engine=engine, edge=edge, status=status)
    plain = _without_redirect(edge)
    return [site, *(Site(runner, **where, engine=engine, edge=plain) for where in others)]


def _without_redirect(edge: Edge) -> Edge:
    """`edge` for another address of the same server."""
    if edge.tls is None or edge.tls.http_redirect is None:
        return edge
    return replace(edge, tls=replace(edge.tls, http_redirect=None, redirect_port=None))


async def _application(app: web.Application | Awaitable[web.Application]) -> web.Application:
    if isinstance(app, web.Application):
        return app
    if said := foreign(app, "app"):
        raise TypeError(said)
    return await app


def _cancel_on_signal(reload: Callable[[], None] | None) -> None:
    """Have SIGINT and SIGTERM cancel the current task, and SIGHUP call `reload`."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 (this is its code)
    stop_signal(reload=reload, status=lambda _: 1).add_done_callback(lambda _: task.cancel())


async def _start(sites: Iterable[Site], print: Callable[..., None] | None) -> None:  # noqa: A002 (aiohttp's name)
    """Listen, and say where."""
    for site in sites:
        if print is not None:
            site.tell = partial(_say_waiting, print)
        await site.start()
    if print is not None:
        names = ", ".join(sorted(site.name for site in sites))
        print(f"======== Running on {names} ========\n(Press CTRL+C to quit)")


def _run(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop | None) -> None:
    """Run `work` until it is cancelled, on `loop` or on a new one."""
    with asyncio.Runner(loop_factory=None if loop is None else lambda: loop) as runner:
        running = runner.get_loop()
        main = running.create_task(work)
        # Not `runner.run`: it would cancel the handlers together with what waits for them.
        with suppress(asyncio.CancelledError):
            try:
                running.run_until_complete(main)
            except (web.GracefulExit, KeyboardInterrupt):
                main.cancel()
                running.run_until_complete(main)


def _say_waiting(print: Callable[..., None], what: str) -> None:  # noqa: A002 (aiohttp's name)
    print(f"waiting for {what}; {HOW_TO_END}")


def _places(
    host: str | Iterable[str] | None,
    port: int | None,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None,
    sock: socket.socket | Iterable[socket.socket] | None,
) -> list[dict[str, Any]]:
    """Where to listen, as arguments of `Site`."""
    places: list[dict[str, Any]] = []
    if host is not None:
        places += [{"host": name, "port": port} for name in ([host] if isinstance(host, str) else host)]
    elif (path is None and sock is None) or port is not None:
        places.append({"port": port})
    if path is not None:
        paths = [path] if isinstance(path, str | os.PathLike) else path
        places += [{"path": one} for one in paths]
    if sock is not None:
        places += [{"sock": one} for one in ([sock] if isinstance(sock, socket.socket) else sock)]
    return places
