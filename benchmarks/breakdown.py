"""Where a gateway's time goes: `breakdown.py --gateway penstock-native --workload segment-64k`.

Starts one gateway of compare.py under its load, samples it with perf (cpu-clock, leaf symbols), and prints its CPU time
per request by what was being done. perf must be installed and allowed (kernel.perf_event_paranoid of 1, or root).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from threading import Thread

from harness import gateways, measurement
from harness.builds import require
from harness.run import LOADS, started
from harness.settings import FULL

FREQUENCY = 2000
WARM_UP = 2.0

# The first pattern that a symbol matches names what was being done.
KERNEL = (
    ("kernel: copying", "copy_from_iter copy_to_iter copy_user rep_movs check_object_size check_heap_object"),
    (
        "kernel: waiting and waking",
        "poll sched wake switch futex eventfd ttwu pick_ queue_task update_ timer",
    ),
    (
        "kernel: TCP and IP",
        "tcp ip_ inet skb sk_ sock net dev_ dst loopback nf_ csum xmit fib neigh qdisc napi",
    ),
    ("kernel: memory", "alloc free slab page kmem zone lru folio memcg"),
    ("kernel: entering and leaving", "syscall entry exit return writev vfs ksys fdget fget import_iovec"),
)
ENGINE = (
    ("engine: HTTP", "wire:: relay:: httparse memchr encode head:: fields"),
    ("engine: pool", "pool:: slab::"),
    ("engine: streams and framing", "stream:: framing::"),
    ("engine: tokio", "tokio mio::"),
)
PYTHON = (
    ("uvloop", "Python: uvloop"),
    ("aiohttp", "Python: aiohttp's C"),
    ("multidict", "Python: multidict"),
)
ALLOCATOR = re.compile("malloc|free|calloc|realloc|_int_|unlink_chunk|tcache|arena")


def category(dso: str, symbol: str) -> str:
    """What a sample was doing, by its leaf."""
    if symbol.startswith("[k]"):
        return _first(KERNEL, symbol) or "kernel: the rest"
    if "_native" in dso:
        return _first(ENGINE, symbol) or "engine: the rest"
    for part, name in PYTHON:
        if part in dso:
            return name
    if "libc" in dso:
        return "libc: allocator" if ALLOCATOR.search(symbol) else "libc: the rest"
    return "Python: the interpreter" if "python" in dso else f"other: {Path(dso).name}"


def _first(patterns: tuple[tuple[str, str], ...], symbol: str) -> str | None:
    return next((name for name, words in patterns if any(word in symbol for word in words.split())), None)


def sample(pid: int, seconds: float, data: Path) -> Counter[str]:
    perf = require("perf", "linux-perf")
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-p", str(pid), "-o", str(data)]
    subprocess.run([*record, "--", "sleep", str(seconds)], check=True, capture_output=True)
    report = [perf, "report", "-i", str(data), "--stdio", "-F", "sample,dso,symbol", "-t", "\t"]
    lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) == 3 and columns[0].isdigit():
            found[category(columns[1], columns[2])] += int(columns[0])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", choices=gateways.BY_NAME, default="penstock-native")
    parser.add_argument("--workload", choices=measurement.BY_NAME, default="segment-64k")
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    gateway, workload = gateways.BY_NAME[arguments.gateway], measurement.BY_NAME[arguments.workload]
    os.sched_setaffinity(0, {FULL.load_core})
    settings = FULL
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as name:
        runtime, own = Path(name) / "origin", Path(name) / "gateway"
        runtime.mkdir()
        own.mkdir()
        with (
            LOADS[workload.kind](settings, runtime) as load,
            started(gateway, workload.kind, load.origin, settings, own) as target,
        ):
            load.verify(target)
            found: Counter[str] = Counter()

            def look() -> None:
                time.sleep(WARM_UP)
                assert target.gateway is not None
                found.update(sample(target.gateway.pid, arguments.seconds - WARM_UP, Path(name) / "data"))

            watcher = Thread(target=look)
            watcher.start()
            measured = load.measure(target, workload)
            watcher.join()
    cost = (measured.cpu_seconds or 0) / measured.units * 1e6
    total = sum(found.values())
    print(
        f"{gateway.title.replace('*', '')}, {workload.title}: {cost:.1f} us of CPU a {workload.unit}, {total} samples"
    )
    for what, count in found.most_common():
        print(f"{count / total:7.1%}{cost * count / total:8.1f} us  {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
