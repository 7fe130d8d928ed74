"""A server as a whole: what the options of `penstock serve` and its configuration file say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import checks
from .access_log import AccessLog
from .caching import Cache, Caching
from .edge import Edge, RouteLimits
from .engine import Flow, Pool, Reads
from .events import Drain, EventRelay
from .http2 import Http2, OriginHttp2
from .listen import Listen, parse_listen
from .origins import ClientCertificate, Forwarding, OriginLimits, OriginTls, Timeouts
from .status import Status
from .tls import TLS
from .tracing import Tracing
from .upstream import Check, Health, Origin, Retries
from .workers import Workers

DEFAULT_ORIGIN = "default"
"""The name of the origin that routes have which name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOrigin:
    """An origin of a configuration file, or several that stand in for one another: `[origins.NAME]`."""

    urls: tuple[Origin | str, ...] | str
    """`"http://10.0.0.5:8080"`, or a list of URLs. A table in place of a URL says more of that origin:
    `{ url = "http://10.0.0.6:8080", weight = 2 }`."""
    balance: Literal["round-robin", "least-loaded", "hash"] = "round-robin"
    """How the origin of a request is chosen, as for `penstock.Origins`."""
    key: str = "path"
    """For `hash`: `path`, `target`, or `field:NAME`."""
    health: Health | None = None
    """When an origin is ejected, and how it returns. None: as `Health` has it."""
    check: Check | None = None
    """How origins are asked whether they are well. None: they are not."""
    retries: Retries | None = None
    """What is sent to another origin, and how often. None: as `Retries` has it."""
    name: str | None = None
    """By what they are known together to the cache and in errors, such as `https://media.example`. None: the first
    URL."""
    timeouts: Timeouts | None = None
    """Limits on time of the routes to it. None: those of the server."""
    http2: bool = False
    """Whether it is asked by HTTP/2, as gRPC needs it. One at https may settle on HTTP/1.1 instead."""
    certificate: ClientCertificate | None = None
    """The certificate that it is shown if it asks for one; only at https."""

    def __post_init__(self) -> None:
        checks.of_their_types(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRoute:
    """A route of a configuration file, which the engine answers alone: `[[routes]]`.

    The longest prefix wins, and a route with a host before one without. A path with dot segments matches no route.
    """

    prefix: str = "/"
    """How the path of a request begins, percent-encoded as on the wire; from slash to slash."""
    host: str | None = None
    """The host that must be asked for, without a port. None: any."""
    origin: str = DEFAULT_ORIGIN
    """The NAME of an `[origins.NAME]`, or a URL. `origin` of the server is the one called `default`."""
    rewrite: str | None = None
    """What stands in place of `prefix` at the origin. None: the same."""
    gate: str | None = None
    """The NAME of the `[gates.NAME]` that verifies tokens. None: every request is let in."""
    name: str | None = None
    """What it is called in logs and metrics. None: its prefix."""
    headers: Mapping[str, str | None] = field(default_factory=dict)
    """Fields to send to the origin in place of those of the same names; None sends none."""
    add_headers: tuple[tuple[str, str], ...] = ()
    """Fields to send to the origin besides those of the same names: pairs of name and value."""
    response_headers: Mapping[str, str | None] = field(default_factory=dict)
    """Fields to send to the client in place of those of the same names; None sends none."""
    add_response_headers: tuple[tuple[str, str], ...] = ()
    """Fields to send to the client besides those of the same names."""
    timeouts: Timeouts | None = None
    """Limits on time. None: those of the origin, and else of the server."""
    limits: RouteLimits = field(default_factory=RouteLimits)
    """How much the route serves at most."""
    caching: Caching | bool = True
    """How the route uses the cache, if there is one. True: as the server's `caching` has it. False: not at all."""
    forwarding: Forwarding | None = None
    """What each side is told of the other. None: as the server's `forwarding` has it."""
    events: EventRelay | None = None
    """What is done with event streams besides relaying them. None: nothing."""
    drain: Drain | None = None
    """How a response is read on when its client has disconnected. None: the origin is cancelled at once."""

    def __post_init__(self) -> None:
        checks.of_their_types(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSite:
    """One more listener of a configuration file: `[[sites]]`."""

    listen: str
    """Where it listens, as `Server.listen`."""
    edge: Edge | None = None
    """The limits of its clients. None: those of the server."""
    tls: TLS | None = None
    """TLS towards its clients. None: plain HTTP, whatever the server's own listener speaks."""
    http2: Http2 | None = field(default_factory=Http2)
    """HTTP/2 over TLS. None: HTTP/1.1 alone."""
    routes: tuple[ServerRoute, ...] = ()
    """Its routes. Empty: those of the server."""

    def __post_init__(self) -> None:
        checks.of_their_types(self)
        _check_listen(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What `penstock serve` serves, and how: its configuration file, and its options.

    An application is `app`; without one the engine relays by `routes`, or everything to the one `origin`.
    """

    listen: str = "127.0.0.1:8080"
    """Where it listens: HOST:PORT, a PORT or :PORT for all interfaces, or unix:PATH; port 0 takes a free one. fd:NAME or
    fd:NUMBER takes a socket that the process was started with, such as systemd's. This machine alone by default."""
    app: str | None = None
    """MODULE:APP, an aiohttp application, which makes its own gateways and routes. None: without one."""
    lane: Literal["native", "app"] = "native"
    """What relays to the origin: the engine alone, or an aiohttp application, for comparison."""
    drain: float = 30.0
    """Seconds for requests to finish after SIGTERM or SIGINT: players fetch a segment of ten seconds within it, and
    process managers wait for as long or longer."""
    upgrade_timeout: float = 120.0
    """Seconds in which a process that is to take the place of this one (SIGUSR2, `penstock upgrade`) must be ready."""
    threads: int | None = None
    """Engine threads. None: one less than the usable cores, at least one."""
    control: str | None = None
    """unix:PATH, a socket for `penstock cache` and `penstock upgrade`. None: without one."""
    uvloop: bool | None = None
    """Use uvloop, or asyncio's own loop. None: uvloop, if it is installed and there is an application."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged, to standard error."""
    pool: Pool = field(default_factory=Pool)
    """The memory for payload bytes; `memory` of a file is short for its `memory`."""
    flow: Flow = field(default_factory=Flow)
    """How much may be on its way to one consumer."""
    reads: Reads = field(default_factory=Reads)
    """How much memory one read is offered."""
    cache: Cache | None = None
    """The cache. None: nothing is cached."""
    caching: Caching = field(default_factory=Caching)
    """How routes use the cache, if they say nothing else."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """Limits on time, if routes and origins say nothing else."""
    limits: OriginLimits = field(default_factory=OriginLimits)
    """Limits on connections to each origin, and on responses."""
    origin_tls: OriginTls = field(default_factory=OriginTls)
    """How https origins are verified."""
    origin_http2: OriginHttp2 = field(default_factory=OriginHttp2)
    """The limits of connections of HTTP/2 to origins."""
    forwarding: Forwarding = field(default_factory=Forwarding)
    """What each side is told of the other, if routes say nothing else."""
    edge: Edge = field(default_factory=Edge)
    """The limits of clients."""
    tls: TLS | None = None
    """TLS towards clients. None: plain HTTP."""
    http2: Http2 | None = field(default_factory=Http2)
    """HTTP/2 over TLS. None: HTTP/1.1 alone."""
    status: Status | None = None
    """The status pages. None: nowhere."""
    tracing: Tracing | None = None
    """Traces of requests. None: none."""
    access_log: AccessLog | None = field(default_factory=AccessLog)
    """The access log. None: none."""
    workers: Workers | None = None
    """Worker processes of the application. None: it runs in this process."""
    origins: Mapping[str, ServerOrigin] = field(default_factory=dict)
    """The origins, by names that routes have; `origin` of a file is short for `origins.default.urls`."""
    gates: Mapping[str, Any] = field(default_factory=dict)
    """What verifies tokens, by names that routes have."""
    routes: tuple[ServerRoute, ...] = ()
    """What the engine relays. Empty: everything to the origin called `default`."""
    sites: tuple[ServerSite, ...] = ()
    """Further listeners."""

    def __post_init__(self) -> None:
        checks.of_their_types(self)
        _check_listen(self)
        # A day.
        checks.seconds(self, "drain", zero=True)
        if self.drain > 86400:  # noqa: PLR2004
            raise checks.bad(self, "drain", "must be at most 86400 seconds, a day")
        checks.seconds(self, "upgrade_timeout")
        if self.threads is not None:
            checks.count(self, "threads", 1, 256)
        if self.control is not None and self.control.removeprefix("unix:") in {self.control, ""}:
            raise checks.bad(self, "control", "must be unix:PATH")

    @property
    def place(self) -> Listen:
        """Host and port of `listen`, the path of a Unix socket, or sockets that are there already."""
        return parse_listen(self.listen)


def _check_listen(settings: Server | ServerSite) -> None:
    try:
        parse_listen(settings.listen)
    except ValueError as error:
        raise checks.bad(settings, "listen", str(error)) from None
