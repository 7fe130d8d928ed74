"""HTTP/2 towards clients: how much one connection may carry."""

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
