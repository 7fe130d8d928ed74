"""`Site`: an aiohttp application behind sockets that the engine owns.

It stands beside aiohttp's `TCPSite`, `UnixSite` and `SockSite`, under the same runners. The engine accepts, parses
and writes; the application gets its requests over a transport of the engine's (`handler`). Connections that are idle
do not exist for Python, and native routes never wake it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aiohttp import web
from yarl import URL

from penstock import _native
from penstock.config import Edge, Status, parse_size
from penstock.engine import Engine, default_engine
from penstock.exceptions import make_error
from penstock.metrics import Pages
from penstock.tokens.jwks import first_keys

from .client_socket import ClientSocket
from .handler import make_handler
from .native import native_routes
from .sending import restore_sendfile, take_over_sendfile

__all__ = ["Site"]

_log: Final = logging.getLogger("penstock.web")


class Site(web.BaseSite):
    """Serves a runner's application on sockets of the engine's.

    Listens to `host` and `port`, to the Unix socket at `path`, or to `sock`; the first of these that is given.

    Args:
        runner: an `AppRunner` or `ServerRunner`, after its `setup`.
        host: a name or an address; None for all interfaces.
        port: 8080 by default; 0 for a free one, which `port` then says.
        path: of a Unix socket. One that nobody listens to any more is replaced.
        sock: a socket that is bound, and may listen already. It is closed when the site stops, as aiohttp does.
        engine: what serves; by default the one that the process shares (`penstock.default_engine`).
        edge: what clients may take.
        access_log: file of the engine's own log, of native routes and of requests that it refuses; `"-"` for standard
            error. None: they are not logged.
        status: where pages about the engine are served, until the runner is cleaned up: its health, whether it takes
            requests, its metrics (`penstock.metrics`). None: nowhere.

    Raises:
        RuntimeError: the runner is not set up.
    """

    __slots__ = ("_access_log", "_edge", "_engine", "_host", "_path", "_port", "_sock", "_status")

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str | None = None,
        port: int | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        sock: socket.socket | None = None,
        engine: Engine | None = None,
        edge: Edge | None = None,
        access_log: str | os.PathLike[str] | None = None,
        status: Status | None = None,
    ) -> None:
        self._edge = edge or Edge()
        super().__init__(runner, backlog=self._edge.backlog)
        self._host = host
        self._port = 8080 if port is None else port
        self._path = None if path is None else os.fspath(path)
        self._sock = sock
        self._engine = engine
        self._access_log = None if access_log is None else os.fspath(access_log)
        self._status = status

    @property
    def name(self) -> str:
        """Where it listens, as a URL."""
        if self._path is not None:
            return f"http://unix:{self._path}:"
        if self._sock is not None:
            address = self._sock.getsockname()
            if isinstance(address, str):
                return f"http://unix:{address}:"
            return str(URL.build(scheme="http", host=address[0], port=address[1]))
        return str(URL.build(scheme="http", host=self._host or "0.0.0.0", port=self.port))

    @property
    def port(self) -> int:
        """The port that is listened to; until the site is started the one that was asked for."""
        addresses = [] if self._server is None else self._server.addresses  # type: ignore[attr-defined]
        return next((address[1] for address in addresses if not isinstance(address, str)), self._port)

    @property
    def status_url(self) -> str | None:
        """Where the pages about the engine are; None without them, or before the start."""
        pages: Pages | None = getattr(self._server, "pages", None)
        return None if pages is None else pages.url

    async def start(self) -> None:
        """Listen. Connections are accepted from now on.

        Raises:
            SystemFailureError: the operating system refused a socket (LISTEN_FAILED).
            OSError: the host has no address.
        """
        await super().start()
        server = self._runner.server
        assert server is not None  # noqa: S101 (the constructor has looked)
        loop = asyncio.get_running_loop()
        hosts = await self._addresses(loop)
        engine = self._engine or default_engine()
        edge = self._edge
        lane = _native.Lane(
            engine.native,
            partial(make_handler, server),
            ClientSocket,
            _log_fault,
            edge.app_waiting,
            edge.app_wait,
            parse_size(edge.app_ends),
            self._path or (_unix_path(self._sock) if self._sock is not None else None),
        )
        app = getattr(self._runner, "app", None)
        routes = [] if app is None else native_routes(app, engine)
        await first_keys(loop)
        site = _native.Site(engine.native, edge, routes, self._access_log, lane)
        pages = None
        try:
            # First: until the site listens they say that it does not.
            if self._status is not None:
                pages = Pages(engine, self._status)
            addresses = self._listen(site, hosts)
        except BaseException:
            site.close()
            lane.close()
            if pages is not None:
                pages.close()
            raise
        take_over_sendfile(loop)
        listening = _Listening(site, lane, pages, addresses, partial(self._release, loop))
        self._server = listening  # type: ignore[assignment]
        _finish_with(server, listening)

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        restore_sendfile(loop)
        if self._sock is not None:
            self._sock.close()

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> list[str]:
        if self._path is not None or self._sock is not None:
            return []
        if not self._host:
            # As asyncio does: all interfaces of both families, where there are both.
            return ["0.0.0.0", "::"] if socket.has_dualstack_ipv6() else ["0.0.0.0"]
        found = await loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def _listen(self, site: _native.Site, hosts: list[str]) -> list[Any]:
        if self._path is not None:
            site.listen_unix(self._path)
            return [self._path]
        if self._sock is not None:
            address = self._sock.getsockname()
            if self._sock.type != socket.SOCK_STREAM:
                raise make_error("BAD_CONFIGURATION", f"{self._sock!r} is not a stream socket")
            site.listen_fd(os.dup(self._sock.fileno()))
            return [address]
        return [site.listen_tcp(host, self._port) for host in hosts]


def _finish_with(server: web.Server, listening: "_Listening") -> None:
    """Have `server.shutdown`, which waits for handlers, wait for what the engine sends for them as well."""
    wait_for_handlers = server.shutdown

    async def shutdown(timeout: float | None = None) -> None:  # noqa: ASYNC109 (aiohttp's signature)
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        # Handlers first: aiohttp cancels those that are late, unless their clients have been cut off before.
        await wait_for_handlers(timeout)
        await listening.finish(deadline)

    server.shutdown = shutdown  # type: ignore[method-assign]


def _unix_path(sock: socket.socket) -> str | None:
    address = sock.getsockname()
    return address if isinstance(address, str) else None


def _log_fault(request: str | None, name: str, detail: str) -> None:
    if request is None:
        _log.error("%s (%s)", detail, name)
    else:
        _log.error("%s: the response was cut off: %s (%s)", request, detail, name)


class _Bound:
    """What a runner asks for the address of."""

    def __init__(self, address: Any) -> None:
        self._address = address

    def getsockname(self) -> Any:
        return self._address


class _Listening:
    """What stands in the place of an `asyncio.Server`."""

    def __init__(
        self,
        site: _native.Site,
        lane: _native.Lane,
        pages: Pages | None,
        addresses: list[Any],
        release: Callable[[], None],
    ) -> None:
        self.site = site
        self.lane = lane
        self.pages = pages
        self.addresses = addresses
        self._release = release
        self._open = True

    @property
    def sockets(self) -> tuple[_Bound, ...]:
        return tuple(_Bound(address) for address in self.addresses) if self._open else ()

    def close(self) -> None:
        """Accept no more. What was accepted is the runner's to finish."""
        if not self._open:
            return
        self._open = False
        self.site.drain()
        self.lane.drain()
        self._release()

    async def finish(self, deadline: float | None) -> None:
        """Wait for the responses that are left, and cut them off at `deadline`."""
        idle = self.site.idle()
        if deadline is not None:
            await asyncio.wait({idle}, timeout=max(0, deadline - asyncio.get_running_loop().time()))
            if not idle.done() and (active := self.site.active()):
                _log.warning("the time to finish is over: cutting off %d responses", active)
                self.site.close()
        await idle
        self.lane.close()
        if self.pages is not None:
            self.pages.close()
