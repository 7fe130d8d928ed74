"""The pages about an engine."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from . import checks

_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The pages about an engine, on a listener of their own: whether it is well, whether it takes work, its metrics.

    Whoever can connect can read them, and they change nothing.
    """

    listen: str = "127.0.0.1:9145"
    """Address and port, `[address]:port`, or `unix:PATH`; port 0 takes a free one. This machine alone by default:
    metrics tell where origins are. An address and no name, which would have to be resolved at a bad moment."""
    hung: float = 10.0
    """An engine thread that has not turned for so many seconds hangs. It turns once a second when it is idle; on a
    machine that swaps it may take a few."""
    behind: float = 5.0
    """An application that lets a request wait for so many seconds, or its loop a sign, is not ready. Longer than what
    garbage collection or a slow import takes, and half of what requests wait for by default (`Edge.app_wait`)."""
    scrapes: int = 8
    """Pages of metrics that may be sent at a time (429): each is in memory until it is. Two scrapers, and those of them
    that are stuck."""

    def __post_init__(self) -> None:
        self.place()
        checks.seconds(self, "hung")
        if self.hung < 2:  # noqa: PLR2004 (a thread says once a second that it turns)
            raise checks.bad(self, "hung", "must be at least 2 seconds")
        checks.seconds(self, "behind")
        checks.count(self, "scrapes", 1, 1024)

    def place(self) -> tuple[str, int] | str:
        """Address and port, or the path of a Unix socket."""
        if not isinstance(self.listen, str):
            raise checks.bad(self, "listen", "must be text")
        kind, _, path = self.listen.partition(":")
        if kind == "unix" and path:
            return path
        host, _, port = self.listen.rpartition(":")
        address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise checks.bad(self, "listen", "must be ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH") from None
        if not (port.isascii() and port.isdigit()) or int(port) > _HIGHEST_PORT:
            raise checks.bad(self, "listen", f"must have a port up to {_HIGHEST_PORT}")
        return address, int(port)
