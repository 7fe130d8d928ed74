"""Where a gateway's time goes: `breakdown.py --gateway penstock-native --workload segment-64k`.

Starts a gateway of compare.py under its load, samples it with perf (cpu-clock, leaf symbols), and prints its CPU time a
request or event by what was being done. perf must be installed and allowed (kernel.perf_event_paranoid of 1, or root).
`--publish` measures what docs/concepts/cost.md shows, keeps it in results/breakdown.json and writes the page's tables.
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
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from harness import gateways, hit_caches, hits, measurement, results, table
from harness.builds import BENCHMARKS, require
from harness.cpu import descendants
from harness.run import LOADS, started
from harness.settings import FULL

GATEWAYS = gateways.BY_NAME | hit_caches.BY_NAME
WORKLOADS = measurement.BY_NAME | hits.BY_NAME
FREQUENCY = 2000
WARM_UP = 2.0
SECONDS = 8.0
OUTPUT = results.DIRECTORY / "breakdown.json"
PAGE = BENCHMARKS.parent / "docs" / "concepts" / "cost.md"
PUBLISHED = {
    "segment-64k": ("tcp-relay", "nginx", "penstock-native", "penstock", "aiohttp"),
    "events": ("tcp-relay", "nginx", "penstock-native", "penstock", "aiohttp"),
    "handler": ("penstock", "aiohttp"),
}

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
PROGRAMS = {"tcp-relay", "nginx", "haproxy"}
# Parts of less are summed up in the tables: the sampling does not tell them apart.
LEAST = 0.3
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
    if "python" in dso:
        return "Python: the interpreter"
    return "a peer's own code" if Path(dso).name in PROGRAMS else f"other: {Path(dso).name}"


def _first(patterns: tuple[tuple[str, str], ...], symbol: str) -> str | None:
    return next((name for name, words in patterns if any(word in symbol for word in words.split())), None)


@dataclass(frozen=True)
class Breakdown:
    """CPU time per request or event, in microseconds, and what it went into."""

    gateway: str
    workload: str
    unit: str
    microseconds: float
    parts: dict[str, float]
    samples: int


def sample(pid: int, seconds: float, data: Path) -> Counter[str]:
    perf = require("perf", "linux-perf")
    pids = ",".join(map(str, descendants(pid)))
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-p", pids, "-o", str(data)]
    subprocess.run([*record, "--", "sleep", str(seconds)], check=True, capture_output=True)
    report = [perf, "report", "-i", str(data), "--stdio", "-F", "sample,dso,symbol", "-t", "\t"]
    lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) == 3 and columns[0].isdigit():
            found[category(columns[1], columns[2])] += int(columns[0])
    return found


def break_down(gateway_name: str, workload_name: str, seconds: float) -> Breakdown:
    gateway, workload = GATEWAYS[gateway_name], WORKLOADS[workload_name]
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as name:
        runtime, own = Path(name) / "origin", Path(name) / "gateway"
        runtime.mkdir()
        own.mkdir()
        with (
            LOADS[workload.kind](FULL, runtime) as load,
            started(gateway, workload.kind, load.origin, FULL, own) as target,
        ):
            load.verify(target)
            found: Counter[str] = Counter()

            def look() -> None:
                time.sleep(WARM_UP)
                assert target.gateway is not None
                found.update(sample(target.gateway.pid, seconds - WARM_UP, Path(name) / "data"))

            watcher = Thread(target=look)
            watcher.start()
            measured = load.measure(target, workload)
            watcher.join()
    cost = (measured.cpu_seconds or 0) / measured.units * 1e6
    total = sum(found.values())
    parts = {what: round(cost * count / total, 2) for what, count in found.most_common()}
    return Breakdown(gateway.name, workload.name, workload.unit, round(cost, 1), parts, total)


def show(made: Breakdown) -> None:
    title, of = (
        GATEWAYS[made.gateway].title.replace("*", ""),
        WORKLOADS[made.workload].title,
    )
    print(f"{title}, {of}: {made.microseconds} us of CPU a {made.unit}, {made.samples} samples")
    for what, cost in made.parts.items():
        print(f"{cost / made.microseconds:7.1%}{cost:8.1f} us  {what}")


def markdown(rows: list[Breakdown]) -> str:
    """One table for each workload, a column for each gateway, the largest parts first."""
    blocks = []
    for workload in dict.fromkeys(row.workload for row in rows):
        columns = [row for row in rows if row.workload == workload]
        parts = {part for row in columns for part, cost in row.parts.items() if cost >= LEAST}
        order = sorted(parts, key=lambda part: -sum(row.parts.get(part, 0) for row in columns))
        titles = [gateways.BY_NAME[row.gateway].title for row in columns]
        lines = [
            f"**{measurement.BY_NAME[workload].title}**, CPU µs per {columns[0].unit}",
            "",
            "| | " + " | ".join(titles) + " |",
            "|---|" + "---|" * len(columns),
        ]
        lines += [_line(part, [row.parts.get(part, 0.0) for row in columns]) for part in order]
        rest = [sum(cost for part, cost in row.parts.items() if part not in parts) for row in columns]
        lines += [_line("everything else", rest), _line("**all**", [row.microseconds for row in columns])]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _line(name: str, costs: list[float]) -> str:
    return f"| {name} | " + " | ".join(f"{cost:.1f}" if cost else "-" for cost in costs) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", choices=GATEWAYS, default="penstock-native")
    parser.add_argument("--workload", choices=WORKLOADS, default="segment-64k")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    if not arguments.publish:
        show(break_down(arguments.gateway, arguments.workload, arguments.seconds))
        return 0
    rows = []
    for workload, names in PUBLISHED.items():
        for name in names:
            rows.append(break_down(name, workload, arguments.seconds))
            show(rows[-1])
    results.publish(OUTPUT, rows)
    PAGE.write_text(table.render(PAGE.read_text(), markdown(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
