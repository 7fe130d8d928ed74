"""How one listens on sockets of the engine's, and ends that: what every server here has in common."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, Self

from penstock import _native
from penstock.config import AccessLog, Edge, Status
from penstock.config.listen import Inherited, Listen
from penstock.engine import Engine
from penstock.exceptions import make_error
from penstock.metrics import Pages

from .access_lines import AccessFile, AccessLines
from .client_socket import ClientSocket
from .faults import log_fault
from .inherited import open_inherited
from .shutdown import last_act

__all__ = ["Listening", "Where", "make_lane", "reload_of", "scheme_of", "url_of"]

_log: Final = logging.getLogger("penstock.web")

_HTTPS: Final = 443

# Seconds until a stop says what it waits for: most have nothing to wait for by then. And until it says so again.
_SOON: Final = 0.25
_AGAIN: Final = 10.0
# Seconds within which the clients of event streams that have ended with the server come back (arbitrary). Topics end all
# at once, and a process takes some thousand connections a second.
_RETRY: Final = 5.0
# Seconds between two looks at whether connections are left (arbitrary).
_LOOK: Final = 0.01
# Seconds that a process which is to end at once takes to reset its connections (arbitrary): an engine thread's turn.
_CUTTING: Final = 0.5


def _everywhere() -> list[str]:
    """All interfaces, as asyncio does: of both families, where there are both."""
    return ["0.0.0.0", "::"] if socket.has_dualstack_ipv6() else ["0.0.0.0"]


class Where(NamedTuple):
    """Where one listens: at `path`, on `sockets`, or at `host` and `port`; the first of these that is given."""

    host: str | None
    port: int
    path: str | None = None
    sockets: tuple[socket.socket, ...] = ()

    @classmethod
    def of(cls, listen: Listen) -> Self:
        """As an option says.

        Raises:
            SystemFailureError: a socket that should be there is not (LISTEN_FAILED).
        """
        if isinstance(listen, Inherited):
            return cls("", 0, None, open_inherited(listen))
        return cls("", 0, listen) if isinstance(listen, str) else cls(*listen)

    async def addresses(self) -> list[str]:
        """The addresses of the host.

        Raises:
            SystemFailureError: it has none (LISTEN_FAILED).
        """
        if self.path is not None or self.sockets:
            return []
        if not self.host:
            return _everywhere()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except OSError as error:
            raise make_error(
                "LISTEN_FAILED", f"{self.host}:{self.port} has no address: {error.strerror}"
            ) from None
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def listen(self, site: _native.Site, addresses: list[str]) -> list[Any]:
        """Have `site` listen; what is returned is where it does.

        Raises:
            SystemFailureError: the operating system refused a socket (LISTEN_FAILED).
        """
        if self.path is not None:
            site.listen_unix(self.path)
            return [self.path]
        for each in self.sockets:
            if each.type != socket.SOCK_STREAM:
                raise make_error("BAD_CONFIGURATION", f"{each!r} is not a stream socket")
            site.listen_fd(each.fileno())
        if self.sockets:
            return [each.getsockname() for each in self.sockets]
        return [site.listen_tcp(address, self.port) for address in addresses]

    def unix(self) -> str | None:
        """The path of a Unix socket, if it is one."""
        if self.path is not None or not self.sockets:
            return self.path
        address = self.sockets[0].getsockname()
        return address if isinstance(address, str) else None

    def close(self) -> None:
        """Close the sockets that were given: the engine has duplicates."""
        for each in self.sockets:
            each.close()


def make_lane(
    engine: Engine, factory: Callable[[], Any] | None, edge: Edge, unix: str | None
) -> _native.Lane:
    """The application's side of a site, on the running loop.

    Args:
        engine: what serves.
        factory: makes a protocol for the application; `None` if there is no application, and the lane brings faults
            alone.
        edge: what clients may take.
        unix: the path of the socket that clients connect to, if it is a Unix socket.
    """
    for name in edge.secret_parameters:
        _native.hide(name)
    return _native.Lane(engine.native, edge, factory, ClientSocket, log_fault, unix)


def scheme_of(edge: Edge) -> str:
    """The scheme of the URLs of a server."""
    return "http" if edge.tls is None else "https"


def url_of(scheme: str, host: str, port: int) -> str:
    """The URL of an address."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _own_pages(engine: Engine, edge: Edge) -> list[_native.HttpPages]:
    """What the engine itself answers on a server, before the routes of an application."""
    pages = []
    if edge.acme_dir is not None:
        pages.append(_native.HttpPages.challenges(os.fspath(edge.acme_dir)))
    if edge.grpc_health:
        terms = Status()
        pages.append(_native.HttpPages.grpc_health(engine.native, terms.hung, terms.behind))
    return pages


class _Certified(Protocol):
    """What has certificates."""

    def reload_tls(self) -> None:
        """Read them anew."""


def reload_of(
    edge: Edge, sites: Iterable[_Certified], reloaded: Callable[[], None] | None = None
) -> Callable[[], None] | None:
    """What SIGHUP does for `sites`, which may be added later: it reads their certificates anew. None without TLS.

    `reloaded` is called when that has begun: the engine logs what is wrong with a certificate, and keeps the one before.
    """
    if edge.tls is None:
        return None

    def reload() -> None:
        for site in sites:
            site.reload_tls()
        if reloaded is not None:
            reloaded()

    return reload


class _Bound:
    """What a runner asks for the address of."""

    def __init__(self, address: Any) -> None:
        self._address = address

    def getsockname(self) -> Any:
        return self._address


class Redirect:
    """A listener of plain HTTP that sends clients to https, until it is closed.

    Args:
        engine: what serves.
        edge: what clients may take, and where it listens (`TLS.http_redirect`).
        log: the access log.
        address: where TLS is listened to.

    Attributes:
        url: where it listens.

    Raises:
        SystemFailureError: the operating system refused a socket (LISTEN_FAILED).
    """

    def __init__(self, engine: Engine, edge: Edge, log: _native.AccessLog | None, address: Any) -> None:
        tls = edge.tls
        place = None if tls is None else tls.redirects_at()
        assert tls is not None  # noqa: S101 (said to mypy)
        assert place is not None  # noqa: S101 (likewise)
        target = tls.redirect_port or (_HTTPS if isinstance(address, str) else address[1])
        natives = [_native.HttpPages.redirects(target), *_own_pages(engine, edge)]
        self._site = _native.Site(engine.native, replace(edge, tls=None), natives, log, None)
        host, port = place
        try:
            for each in [host] if host else _everywhere():
                _, port = self._site.listen_tcp(each, port)
        except BaseException:
            self._site.close()
            raise
        self.url: Final = url_of("http", host or "0.0.0.0", port)
        _log.info("%s redirects to https", self.url)

    def close(self) -> None:
        """Accept no more. What is being answered is a line or two, and is cut off."""
        self._site.close()


class Listening:
    """A site of the engine's with its lane, and the pages about it. It stands in the place of an `asyncio.Server`.

    Until it listens the pages say that it does not.

    Args:
        engine: what serves.
        lane: for requests of the application, which is closed with it.
        edge: what clients may take.
        routes: what the engine answers alone.
        access_log: a logger, or what is written to a file.
        own_log: the application logs what it answers by itself.
        status: where the pages are; None for nowhere.

    Raises:
        SystemFailureError: the pages cannot be opened (LISTEN_FAILED). The lane is closed.
    """

    def __init__(
        self,
        engine: Engine,
        lane: _native.Lane,
        edge: Edge,
        routes: Sequence[_native.Route | _native.Topics],
        access_log: logging.Logger | AccessLog | None,
        status: Status | None,
        *,
        own_log: bool = False,
    ) -> None:
        self.lane: Final = lane
        # Left last, with the lines of all that was cut off.
        self._lines: AccessFile | AccessLines | None = None
        if isinstance(access_log, logging.Logger):
            self._lines = AccessLines.join(access_log)
        elif access_log is not None:
            self._lines = AccessFile(access_log)
        log = None if self._lines is None else self._lines.native
        try:
            self.own_pages: Final = _own_pages(engine, edge)
            natives = [*routes, *self.own_pages]
            self.site: Final = _native.Site(engine.native, edge, natives, log, lane, own_log)
        except BaseException:
            self._leave_lines()
            raise
        self.redirect: Redirect | None = None
        self._make_redirect = partial(Redirect, engine, edge, log)
        self.pages: Pages | None = None
        self.addresses: list[Any] = []
        self.tell: Callable[[str], None] | None = None
        self._scheme = scheme_of(edge)
        self._redirects = edge.tls is not None and edge.tls.http_redirect is not None
        self._open = True
        self._parts = False
        self._release: Callable[[], None] | None = None
        self._reminder: asyncio.TimerHandle | None = None
        # A process that is ended at once has its responses cut off before.
        self._last = ExitStack()
        if status is not None:
            try:
                self.pages = Pages(engine, status)
            except BaseException:
                self.abandon()
                raise

    def listen(self, where: Where, addresses: list[str], release: Callable[[], None] | None = None) -> None:
        """Accept connections from now on. `release` is called when it does no more.

        Raises:
            SystemFailureError: the operating system refused a socket (LISTEN_FAILED). Everything is closed.
        """
        try:
            self.addresses = where.listen(self.site, addresses)
            if self._redirects:
                self.redirect = self._make_redirect(self.addresses[0])
        except BaseException:
            self.abandon()
            raise
        self._release = release
        self._last.enter_context(last_act(self._cut))

    def reload_tls(self) -> None:
        """Read the files of certificates anew. What is wrong with them is logged."""
        self.site.reload_tls()

    def set_routes(self, routes: Sequence[_native.Route | _native.Topics]) -> None:
        """Replace what the engine answers alone. Requests in progress end by the earlier routes."""
        self.site.set_routes([*routes, *self.own_pages])

    def abandon(self) -> None:
        """Close everything at once."""
        self._open = False
        if self.redirect is not None:
            self.redirect.close()
        self.site.close()
        self._close_rest()

    @property
    def url(self) -> str:
        """Where it listens; the first of the addresses."""
        address = self.addresses[0]
        if isinstance(address, str):
            return f"unix:{address}"
        return url_of(self._scheme, *address[:2])

    @property
    def sockets(self) -> tuple[_Bound, ...]:
        """For a runner."""
        return tuple(_Bound(address) for address in self.addresses) if self._open else ()

    def close(self) -> None:
        """Accept no more. What was accepted is to be finished."""
        if not self._open:
            return
        self._open = False
        if self.redirect is not None:
            self.redirect.close()
        self.site.drain(_RETRY)
        if not _native.gives_clients_away():
            self.lane.drain()
        if self._release is not None:
            self._release()
        self._remind(_SOON)

    def _remind(self, seconds: float) -> None:
        """Say in so many seconds what is still waited for, and then again and again."""
        if self.tell is not None:
            self._reminder = asyncio.get_running_loop().call_later(seconds, self._say_waiting, self.tell)

    def _say_waiting(self, tell: Callable[[str], None]) -> None:
        if self.site.active():
            rows = self.site.waited_for()
            of = ", ".join(
                f"{count} of {'the application' if lane == 'app' else route}" for lane, route, count in rows
            )
            tell(f"{self.site.active()} responses ({of})")
        self._remind(_AGAIN)

    def _cut(self) -> None:
        """Cut off what is left; a connection that only ends would make some bodies look whole."""
        self.site.close()
        until = time.monotonic() + _CUTTING
        while self.site.active() and time.monotonic() < until:
            time.sleep(0.01)

    async def part(self, deadline: float) -> None:
        """Begin to part from clients. In an upgrade wait until there is no connection any more, until `deadline`.

        Event streams whose clients come back by themselves end until then, each at a time of its own. What comes
        meanwhile on a connection that is not given away yet is answered here. Idempotent.
        """
        loop = asyncio.get_running_loop()
        if not self._parts:
            self._parts = True
            self.site.end_events(max(0, deadline - loop.time()))
        if not _native.gives_clients_away():
            return
        while self.site.counts().connections and loop.time() < deadline:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(_LOOK)
        self.lane.drain()

    async def finish(self, deadline: float | None) -> None:
        """Part from clients, wait for the responses that are left, and cut them off at `deadline`."""
        if deadline is not None:
            await self.part(deadline)
        idle = self.site.idle()
        if deadline is not None:
            await asyncio.wait({idle}, timeout=max(0, deadline - asyncio.get_running_loop().time()))
            if not idle.done() and (active := self.site.active()):
                _log.warning("the time to finish is over: cutting off %d responses", active)
                self.site.close()
        await idle
        self._close_rest()

    def _close_rest(self) -> None:
        self._last.close()
        if self._reminder is not None:
            self._reminder.cancel()
        self.lane.close()
        if self.pages is not None:
            self.pages.close()
        self._leave_lines()

    def _leave_lines(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.leave()
