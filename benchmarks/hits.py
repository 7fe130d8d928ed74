"""What a hit costs, beside Varnish, nginx, a dict in aiohttp and a bare writev: README.md beside this file.

    hits.py                          five rounds of 5 s, about 25 minutes
    hits.py --quick                  one round of 2 s
    hits.py --workload hot-16k --gateway varnish --gateway penstock-cached

Needs Varnish too (`sudo apt-get install varnish`). A full run is kept in results/hits.json. Exit status: 0 when all is
valid, 1 when a cell is void, 2 when programs outside the benchmark disturbed it or nothing could be measured.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compare import interrupt
from harness import hits, results
from harness.hit_caches import BY_NAME, CACHES, LIMIT, OWN, REFERENCE
from harness.measurement import Cell
from harness.run import run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "hits.json"
METHOD = (
    "Each cache is pinned to one core, the load to another. Every object is fetched once through each cache and "
    "compared with the origin's; then the origin is stopped. CPU is the cache's user + system time (scheduler's "
    "account, all threads and processes) divided by the responses; rounds are interleaved, figures are medians of the "
    "rounds. hot: one object; set: random objects of a working set; both by wrk over 16 connections as fast as they are "
    "answered. open: one object at random times (exponential gaps) at 80 % of the rate that the slowest cache reached "
    "in the first round of hot, over 64 connections; latencies run from when a request was due."
)
# What a hit may cost of Varnish's, and of the limit's.
MOST_OF_REFERENCE = {"16k": 0.6, "64k": 0.8, "512k": 0.9}
MOST_OF_LIMIT = 1.25


@dataclass(frozen=True)
class Row:
    """One cell. Times are in microseconds; shares are of the CPU time of Varnish and of the limit for the same."""

    cache: str
    workload: str
    cpu_us: float | None
    of_varnish: float | None
    of_limit: float | None
    rate: float | None
    p50_us: float | None
    p99_us: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[Cell]) -> list[Row]:
    costs = {(cell.gateway, cell.workload): cell.cpu_us for cell in cells}

    def share(cell: Cell, of: str) -> float | None:
        base = costs.get((of, cell.workload))
        return None if cell.cpu_us is None or not base else round(cell.cpu_us / base, 3)

    return [
        Row(
            cache=cell.gateway,
            workload=cell.workload,
            cpu_us=cell.cpu_us,
            of_varnish=share(cell, REFERENCE),
            of_limit=share(cell, LIMIT),
            rate=cell.rate,
            p50_us=cell.p50_us,
            p99_us=cell.p99_us,
            spread=cell.spread,
            void=cell.void,
            rounds=[asdict(round_) for round_ in cell.rounds],
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    for workload in dict.fromkeys(row.workload for row in rows):
        print(f"\n{hits.BY_NAME[workload].title}")
        print(
            f"{'':28}{'CPU us':>9}{'/Varnish':>10}{'/limit':>9}{'per s':>10}{'p50 us':>9}{'p99 us':>9}{'spread':>8}"
        )
        for row in (row for row in rows if row.workload == workload):
            title = BY_NAME[row.cache].title.replace("*", "")[:27]
            if row.void is not None:
                print(f"{title:28} void: {row.void.splitlines()[0]}")
                continue
            figures = [
                (row.cpu_us, "9.1f"),
                (row.of_varnish, "10.2f"),
                (row.of_limit, "9.2f"),
                (row.rate, "10.0f"),
                (row.p50_us, "9.0f"),
                (row.p99_us, "9.0f"),
                (row.spread, "8.0%"),
            ]
            shown = (
                "-".rjust(int(form.split(".")[0])) if value is None else format(value, form)
                for value, form in figures
            )
            print(f"{title:28}{''.join(shown)}")


def verdicts(rows: list[Row]) -> list[str]:
    """Return which targets are met."""
    said = []
    for row in (row for row in rows if row.cache == OWN):
        kind, _, size = row.workload.partition("-")
        if kind == "open":
            others = [
                other.p99_us
                for other in rows
                if other.workload == row.workload
                and other.cache not in (OWN, LIMIT)
                and other.p99_us is not None
            ]
            if row.p99_us is not None and others:
                best = min(others)
                said.append(
                    f"{row.workload}: p99 {row.p99_us:.0f} us, best peer {best:.0f}: {_met(row.p99_us <= best)}"
                )
            continue
        for share, most, name in (
            (row.of_varnish, MOST_OF_REFERENCE[size], "Varnish"),
            (row.of_limit, MOST_OF_LIMIT, "the limit"),
        ):
            if share is not None:
                said.append(f"{row.workload}: {share:.2f} of {name}, {most} at most: {_met(share <= most)}")
    return said


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.rounds} round of {QUICK.seconds:g} s")
    parser.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each round, default {FULL.seconds:g}")
    parser.add_argument("--gateway", action="append", choices=BY_NAME, help="only these; may be repeated")
    parser.add_argument(
        "--workload", action="append", choices=hits.BY_NAME, help="only these; may be repeated"
    )
    parser.add_argument("--output", type=Path, help=f"where a run is kept; a full one is in {OUTPUT.name}")
    parser.add_argument("--working-set", type=int, help=f"bytes of each size, default {FULL.working_set}")
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = QUICK if arguments.quick else FULL
    settings = replace(
        settings,
        rounds=arguments.rounds or settings.rounds,
        seconds=arguments.seconds or settings.seconds,
        working_set=arguments.working_set or settings.working_set,
    )
    if {settings.gateway_core, settings.load_core} - os.sched_getaffinity(0):
        raise SystemExit("two cores are needed")
    os.sched_setaffinity(0, {settings.load_core})
    caches = [cache for cache in CACHES if cache.name in (arguments.gateway or BY_NAME)]
    workloads = [
        workload for workload in hits.WORKLOADS if workload.name in (arguments.workload or hits.BY_NAME)
    ]
    outcome = run(caches, workloads, settings, say=lambda line: print(line, file=sys.stderr, flush=True))
    rows = rows_of(outcome.cells)
    show(rows)
    print()
    for line in verdicts(rows):
        print(line)
    void = results.disturbance(outcome.cells)
    if settings.working_set < hits.TIMES_CACHE * hits.last_level_cache():
        print(
            f"the working set is less than {hits.TIMES_CACHE} times the last-level cache: see --working-set"
        )
    for line in (*void, *(f"absent: {name}: {why}" for name, why in outcome.absent.items())):
        print(line)
    is_full = settings == FULL and not arguments.gateway and not arguments.workload
    output = arguments.output or (OUTPUT if is_full else None)
    if output:
        results.publish(
            output,
            rows,
            method=METHOD,
            settings=asdict(settings),
            versions=results.versions(caches, outcome.absent),
            absent=outcome.absent,
            void=void,
            last_level_cache=hits.last_level_cache(),
        )
    if void or not rows:
        return 2
    return 1 if any(row.void for row in rows) else 0


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return measure(arguments)
    except KeyboardInterrupt:
        print("interrupted: nothing is saved, everything is stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
