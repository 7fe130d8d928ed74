"""HTTP/2: how much one connection may carry, and which origins are asked by it."""

from collections.abc import Collection
from dataclasses import dataclass

from . import checks
from .checks import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2:
    """The limits of one connection of HTTP/2 (RFC 9113) from a client: `Edge.http2`.

    What a client may send without asking for anything, such as PING frames and resets, has limits of its own:
    `penstock_http2_refusals_total` counts the connections that they ended.
    """

    streams: int = 100
    """Requests in progress at a time (SETTINGS_MAX_CONCURRENT_STREAMS); the least that RFC 9113 recommends."""
    requests: int = 100_000
    """Requests of one connection, after which the client is asked to open another one: so that a balancer in front
    can move it."""
    age: float = 3600.0
    """Seconds for which a connection takes requests. What is in progress then goes on to its end."""
    window: Size = "64KiB"
    """Bytes of a request body that a client may send before they are read (SETTINGS_INITIAL_WINDOW_SIZE): an upload
    gets as many per round trip."""
    connection_window: Size = "256KiB"
    """Bytes of the bodies of all requests of a connection that may be sent before they are read. They lie outside the
    pool."""

    def __post_init__(self) -> None:
        checks.count(self, "streams", 1, 1 << 16)
        checks.count(self, "requests", 1)
        checks.seconds(self, "age")
        # RFC 9113, section 6.9.2, and the window that each connection begins with.
        checks.size(self, "window", 1, (1 << 31) - 1)
        checks.size(self, "connection_window", 65_535, (1 << 31) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginHttp2:
    """HTTP/2 towards origins: `Engine(http2=)`.

    A connection carries many requests. WebSockets have connections of HTTP/1.1 of their own.
    """

    origins: Collection[str] = ()
    """The origins that are asked by HTTP/2, by their URLs, such as `"https://api.example.org"`. Over TLS an origin may
    settle on HTTP/1.1 instead (ALPN); one at an `http` URL has to speak HTTP/2, as servers of gRPC do."""
    streams: int = 100
    """Requests in progress on one connection, unless the origin allows fewer. If four fifths of them are, the next
    request opens another connection, of which there are at most `OriginLimits.connections`."""
    window: Size = "256KiB"
    """Bytes of a response body that an origin may send before they are read (SETTINGS_INITIAL_WINDOW_SIZE): a response
    gets as many per round trip, 12 MB/s at 20 ms. They lie outside the pool, and a client that takes nothing has that
    many there. A connection has room for a window of each of its streams."""

    def __post_init__(self) -> None:
        checks.collection(self, "origins", "URLs")
        self.places  # noqa: B018 (it checks)
        checks.count(self, "streams", 1, 1 << 16)
        # RFC 9113, section 6.9.2.
        checks.size(self, "window", 16_384, (1 << 31) - 1)

    @property
    def places(self) -> tuple[checks.OriginPlace, ...]:
        """The origins."""
        return tuple(checks.origin(self, "origins", url, ("http", "https")) for url in self.origins)
