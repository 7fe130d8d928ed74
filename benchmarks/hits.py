"""What a hit costs, beside Varnish, nginx, a dict in aiohttp and a bare writev: README.md beside this file.

    hits.py                          eight rounds or more of 5 s, about 20 minutes
    hits.py --quick                  one round of 2 s
    hits.py --workload hot-16k --gateway varnish --gateway penstock-cached

Needs Varnish too (`sudo apt-get install varnish`). A full run is kept in results/hits.json. Exit status: see
harness/command.py.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

from harness import command, hits, results
from harness.hit_caches import BY_NAME, CACHES, LIMIT, OWN, REFERENCE
from harness.measurement import Cell
from harness.run import run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "hits.json"
METHOD = (
    "Each cache is pinned to one core, the load to another. Every object is fetched once through each cache and "
    "compared with the origin's; then the origin is stopped. CPU is the cache's user + system time (scheduler's "
    "account, all threads and processes) divided by the responses; rounds are interleaved, CPU is the best round's, "
    "other figures are medians. hot: one object; set: random objects of a working set; both by wrk over 16 connections "
    "as fast as they are answered. open: one object at random times (exponential gaps) at 80 % of the rate that the "
    "slowest cache reached in the first round of hot, over 64 connections; latencies run from when a request was due."
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
    share = command.shares(cells)
    return [
        Row(
            cache=cell.gateway,
            workload=cell.workload,
            of_varnish=share(cell, REFERENCE),
            of_limit=share(cell, LIMIT),
            rate=cell.rate,
            **command.figures(cell),
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("cpu_us", "CPU us", 9, ".1f"),
        ("of_varnish", "/Varnish", 10, ".2f"),
        ("of_limit", "/limit", 9, ".2f"),
        ("rate", "per s", 10, ".0f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("spread", "spread", 8, ".0%"),
    )
    for workload in dict.fromkeys(row.workload for row in rows):
        print(f"\n{hits.BY_NAME[workload].title}")
        of_it = [row for row in rows if row.workload == workload]
        command.show(of_it, columns, lambda row: BY_NAME[row.cache].title, 28)


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
                    f"{row.workload}: p99 {row.p99_us:.0f} us, best peer {best:.0f}: {command.met(row.p99_us <= best)}"
                )
            continue
        for share, most, name in (
            (row.of_varnish, MOST_OF_REFERENCE[size], "Varnish"),
            (row.of_limit, MOST_OF_LIMIT, "the limit"),
        ):
            if share is not None:
                said.append(
                    f"{row.workload}: {share:.2f} of {name}, {most} at most: {command.met(share <= most)}"
                )
    return said


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    parser.add_argument("--gateway", action="append", choices=BY_NAME, help="only these; may be repeated")
    parser.add_argument(
        "--workload", action="append", choices=hits.BY_NAME, help="only these; may be repeated"
    )
    command.add_output(parser, OUTPUT)
    parser.add_argument("--working-set", type=int, help=f"bytes of each size, default {FULL.working_set}")
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL, QUICK)
    settings = replace(settings, working_set=arguments.working_set or settings.working_set)
    command.pin(settings)
    caches = [cache for cache in CACHES if cache.name in (arguments.gateway or BY_NAME)]
    workloads = [
        workload for workload in hits.WORKLOADS if workload.name in (arguments.workload or hits.BY_NAME)
    ]
    outcome = run(caches, workloads, settings, command.say)
    rows = rows_of(outcome.cells)
    show(rows)
    print()
    for line in verdicts(rows):
        print(line)
    if settings.working_set < hits.TIMES_CACHE * hits.last_level_cache():
        print(
            f"the working set is less than {hits.TIMES_CACHE} times the last-level cache: see --working-set"
        )
    is_full = settings == FULL and not arguments.gateway and not arguments.workload
    return command.end(
        rows,
        outcome.cells,
        outcome.absent,
        caches,
        settings,
        arguments.output or (OUTPUT if is_full else None),
        method=METHOD,
        last_level_cache=hits.last_level_cache(),
    )


if __name__ == "__main__":
    sys.exit(command.run(measure, parse_arguments()))
