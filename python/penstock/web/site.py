"""`Site`: an aiohttp application behind sockets that the engine owns.

It stands beside aiohttp's `TCPSite`, `UnixSite` and `SockSite`, under the same runners. The engine accepts, parses
and writes; the application gets its requests over a transport of the engine's (`handler`). Connections that are idle
do not exist for Python, and native routes never wake it.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from aiohttp import web
from yarl import URL

from penstock import _arguments
from penstock._awaited import awaited_at_start
from penstock.config import TLS, AccessLog, Edge, Status
from penstock.engine import Engine, default_engine
from penstock.metrics import Pages
from penstock.serving.listener import Listening, Where, make_lane, scheme_of

from .access import lines_of
from .handler import handler_factory
from .native import engine_of, native_routes
from .runner_settings import edge_of
from .sendfile import restore_sendfile, take_over_sendfile

__all__ = ["Site"]


class Site(web.BaseSite):
    """Serves a runner's application on sockets of the engine's.

    Listens to `host` and `port`, to the Unix socket at `path`, or to `sock`; the first of these that is given.

    What the runner was told holds here too. `keepalive_timeout` stands in the place of `Edge.idle_timeout`;
    `max_line_size`, `max_field_size` and `max_headers` raise the limits of `edge` where they are higher. All others
    (`logger`, `debug`, `lingering_time`, `read_bufsize`, `auto_decompress`, `handler_cancellation`, `request_factory`,
    `handle_signals`, `shutdown_timeout`) mean what they mean for aiohttp, whose protocol and runner apply them.
    `timeout_ceil_threshold` rounds nothing, as the engine's timers are exact.

    The runner's `access_log` gets a line for each response at its end, from the application, from native routes and
    topics, and for requests that are refused, in the order of the ends; None logs nothing. A runner that was told an
    `access_log_class` or an `access_log_format` has the application's lines written by these, as aiohttp does; the
    others are the engine's, on the same logger. Whether the logger takes lines of level INFO is looked at when the
    site starts.

    Args:
        runner: an `AppRunner` or `ServerRunner`, after its `setup`.
        host: a name or an address; None for all interfaces.
        port: 8080 by default, 8443 over TLS; 0 for a free one, which `port` then says.
        path: of a Unix socket. One without a listener is replaced.
        sock: a socket that is bound, and may listen already, or several. They are closed when the site stops, as
            aiohttp does.
        engine: what serves; by default the one that gateways of the application's routes were given, and where they were
            given none the one that the process shares (`penstock.default_engine`).
        edge: what clients may take.
        access_log: file for the lines, in place of the runner's logger; `"-"` for standard error. It is opened anew
            when it was moved away. A `config.AccessLog` says besides what they look like.
        ssl_context: a `penstock.web.TLS`, in place of `Edge.tls`: clients then speak TLS. An `ssl.SSLContext` does not
            tell its files, so the engine cannot use one.
        status: where pages about the engine are served, until the runner is cleaned up: its health, whether it takes
            requests, its metrics (`penstock.metrics`). None: nowhere.

    Raises:
        RuntimeError: the runner is not set up.
    """

    __slots__ = ("_access_log", "_edge", "_engine", "_status", "_where", "tell")

    tell: Callable[[str], None] | None
    """Told what a stop waits for, while it does."""

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str | None = None,
        port: int | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        sock: socket.socket | Iterable[socket.socket] | None = None,
        engine: Engine | None = None,
        edge: Edge | None = None,
        access_log: str | os.PathLike[str] | AccessLog | None = None,
        ssl_context: TLS | None = None,
        status: Status | None = None,
    ) -> None:
        if not isinstance(runner, web.BaseRunner):
            raise _arguments.bad(
                "runner", runner, "an aiohttp runner: write web.AppRunner(app), and set it up"
            )
        _arguments.text("host", host, "'127.0.0.1'")
        _arguments.whole("port", port)
        _arguments.path("path", path)
        sockets = tuple(sock) if isinstance(sock, Iterable) else (sock,)
        for each in sockets:
            _arguments.instance("sock", each, socket.socket, "a socket that is bound, several, or None")
        _arguments.instance("engine", engine, Engine, "a penstock.Engine, or None for the shared one")
        _arguments.EDGE("edge", edge)
        if not isinstance(access_log, AccessLog):
            _arguments.path("access_log", access_log)
            access_log = None if access_log is None else AccessLog(path=access_log)
        _arguments.STATUS("status", status)
        _arguments.server_tls("ssl_context", ssl_context)
        edge = edge or Edge()
        self._edge = edge if ssl_context is None else replace(edge, tls=ssl_context)
        super().__init__(runner, backlog=self._edge.backlog)
        self._where = Where(
            host,
            _port(self._edge) if port is None else port,
            None if path is None else os.fspath(path),
            tuple(each for each in sockets if each is not None),
        )
        self._engine = engine
        self._access_log = access_log
        self._status = status
        self.tell = None

    @property
    def name(self) -> str:
        """Where it listens, as a URL."""
        unix, scheme = self._where.unix(), scheme_of(self._edge)
        if unix is not None:
            return f"{scheme}://unix:{unix}:"
        if self._where.sockets:
            address = self._where.sockets[0].getsockname()
            return str(URL.build(scheme=scheme, host=address[0], port=address[1]))
        return str(URL.build(scheme=scheme, host=self._where.host or "0.0.0.0", port=self.port))

    @property
    def port(self) -> int:
        """The port that is listened to; until the site is started the one that was asked for."""
        addresses = [] if self._server is None else self._server.addresses  # type: ignore[attr-defined]
        return next((address[1] for address in addresses if not isinstance(address, str)), self._where.port)

    @property
    def engine(self) -> Engine | None:
        """What serves; before the start what was given."""
        return self._engine

    @property
    def status_url(self) -> str | None:
        """Where the pages about the engine are; None without them, or before the start."""
        pages: Pages | None = getattr(self._server, "pages", None)
        return None if pages is None else pages.url

    @property
    def redirect_url(self) -> str | None:
        """Where plain HTTP is redirected to https (`TLS.http_redirect`); None without that, or before the start."""
        redirect = getattr(self._server, "redirect", None)
        return None if redirect is None else redirect.url

    def reload_tls(self) -> None:
        """Read the files of certificates anew, if it speaks TLS and is started. What is wrong with them is logged."""
        if self._server is not None:
            self._server.reload_tls()  # type: ignore[attr-defined]

    async def start(self) -> None:
        """Listen. Connections are accepted from now on.

        Raises:
            SystemFailureError: the operating system refused a socket, or the host has no address (LISTEN_FAILED).
            ConfigurationError: no engine was given, and native routes have several; or the runner was told what the
                engine cannot do: `tcp_keepalive=False`, or a head of more than 256 KiB or 4096 fields.
        """
        await super().start()
        server = self._runner.server
        assert server is not None  # noqa: S101 (the constructor has looked)
        loop = asyncio.get_running_loop()
        addresses = await self._where.addresses()
        app = getattr(self._runner, "app", None)
        engine = self._engine or (None if app is None else engine_of(app)) or default_engine()
        self._engine = engine
        edge = edge_of(server, self._edge)
        logger, own = lines_of(server)
        lane = make_lane(engine, handler_factory(server, engine, logs=own), edge, self._where.unix())
        routes = [] if app is None else native_routes(app, engine)
        await awaited_at_start(loop)
        log = self._access_log or logger
        listening = Listening(engine, lane, edge, routes, log, self._status, own_log=own)
        listening.tell = self.tell
        listening.listen(self._where, addresses, partial(self._release, loop))
        take_over_sendfile(loop)
        self._server = listening  # type: ignore[assignment]
        _finish_with(server, listening)

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        restore_sendfile(loop)
        self._where.close()


def _port(edge: Edge) -> int:
    """The default, as aiohttp's."""
    return 8080 if edge.tls is None else 8443


def _finish_with(server: web.Server, listening: Listening) -> None:
    """Have `server` end with the site.

    Its `pre_shutdown`, which closes protocols that wait for a request, has the lane end its own: clients that are not
    given away yet still ask, and aiohttp would drop what a closed protocol is given. Its `shutdown`, which waits for
    handlers, waits for what the engine sends for them as well.
    """
    close_idle, wait_for_handlers = server.pre_shutdown, server.shutdown

    def pre_shutdown() -> None:
        listening.lane.retire()
        close_idle()

    async def shutdown(timeout: float | None = None) -> None:  # noqa: ASYNC109 (aiohttp's signature)
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        # Handlers first: aiohttp cancels late ones, unless their clients have been cut off before.
        await wait_for_handlers(timeout)
        await listening.finish(deadline)

    server.pre_shutdown = pre_shutdown  # type: ignore[method-assign]
    server.shutdown = shutdown  # type: ignore[method-assign]
