"""CPU time of a process tree and of a core, read from /proc.

The scheduler's own account of each thread (`/proc/PID/task/TID/schedstat`, nanoseconds) is what is reported:
it is exact to a scheduler tick for a running thread and to a nanosecond for a sleeping one, where `utime +
stime` in `/proc/PID/stat` come in ticks of 10 ms. The two count the same time, so `stat`, which also keeps
that of threads that have ended, is the check: a thread that came and went would show as a difference.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat after the name: utime and stime, then the same of children that have ended.
STAT_TIMES = slice(11, 15)
# In /proc/stat: user, nice, system, (idle, iowait,) irq, softirq, steal. Guest time is counted in user time.
CORE_BUSY = (0, 1, 2, 5, 6, 7)


class AccountsDifferError(RuntimeError):
    """Threads ended during a window, so the per-thread account misses what they used."""


@dataclass(frozen=True)
class TreeTime:
    """User and system time of a process and all its descendants, by both accounts, in seconds."""

    scheduler: float
    stat: float


def descendants(pid: int) -> list[int]:
    """Return `pid` and the processes below it."""
    found = [pid]
    for process in found:
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.extend(map(int, (task / "children").read_text().split()))
    return found


def read_tree(pid: int) -> TreeTime:
    """Return the CPU time so far of `pid`, its threads and its descendants. Raises FileNotFoundError if it is
    gone.
    """
    seconds = 0.0
    ticks = 0
    for process in descendants(pid):
        folder = Path(f"/proc/{process}")
        _, _, fields = (folder / "stat").read_text().rpartition(") ")
        ticks += sum(map(int, fields.split()[STAT_TIMES]))
        seconds += read_process(process)
    return TreeTime(seconds, ticks / TICKS_PER_SECOND)


def read_process(pid: int) -> float:
    """Return the scheduler's account of `pid` alone, in seconds: of its threads that run, and not of its children."""
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # One that ended since iterdir(): elapsed() notices if that mattered.
        with suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def elapsed(before: TreeTime, after: TreeTime) -> float:
    """Return the seconds between two readings. Raises AccountsDifferError beyond 3 % and the resolution of
    `stat`.
    """
    scheduler = after.scheduler - before.scheduler
    stat = after.stat - before.stat
    # Half a dozen ticks: each process of the tree is rounded on its own.
    if abs(scheduler - stat) > 0.03 * stat + 6 / TICKS_PER_SECOND:
        raise AccountsDifferError(f"schedstat says {scheduler:.3f} s, stat says {stat:.3f} s")
    return scheduler


def core_busy(core: int) -> float:
    """Return the seconds that a core has spent on anything but idling, since boot."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            return sum(int(ticks[place]) for place in CORE_BUSY) / TICKS_PER_SECOND
    raise LookupError(f"/proc/stat has no core {core}")
