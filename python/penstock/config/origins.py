"""Origins: limits on time and connections, verification, and forwarding fields."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from . import checks
from .checks import PAGE, REGION, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each stage of a request may take, in seconds; None for no limit."""

    queue: float | None = 10.0
    """Seconds for a connection to become free. A client that has waited this long has usually disconnected."""
    resolve: float | None = 5.0
    """Seconds for the origin's name. Resolvers ask again after 5 s; a second question fares no better."""
    connect: float | None = 5.0
    """Seconds for a TCP connection, over all addresses. Leaves room for two lost SYNs (after 1 s and 3 s)."""
    tls: float | None = 5.0
    """Seconds for the TLS handshake: two round trips and some arithmetic."""
    first_byte: float | None = 60.0
    """Seconds from the last byte of the request to the first of the response. Models think long."""
    between_bytes: float | None = 60.0
    """Seconds between two reads of the body. Quiet event streams send a comment every 15 to 30 s."""
    tunnel: float | None = 3600.0
    """Seconds for a byte to pass a WebSocket, either way. An hour, as HAProxy's documentation has it: many
    applications send no pings, and a peer that has vanished is found out sooner, by the kernel's probes."""
    total: float | None = None
    """Seconds for the whole exchange. None: live streams have no end."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            checks.seconds(self, limit.name, optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginLimits:
    """The limits of one origin (scheme, host, port), and of its responses."""

    connections: int = 1024
    """Connections open at a time, per engine thread. Each carries one response, and an event stream for hours. One
    in sixteen is kept for clients that have taken a whole response before, and for requests of the application
    itself, for a minute after the last of them."""
    waiting: int = 1024
    """Requests that wait for a connection; further ones are refused at once. Clients that have taken a whole response
    before take turns with all others. If the queue is full, a request of the longer of the two lines gives way."""
    upload_part: Size = "64KiB"
    """Bytes of a request body that must have arrived before a connection is taken for it, or all of it: a client
    that sends slowly then keeps no connection from others. A smaller window (`Flow.floor`) is enough too. 0: a
    connection is taken with the head, for origins that answer before they have the body."""
    upload_wait: float | None = 1.0
    """Seconds that a body of unknown length is waited for. A live stream of 8 KB/s is not delayed for longer.
    None: as long as it takes."""
    upload_percent: int = 75
    """Share of the connections, and of the waiting requests, that requests with an arriving body may take. The
    rest is for all others."""
    idle_timeout: float = 60.0
    """Seconds an unused connection is kept. Below the 75 s after which nginx closes it."""
    requests_per_connection: int = 10_000
    """Requests on one connection before it is replaced, so that load follows when the origin moves."""
    connection_age: float = 3600.0
    """Seconds before a connection is not used again, for the same reason if there are few requests."""
    name_lifetime: float = 30.0
    """Seconds after which a name that is in use is resolved again, beside the requests; the system's resolver
    reports no lifetimes. Connections to addresses that the name no longer has are then not used again. A usual
    lifetime for names of origins that move. 0: each new connection resolves it."""
    log_interval: float = 10.0
    """Seconds between two lines of the log (`penstock.origins`) about one origin that fails in one way: the first
    failure has a line at once, and later ones are counted in the next line. Failures are seen within seconds, and
    six lines a minute can be read. 0: each failure has a line."""
    head_bytes: Size = "64KiB"
    """Bytes of a response head; origins limit the heads they accept to 8 to 64 KiB themselves."""
    head_fields: int = 128
    """Header fields of a response; what aiohttp allows a client."""
    interim_responses: int = 8
    """1xx responses before the final one; 100 and some 103 occur, an endless row is an attack."""
    chunk_extension_bytes: Size = "16KiB"
    """Bytes of chunk extensions in one body. No known origin sends any, so this many are an attack."""
    trailer_bytes: Size = "16KiB"
    """Bytes of the trailer section."""

    def __post_init__(self) -> None:
        checks.count(self, "connections", 1)
        checks.count(self, "waiting", 0)
        checks.size(self, "upload_part", 0)
        checks.seconds(self, "upload_wait", optional=True)
        checks.count(self, "upload_percent", 1, 100)
        checks.seconds(self, "idle_timeout")
        checks.count(self, "requests_per_connection", 1)
        checks.seconds(self, "connection_age")
        checks.seconds(self, "name_lifetime", zero=True)
        checks.seconds(self, "log_interval", zero=True)
        # A head is parsed in one piece, and the largest slab is a region.
        checks.size(self, "head_bytes", PAGE, REGION)
        checks.count(self, "head_fields", 1, 4096)
        checks.count(self, "interim_responses", 0)
        checks.size(self, "chunk_extension_bytes", 0, REGION)
        checks.size(self, "trailer_bytes", 0, REGION)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What an origin is shown that asks for a certificate (RFC 8446, section 4.3.2). Files are PEM."""

    cert: str | os.PathLike[str]
    """The certificate, and after it the intermediate certificates."""
    key: str | os.PathLike[str] | None = None
    """Its private key, not encrypted. None: it is in the file of the certificate."""

    def __post_init__(self) -> None:
        checks.path(self, "cert")
        if self.key is not None:
            checks.path(self, "key")


class _Shown(NamedTuple):
    """A certificate, and the origin that it is for."""

    host: str
    port: int
    cert: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginTls:
    """How https origins are verified, and what they are shown of this side.

    They always are verified: to trust a private one, name its certificate.
    """

    roots: str | os.PathLike[str] = "system"
    """`"system"` for the operating system's roots (what the machine's owner has decided), `"webpki"` for
    Mozilla's as compiled in (for images without any), or the path of a PEM file that then stands alone."""
    certificates: Mapping[str, ClientCertificate] = field(default_factory=dict)
    """What an origin is shown, by its URL, such as `"https://api.example.org:8443"`. No other origin is shown it. The
    files are read when the engine is made."""

    def __post_init__(self) -> None:
        self.shown  # noqa: B018 (it checks)
        checks.path(self, "roots")
        roots = os.fspath(self.roots)
        if roots not in {"system", "webpki"} and not Path(roots).is_file():
            raise checks.bad(
                self, "roots", "must be 'system', 'webpki' or the path of a PEM file that exists"
            )
        if roots not in {"system", "webpki"}:
            try:
                text = Path(roots).read_bytes()
            except OSError as error:
                raise checks.bad(self, "roots", f"cannot be read: {error.strerror}") from None
            if b"-----BEGIN CERTIFICATE-----" not in text:
                raise checks.bad(self, "roots", "must be a PEM file with certificates, and has none")
        checks.put(self, "roots", roots)

    @property
    def shown(self) -> tuple[_Shown, ...]:
        """The certificates, each with its origin."""
        if not isinstance(self.certificates, Mapping):
            raise checks.bad(
                self, "certificates", "must be a mapping of URLs to penstock.config.ClientCertificate"
            )
        return tuple(self._shown(url, each) for url, each in self.certificates.items())

    def _shown(self, url: object, certificate: object) -> _Shown:
        if not isinstance(certificate, ClientCertificate):
            raise checks.bad(
                self, "certificates", "must have values that are penstock.config.ClientCertificate"
            )
        place = checks.origin(self, "certificates", url, ("https",))
        cert = os.fspath(certificate.cert)
        return _Shown(place.host, place.port, cert, os.fspath(certificate.key or cert))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcWeb:
    """gRPC-Web of browsers, translated to gRPC: `Forwarding.grpc_web`."""

    origins: Collection[str] = ()
    """The origins of pages that may make calls, as browsers name them, such as `"https://app.example"`; `"*"` for all.
    Pages of the gateway's own origin need none."""
    expose: Collection[str] = ()
    """Names of fields of responses that pages of other origins may read as well, such as `"x-request-id"`
    (Access-Control-Expose-Headers): what a call ends with they may read in any case, and metadata after its messages."""
    max_age: float = 7200.0
    """Seconds for which a browser remembers that a page may call (Access-Control-Max-Age). Chromium's longest."""

    def __post_init__(self) -> None:
        checks.collection(self, "origins", "origins")
        for origin in self.origins:
            if origin == "*":
                continue
            checks.origin(self, "origins", origin, ("http", "https"))
            if origin.endswith("/"):
                raise checks.bad(self, "origins", f"{origin!r} must be without a slash at its end")
        checks.put(self, "origins", tuple(self.origins))
        checks.collection(self, "expose", "names of fields")
        for name in self.expose:
            if not checks.is_token(name):
                raise checks.bad(self, "expose", f"{name!r} is not the name of a field")
        checks.put(self, "expose", tuple(self.expose))
        checks.seconds(self, "max_age", zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """What the gateway tells the origin about the client, and each side about itself."""

    x_forwarded: bool = True
    """Send X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host, which most applications read."""
    forwarded: bool = False
    """Send Forwarded (RFC 7239). Off: where both arrive, applications disagree on which one counts."""
    via: str | None = "penstock"
    """The pseudonym in Via (RFC 9110 §7.6.3), both ways; None sends none, and then loops are not detected."""
    trust_incoming: bool = False
    """Whether the client is a proxy of yours. If so, its fields about its client are kept and added to; if not,
    the client's Forwarded, X-Real-IP and every X-Forwarded-*, also with `_` or `.` for `-`, are removed, because
    any client can send them."""
    preserve_host: bool = False
    """Send the client's Host to the origin, and not the origin's own: for origins with several sites."""
    map_location: bool = True
    """Give clients the path that leads to it instead of a URL with the origin's own scheme, host and port, in
    Location, Content-Location and Refresh: an origin that gets its own Host builds such URLs, and clients may not
    be able to reach them. As nginx's `proxy_redirect default`."""
    trailers: bool = False
    """Pass the trailers of bodies on, either way, if the other side says that it takes them (`TE: trailers`). What is
    gRPC passes with its trailers in any case. Off: few clients read them, and caches drop them."""
    grpc_web: GrpcWeb | None = None
    """Take calls of gRPC-Web on native routes, and ask the origin by gRPC. None: they pass as any other request."""

    def __post_init__(self) -> None:
        for name in (
            "x_forwarded",
            "forwarded",
            "trust_incoming",
            "preserve_host",
            "map_location",
            "trailers",
        ):
            checks.flag(self, name)
        if self.grpc_web is not None and not isinstance(self.grpc_web, GrpcWeb):
            raise checks.bad(self, "grpc_web", "must be a penstock.config.GrpcWeb, or None")
        if self.via is not None and not checks.is_token(self.via):
            raise checks.bad(self, "via", "must be a token (letters, digits, !#$%&'*+-.^_`|~) or None")
