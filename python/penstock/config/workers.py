"""Processes of their own for an application."""

from dataclasses import dataclass

from . import checks
from .checks import REGION, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Processes that run an application behind one edge: `penstock serve MODULE:APP --workers`. Times are seconds."""

    count: int
    """How many there are at a time; while code is replaced the new ones are there besides."""
    start_timeout: float = 60.0
    """Seconds for one to import the application and be ready. Large libraries take tens of seconds on a busy
    machine."""
    stop_timeout: float = 30.0
    """Seconds for the requests of one that is stopped or replaced to finish; then they are cut off. As for a whole
    server."""
    hang: float | None = 30.0
    """Seconds without a sign of its event loop after which one is killed, as in gunicorn: no handler should block it
    for so long, and no garbage collection does. None: never."""
    backoff: float = 0.5
    """Before one is started again that has ended soon after its start for the second time; each further time it is twice
    as long, less up to half of it by chance, so that several do not start at once. The first time it is at once."""
    max_backoff: float = 30.0
    """Seconds of the longest of these. One that has lived for so long has not ended soon."""
    memory: Size = "32MiB"
    """Bytes: the budget of each one's own engine (`default_engine`): for requests and answers that pass the
    application, and for what handlers fetch by themselves. What is relayed is in the memory of the edge."""

    def __post_init__(self) -> None:
        checks.count(self, "count", 1, 1024)
        checks.seconds(self, "start_timeout")
        checks.seconds(self, "stop_timeout", zero=True)
        checks.seconds(self, "hang", optional=True)
        checks.seconds(self, "backoff")
        checks.seconds(self, "max_backoff")
        if self.max_backoff < self.backoff:
            raise checks.bad(self, "max_backoff", f"must not be below backoff, {self.backoff} s")
        checks.size(self, "memory", REGION)
