"""A server whose sockets the engine owns, and its native routes."""

from dataclasses import dataclass, field
from os import PathLike

from . import checks
from .checks import PAGE, REGION, Size, parse_size
from .http2 import Http2
from .tls import TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The limits of clients of a server whose sockets the engine owns, `penstock.web.Site`.

    Times are seconds; None is no limit.
    """

    line_bytes: Size = "16KiB"
    """Bytes of a request line (414). Signed URLs and long queries need some; browsers send 2 to 8 KiB."""
    head_bytes: Size = "64KiB"
    """Bytes of a request head (431). Cookies may be many; nginx allows 40 KiB, HAProxy 15."""
    head_fields: int = 128
    """Header fields of a request; what aiohttp allows."""
    chunk_extension_bytes: Size = "16KiB"
    """Bytes of chunk extensions in one request body. No known client sends any, so this many are an attack."""
    trailer_bytes: Size = "16KiB"
    """Bytes of a request's trailer section."""
    max_body: Size | None = None
    """Bytes of a request body (413), unless its route says otherwise. None: an application has limits of its own,
    and a relayed body takes no more memory than its window."""
    idle_timeout: float | None = 75.0
    """Seconds for the next request on a kept-alive connection; nginx's default, above what most proxies and
    browsers use."""
    head_timeout: float | None = 10.0
    """Seconds for a request head, from its first byte to its last (408). It is usually one packet; a client that
    drips it attacks."""
    body_timeout: float | None = 60.0
    """Seconds between two reads of a request body (408)."""
    body_total_timeout: float | None = None
    """Seconds for a whole request body (408). None: an uploaded live stream has no end."""
    least_rate: Size | None = 500
    """Bytes a second that a request must arrive at, on average since it began (408, REQUEST_TOO_SLOW). Time in
    which a body waits for its origin does not count. As Apache's mod_reqtimeout; the slowest mobile line has ten
    times as much."""
    head_patience: float = 5.0
    """Seconds for a request head before `least_rate` applies: two lost packets."""
    body_patience: float = 20.0
    """Seconds for a request body before `least_rate` applies, as in Apache."""
    write_timeout: float | None = 60.0
    """Seconds for a client to take a byte of the waiting ones. A player that pauses longer returns with a range.

    The kernel gets the same limit, in whole seconds: sent bytes must be acknowledged by then (TCP_USER_TIMEOUT),
    and a client that is sent nothing must answer its probes. So a client whose host has vanished is cut, whether
    bytes wait for it or not."""
    stall_grace: float = 1.0
    """Seconds for a client that takes nothing while others wait for the connection to an origin that it holds. After
    that it may be cut, as many clients as needed, the longest stalled first. Several round trips of a bad network.
    While the pool is full, a quarter of it, also for a client that leaves the body of its request incomplete, and those
    are cut first that have held the most memory for longest."""
    overload_after: float | None = 0.1
    """Seconds that an engine thread may come late to its timer, or a request wait for the application, before that is
    taken for overload: then new requests are refused in part (503, OVERLOADED), as many as it takes, and so are
    requests that have waited for the application for so long. While one has, the newest is taken first. What is read
    for the first site of an engine holds for the engine. None: nothing is refused before limits are met."""
    client_connections: int | None = None
    """Connections of one address at a time. Further ones are answered with 429 and closed. None: behind a proxy,
    or a network address translation, many clients have one address."""
    client_requests: int | None = None
    """Requests of one address in progress at a time. Further ones are answered with 429 (ADDRESS_LIMITED)."""
    client_prefix: int = 64
    """Bits of an IPv6 address that are one client: a site is given a network of 64. For these two, and where
    requests wait for connections to an origin."""
    linger: float = 2.0
    """Seconds for a client that was refused to stop sending, so that it can read why."""
    max_event: Size = "1MiB"
    """Bytes of the longest event of a text/event-stream that a native route relays."""
    event_backlog: Size | None = "64KiB"
    """Bytes of an event stream that the kernel may hold unsent for a client (TCP_NOTSENT_LOWAT): some hundred
    events. Its default is 4 MB, which puts a slow client minutes behind, in memory that no counter shows. Bytes
    that are sent and not acknowledged are not limited, so no line is too long for it. None: the system's
    default."""
    trust_trace_context: bool = False
    """Whether clients may say of which trace a request is a part (`traceparent`), and whether that is kept: for clients
    that are servers of yours. If not, each request begins a trace of its own with a link to the client's. See
    `Tracing`."""
    app_waiting: int = 1024
    """Requests that wait for the application; further ones are answered with 503 at once. The application takes
    all of them in one turn of its loop, so they wait only if Python is stalled or overloaded."""
    app_wait: float | None = 10.0
    """Seconds for the application to take a request (503). A client that has waited this long has usually
    disconnected."""
    app_ends: Size = "16MiB"
    """Bytes of results of native requests that wait for an `on_complete` while Python is stalled: some 40,000
    requests. Further ones are dropped, and the log says how many: an engine thread does not wait for Python."""
    secret_parameters: tuple[str, ...] = (
        "token",
        "access_token",
        "id_token",
        "jwt",
        "sig",
        "signature",
        "api_key",
    )
    """Parameters whose values no log shows, in the query and in the path; case does not matter. They hold for the
    whole process, and so do the defaults, on aiohttp's own servers as well: names given here are added. The names
    of tokens that routes are given (`tokens.SignedUrl.name`, `tokens.Jwt.name`) are always included, and a JSON
    Web Token is hidden whatever its name."""
    backlog: int = 4096
    """Connections that wait to be accepted: a burst must not meet a full queue. The kernel caps it at somaxconn."""
    reuse_port: bool = False
    """Let other processes listen to the same address (SO_REUSEPORT)."""
    tls: TLS | None = None
    """TLS towards clients. None: plain HTTP."""
    http2: Http2 | None = field(default_factory=Http2)
    """HTTP/2 over TLS, for clients that offer it. None: HTTP/1.1 alone."""
    acme_dir: str | PathLike[str] | None = None
    """The web root into which an ACME client such as certbot writes its answers to http-01 challenges: requests for
    `/.well-known/acme-challenge/TOKEN` are answered with the file of that path in it. None: like all other requests."""
    grpc_health: bool = False
    """Answer `grpc.health.v1.Health/Check` for this server, whatever service is asked about: SERVING if it is ready, as
    the page `/ready` has it. Off: like all other requests."""

    def __post_init__(self) -> None:
        # A head is parsed in one piece, and the largest slab is a region.
        checks.size(self, "head_bytes", 1024, REGION)
        checks.size(self, "line_bytes", 64, parse_size(self.head_bytes))
        checks.count(self, "head_fields", 1, 4096)
        checks.size(self, "chunk_extension_bytes", 0, REGION)
        checks.size(self, "trailer_bytes", 0, REGION)
        if self.max_body is not None:
            checks.size(self, "max_body", 0)
        for name in ("idle_timeout", "head_timeout", "body_timeout", "body_total_timeout", "write_timeout"):
            checks.seconds(self, name, optional=True)
        if self.least_rate is not None:
            checks.size(self, "least_rate", 1)
        for name in ("head_patience", "body_patience", "stall_grace"):
            checks.seconds(self, name)
        for name in ("client_connections", "client_requests"):
            if getattr(self, name) is not None:
                checks.count(self, name, 1)
        checks.count(self, "client_prefix", 1, 128)
        checks.seconds(self, "overload_after", optional=True)
        checks.seconds(self, "linger")
        checks.size(self, "max_event", 1)
        if self.event_backlog is not None:
            checks.size(self, "event_backlog", 1, 1 << 30)
        checks.flag(self, "trust_trace_context")
        checks.count(self, "app_waiting", 1)
        checks.seconds(self, "app_wait", optional=True)
        checks.size(self, "app_ends", PAGE)
        checks.texts(self, "secret_parameters")
        checks.count(self, "backlog", 1)
        checks.flag(self, "reuse_port")
        checks.flag(self, "grpc_health")
        if self.acme_dir is not None:
            checks.path(self, "acme_dir")
        if self.http2 is not None and not isinstance(self.http2, Http2):
            raise checks.bad(self, "http2", "must be a penstock.config.Http2, or None")
        if self.tls is not None and not isinstance(self.tls, TLS):
            raise checks.bad(self, "tls", "must be a penstock.web.TLS, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLimits:
    """The limits of one native route; None for no limit. Further requests are answered with 429."""

    concurrency: int | None = None
    """Requests at a time."""
    rate: float | None = None
    """Requests a second, on average."""
    burst: int = 64
    """Requests that may come at once after a pause, if there is a rate: a player's first segments and playlists, a
    few times over."""
    body: Size | None = None
    """Bytes of a request body (413). None: `Edge.max_body`."""

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            checks.count(self, "concurrency", 1)
        checks.rate(self, "rate")
        checks.count(self, "burst", 1)
        if self.body is not None:
            checks.size(self, "body", 0)
