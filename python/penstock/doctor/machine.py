"""What the machine says of itself: files below `/proc` and `/sys`, and limits of the process."""

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["Machine"]

# adjtimex(2): the clock is not synchronised.
_UNSYNC: Final = 0x40
# Of `struct timex`, which has 208 bytes.
_TIMEX_BYTES: Final = 208
_STATUS_WORD: Final = 10


class Machine:
    """A machine, whose files are below `root`, and whose clock `adjtimex` asks; None: the C library's."""

    def __init__(
        self, root: Path = Path("/"), adjtimex: Callable[[ctypes.Array[ctypes.c_int]], int] | None = None
    ) -> None:
        self._root = root
        self._adjtimex = adjtimex

    def text(self, path: str) -> str | None:
        """What stands in a file; None if it cannot be read."""
        try:
            return (self._root / path.lstrip("/")).read_text().strip()
        except OSError:
            return None

    def number(self, path: str, place: int = 0) -> int | None:
        """The number at a place of a file."""
        words = (self.text(path) or "").split()
        try:
            return int(words[place])
        except (IndexError, ValueError):
            return None

    def setting(self, name: str) -> int | None:
        """A kernel's setting, such as `net.core.somaxconn`."""
        return self.number(f"/proc/sys/{name.replace('.', '/')}")

    def counter(self, group: str, name: str) -> int | None:
        """A counter of `/proc/net/netstat`."""
        lines = (self.text("/proc/net/netstat") or "").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith(f"{group}:"):
                found = dict(zip(names.split()[1:], values.split()[1:], strict=False))
                return int(found[name]) if name in found else None
        return None

    def group_files(self, name: str) -> Iterator[str]:
        """A file of each control group from the process's own up to the root (cgroups(7), version 2)."""
        for line in (self.text("/proc/self/cgroup") or "").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" and not controllers:
                folder = Path(path.lstrip("/"))
                # In a container its own group is mounted at the root.
                for part in dict.fromkeys((folder, *folder.parents, Path())):
                    if (text := self.text(f"/sys/fs/cgroup/{part}/{name}")) is not None:
                        yield text

    def memory(self) -> tuple[int, str]:
        """Bytes that there are, and whose limit that is."""
        total = self.number("/proc/meminfo", 1)
        limits = [
            (int(text), "of the control group") for text in self.group_files("memory.max") if text.isdigit()
        ]
        if total is not None:
            limits.append((total * 1024, "of the machine"))
        return min(limits, default=(0, ""))

    def throttled(self) -> int:
        """How often the quota of processor time was used up."""
        rows = (line.split() for text in self.group_files("cpu.stat") for line in text.splitlines())
        return max((int(row[1]) for row in rows if row[0] == "nr_throttled"), default=0)

    def descriptors(self) -> tuple[int, int]:
        """The limits on descriptors: the one that counts, and the highest that may be asked for."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    def lockable(self) -> int:
        """Bytes that may be locked into memory; -1 for any number."""
        return resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]

    def is_clock_set(self) -> bool | None:
        """Whether the clock is synchronised; None if the kernel does not say."""
        words = (ctypes.c_int * (_TIMEX_BYTES // 4))()
        try:
            state = (self._adjtimex or ctypes.CDLL(None, use_errno=True).adjtimex)(words)
        except (AttributeError, OSError):
            return None
        # `modes` and its padding, `offset`, `freq`, `maxerror` and `esterror` come before `status`.
        return None if state < 0 else not words[_STATUS_WORD] & _UNSYNC

    def can_bind_low_ports(self) -> bool:
        """Whether ports that are kept for the system may be listened to."""
        if os.geteuid() == 0:
            return True
        status = self.text("/proc/self/status") or ""
        row = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
        # CAP_NET_BIND_SERVICE (capabilities(7)).
        return bool(int(row.split()[1], 16) & (1 << 10))
