"""How many cores this process may use: by its affinity, and by the quota of its control groups."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")


def engine_threads() -> int:
    """As many as there are cores, less one for the event loop, and at least one."""
    return max(1, usable_cores() - 1)


def usable_cores(root: Path = _GROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Whole cores, at least one: a quota of one and a half is one that is never throttled.

    `root` is where the control groups are mounted, `membership` the file that names those of the process (cgroups(7)).
    """
    cores = len(os.sched_getaffinity(0))
    return max(1, min([cores, *(int(quota) for quota in _quotas(root, membership))]))


def _quotas(root: Path, membership: Path) -> Iterator[float]:
    """What each group from the process's own up to the root allows."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        group = base / path.lstrip("/")
        # In a container the path is the host's, and the container's own group is mounted at the root.
        for folder in (group, *group.parents):
            if folder == base.parent:
                break
            yield from _quota(folder)


def _quota(folder: Path) -> Iterator[float]:
    try:
        if (unified := folder / "cpu.max").exists():
            quota, period = unified.read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        if quota not in {"max", "-1"}:
            yield int(quota) / int(period)
    except (OSError, ValueError):
        # No such group, or a kernel without quotas.
        return
