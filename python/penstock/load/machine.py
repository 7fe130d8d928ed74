"""What the machine does besides a run: processor time of others, by what the kernel says in /proc."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Others"]

_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/stat, of which a core waits in two: idle and iowait. The last two are parts of user and nice.
_WAITING: Final = (3, 4)
_COUNTED: Final = 8
_LISTENS: Final = "0A"
_LOCAL: Final = ("localhost", "127.", "::1")


@dataclass(frozen=True)
class _Seen:
    at: float
    busy: float
    own: float
    target: float


class Others:
    """Measures the share of the cores that neither this process nor a target on this machine uses.

    Args:
        target: `http://host:port` or `https://host:port`. If that is this machine, processes that listen there are no
            others: they are what is measured, and need the processor for it.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_local = host.startswith(_LOCAL)
        self._target = self._listeners() if self._is_local else []
        self._begun = self._look()

    def share(self) -> float | None:
        """The share of all cores that others have used since this was made; None where the kernel does not tell."""
        now = self._look()
        if now is None or self._begun is None:
            return None
        passed = (now.at - self._begun.at) * (os.cpu_count() or 1)
        others = (
            (now.busy - self._begun.busy) - (now.own - self._begun.own) - (now.target - self._begun.target)
        )
        # The kernel counts in ticks of 10 ms, and a short run's share may come out above all there is.
        return min(1.0, max(0.0, others / passed)) if passed > 0 else None

    def _look(self) -> _Seen | None:
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : _COUNTED + 1]
        except OSError:
            return None
        busy = sum(int(ticks) for at, ticks in enumerate(fields) if at not in _WAITING) / _TICKS
        own = os.times()
        target = sum(_used(process) for process in self._target)
        return _Seen(time.monotonic(), busy, own.user + own.system, target)

    def _listeners(self) -> list[Path]:
        """The processes that listen on the target's port, but for this one."""
        inodes = {f"socket:[{inode}]" for inode in self._sockets()}
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            if process.name == str(os.getpid()):
                continue
            try:
                if any(str(each.readlink()) in inodes for each in (process / "fd").iterdir()):
                    found.append(process)
            except OSError:
                # It has ended, or is another user's.
                continue
        return found

    def _sockets(self) -> Iterator[str]:
        for name in ("tcp", "tcp6"):
            try:
                rows = Path("/proc/net", name).read_text().splitlines()[1:]
            except OSError:
                continue
            for row in rows:
                fields = row.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == self._port:
                    yield fields[9]


def _used(process: Path) -> float:
    """Seconds of processor time of a process; 0 after its end."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
