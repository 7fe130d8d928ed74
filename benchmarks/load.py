"""A scenario of `penstock load` against caches: `load.py [--quick] [--scenario FILE]`, for penstock, nginx and Varnish.

Each begins with an empty cache, and has the same viewers by the same seed: those of examples/load/flash-crowd.toml, a
thousand within a second on one channel. Rounds are interleaved; printed are the medians. The cache is pinned to one
core. Viewers and the origin of the scenario share the other, in this process, so that what the origin takes counts as
the generator's. Startup, rebuffering and bitrate are what the viewers experienced; `due` is from when a segment was due
to its last byte; `cpu` is the cache's.

A round whose generator was the bottleneck says nothing, and is marked void, with the reason. Figures of void rounds are
left out of the medians, and a cache that has no others has none.

Results are in results/load.json.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness import command, results
from harness.builds import BENCHMARKS, AbsentError
from harness.caches import COMMANDS, version
from harness.cpu import elapsed, read_tree
from harness.processes import HOST, Process, free_port
from harness.settings import FULL
from penstock import _native
from penstock.load.plan import Arguments, origin_of
from penstock.load.running import read_scenario, run
from penstock.load.scenario import Scenario

CACHES = ("penstock", "nginx", "varnish")
SCENARIO = BENCHMARKS.parent / "examples" / "load" / "flash-crowd.toml"
OUTPUT = results.DIRECTORY / "load.json"
SEED = 7
ROUNDS, SECONDS = 5, 30.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 15.0


@dataclass(frozen=True)
class Row:
    """What the viewers of one round experienced. Times are seconds; None where no viewer got so far."""

    cache: str
    round: int
    verdict: str
    reasons: tuple[str, ...]
    sessions: int
    failed: int
    errors: int
    requests: int
    megabytes: float
    startup_p50: float | None
    startup_p95: float | None
    rebuffer: float | None
    megabits: float | None
    due_p50: float | None
    due_p99: float | None
    cpu_seconds: float


def row(cache: str, number: int, summary: dict[str, Any], cpu: float) -> Row:
    qoe, requests = summary["qoe"], summary["requests"]
    due = requests.get("segment", {"due": {"p50": None, "p99": None}})["due"]
    return Row(
        cache,
        number,
        summary["verdict"],
        tuple(summary["reasons"]),
        summary["sessions"]["started"],
        summary["sessions"]["failed"],
        sum(error["count"] for error in summary["errors"]),
        sum(each["count"] for each in requests.values()),
        sum(each["bytes"] for each in requests.values()) / 1e6,
        qoe["startup"]["p50"],
        qoe["startup"]["p95"],
        qoe["rebuffer"],
        None if qoe["bitrate"] is None else qoe["bitrate"] / 1e6,
        due["p50"],
        due["p99"],
        cpu,
    )


def measure(cache: str, number: int, scenario: Scenario, seconds: float, runtime: Path) -> Row:
    """One round against one cache, which begins empty."""
    runtime.mkdir()
    port = free_port()
    with closing(_native.LoadOrigin(origin_of(scenario))) as origin:
        started = COMMANDS[cache](f"{HOST}:{port}", f"{HOST}:{origin.port}", runtime)
        with Process(started, core=FULL.gateway_core, runtime=runtime) as process:
            process.wait_until_listening(port)
            before = read_tree(process.pid)
            arguments = Arguments(target=f"http://{HOST}:{port}", duration=seconds, seed=SEED)
            summary = run(scenario, arguments, SCENARIO.stem, runtime / "run", lambda _line: None)
            return row(cache, number, summary, elapsed(before, read_tree(process.pid)))


def middle(rows: Sequence[Row], name: str) -> str:
    """The median of a figure over the rounds that are not void."""
    values = [value for row in rows if row.verdict != "void" and (value := getattr(row, name)) is not None]
    return f"{median(values):10.3f}" if values else f"{'–':>10}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round, and no results file")
    parser.add_argument("--scenario", type=Path, default=SCENARIO, help="default: %(default)s")
    parser.add_argument("--cache", action="append", choices=CACHES, help="only these; may be repeated")
    arguments = parser.parse_args()
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if arguments.quick else (ROUNDS, SECONDS)
    scenario = read_scenario(str(arguments.scenario))
    versions, absent = {}, {}
    for cache in arguments.cache or CACHES:
        try:
            versions[cache] = version(cache)
        except AbsentError as error:
            absent[cache] = str(error)
    os.sched_setaffinity(0, {FULL.load_core})
    rows = []
    with tempfile.TemporaryDirectory(prefix="penstock-load-") as name:
        for number in range(rounds):
            for cache in versions:
                found = measure(cache, number, scenario, seconds, Path(name) / f"{cache}-{number}")
                rows.append(found)
                command.say("; ".join((f"{cache}, round {number + 1}: {found.verdict}", *found.reasons)))
    names = ("startup_p50", "startup_p95", "rebuffer", "megabits", "due_p50", "due_p99", "cpu_seconds")
    heads = ("startup p50", "p95", "rebuffer", "Mbit/s", "due p50", "p99", "cpu")
    print(f"{'seconds':10}{'':>6}" + "".join(f"{head:>12}" for head in heads))
    for cache in versions:
        of_it = [row for row in rows if row.cache == cache]
        void = sum(row.verdict == "void" for row in of_it)
        note = f"  ({void} of {len(of_it)} rounds are void)" if void else ""
        print(f"{cache:16}" + "".join(f"{middle(of_it, name):>12}" for name in names) + note)
    for cache, why in absent.items():
        print(f"absent: {cache}: {why}")
    if not (arguments.quick or arguments.cache or arguments.scenario != SCENARIO):
        results.publish(OUTPUT, rows, versions=versions, absent=absent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
