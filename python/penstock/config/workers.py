"""Worker processes of an application."""

from dataclasses import dataclass

from . import checks
from .checks import REGION, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Processes that run an application for one edge: `penstock serve MODULE:APP --workers`. Times are seconds."""

    count: int
    """Workers at a time; while code is replaced the new ones run as well."""
    start_timeout: float = 60.0
    """Seconds for a worker to import the application and be ready. Large libraries take tens of seconds on a busy
    machine."""
    stop_timeout: float = 30.0
    """Seconds for the requests of a stopped or replaced worker to finish; then they are aborted. As for a whole
    server."""
    hang: float | None = 30.0
    """Seconds without a sign of its event loop after which a worker is killed, as in gunicorn: no handler should
    block it for so long, and no garbage collection does. None: never."""
    backoff: float = 0.5
    """Seconds before a worker is started again that has ended soon after its start for the second time; each
    further time it is twice as long, less up to half of it by chance, so that several do not start together. The
    first time it is at once."""
    max_backoff: float = 30.0
    """Seconds of the longest backoff. A worker that has lived for so long has not ended soon."""
    memory: Size = "32MiB"
    """Bytes: the budget of each worker's own engine (`default_engine`): for requests and responses that pass
    through the application, and for what handlers fetch by themselves. Relayed bodies are in the memory of the
    edge."""

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
