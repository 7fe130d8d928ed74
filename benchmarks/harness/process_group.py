"""The processes of a group, and the memory that they have."""

import os
from pathlib import Path


def group(pid: int) -> int:
    """How many processes of the group of `pid` run."""
    return len(members(pid))


def members(pid: int) -> list[int]:
    """The processes of the group of `pid` that run."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                state, _, leader, *_ = (path / "stat").read_text().rpartition(")")[2].split()
                if int(leader) == pid and state != "Z":
                    found.append(int(path.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def resident(pid: int) -> float:
    """MiB that a process has resident; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def is_there(pid: int) -> bool:
    """Whether a process runs. One that has ended and is not waited for has no memory."""
    return resident(pid) > 0
