"""What is to be served, as far as checks need it."""

from dataclasses import dataclass
from pathlib import Path

from penstock import config
from penstock.config.listen import Listen

__all__ = ["Plan"]

# What a process takes besides its pool: the interpreter, the engine and the application's modules.
PROCESS_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the options of `penstock serve` say, and how many clients are expected."""

    clients: int
    listen: Listen
    edge: config.Edge
    status: config.Status | None = None
    origins: tuple[str, ...] = ()
    connections: int = 0
    threads: int = 1
    memory: int = 0
    """Bytes of the pool."""
    cache_disk: Path | None = None
    cache_disk_size: int = 0
    workers: int = 0
    worker_memory: int = 0
    log: config.AccessLog | None = None
    ca: str | None = None
    uvloop: bool | None = None
    has_application: bool = False

    @property
    def descriptors(self) -> int:
        """Descriptors that are needed: a client's socket and an origin's each, and some for the process."""
        return 2 * self.clients + 25

    @property
    def bytes(self) -> int:
        """Memory of all processes, without what the kernel has for sockets."""
        return self.memory + PROCESS_BYTES + self.workers * (self.worker_memory + PROCESS_BYTES)
