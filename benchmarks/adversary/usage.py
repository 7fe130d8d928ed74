"""What processes took of the machine's cores, and how long their threads were ready to run and had none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """Of one process since it began, in seconds, summed over its threads that live."""

    ran: float = 0.0
    waited: float = 0.0
    """Ready to run, while others had the cores."""

    def __sub__(self, earlier: Usage) -> Usage:
        return Usage(self.ran - earlier.ran, self.waited - earlier.waited)

    def __truediv__(self, seconds: float) -> Usage:
        return Usage(self.ran / seconds, self.waited / seconds)

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.ran + other.ran, self.waited + other.waited)


def usage(pid: int, *, children: bool = True) -> Usage:
    """By the scheduler's account (`/proc/PID/task/*/schedstat`), of the process and its children."""
    total = Usage()
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
            total += Usage(int(ran) / 1e9, int(waited) / 1e9)
        if not children:
            continue
        with suppress(OSError):
            for child in (task / "children").read_text(encoding="ascii").split():
                total += usage(int(child))
    return total
