"""Ways to keep the interpreter from everyone else for half a second. `python burn.py WAY SECONDS TIMES` does it alone.

Each prints, or returns, when it began and ended: nanoseconds of the clock that the load's events carry.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from functools import cache


def sleep(seconds: float) -> None:
    """Sleep without letting go of the GIL, as an extension does that forgot to."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def spin(seconds: float) -> None:
    """Run Python; other threads get the GIL when they ask for it, after 5 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@cache
def _rate() -> float:
    """Numbers that `count` adds in a second."""
    began = time.monotonic()
    sum(range(1_000_000))
    return 1_000_000 / (time.monotonic() - began)


def count(seconds: float) -> None:
    """One call into C that computes and never releases the GIL."""
    sum(range(int(_rate() * seconds)))


WAYS: dict[str, Callable[[float], None]] = {"sleep": sleep, "spin": spin, "count": count}


def burn(way: str, seconds: float) -> tuple[int, int]:
    """Return when it began and when it ended."""
    began = time.time_ns()
    WAYS[way](seconds)
    return began, time.time_ns()


def main() -> None:
    way, seconds, times = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    count(0.001)
    for _ in range(times):
        print(json.dumps(burn(way, seconds)), flush=True)
        # Long enough for what was held up to be gone before the next.
        time.sleep(seconds)


if __name__ == "__main__":
    main()
