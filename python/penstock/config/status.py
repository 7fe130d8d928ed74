"""The pages about an engine."""

from dataclasses import dataclass

from . import checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The pages about an engine, on a listener of their own: health, readiness, metrics, and what flows now.

    Every client that can connect can read them, and they change nothing.
    """

    listen: str = "127.0.0.1:9145"
    """Address and port, `[address]:port`, a port alone for all interfaces, or `unix:PATH`; port 0 takes a free
    one. This machine alone by default: metrics name the origins. No name but `localhost`: another would have to be
    resolved at a bad moment."""
    hung: float = 10.0
    """An engine thread that has made no progress for so many seconds hangs. An idle one reports once a second; on
    a machine that swaps it may take a few."""
    behind: float = 5.0
    """An application is not ready if a request has waited for it, or its event loop has not answered, for so many
    seconds. Longer than garbage collection or a slow import, and half of what requests wait by default
    (`Edge.app_wait`)."""
    scrapes: int = 8
    """Pages of metrics that may be sent at a time (429): each is in memory until it is. Two scrapers, and some
    stuck ones."""
    viewers: int = 8
    """Browsers that may have the page of what flows open at a time (429); each holds one event of some 20 KiB. It names
    clients, tenants and paths: 0 leaves it out, and only metrics can be read."""

    def __post_init__(self) -> None:
        self.place()
        checks.seconds(self, "hung")
        if self.hung < 2:  # noqa: PLR2004 (a thread says once a second that it turns)
            raise checks.bad(self, "hung", "must be at least 2 seconds")
        checks.seconds(self, "behind")
        checks.count(self, "scrapes", 1, 1024)
        checks.count(self, "viewers", 0, 1024)

    def place(self) -> tuple[str, int] | str:
        """Address and port, or the path of a Unix socket."""
        return checks.place(self, "listen")
