"""What a hit costs on a route that asks who may, beside one that is open to all: README.md beside this file.

    access.py                            five rounds of 5 s, about 5 minutes
    access.py --quick                    one round of 2 s

Both are asked with the same token. A run without options is kept in results/access.json. Exit status: see
harness/command.py.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

from harness import command, hits, results
from harness.gateways import Gateway, package_versions, penstock_command
from harness.hit_caches import HITS
from harness.measurement import Cell
from harness.run import run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "access.json"
METHOD = (
    "As hot and set of hits.py: the gateway is pinned to one core, wrk to another, the origin is stopped. Each request "
    "brings a token of 600 bytes in Authorization, by which the protected route remembers what its hook has said. CPU "
    "is the gateway's user + system time (scheduler's account) divided by the responses; rounds are interleaved, "
    "CPU time is the best round's, other figures are medians of the rounds."
)
OPEN, PROTECTED = "open", "protected"
ROUTES = ((OPEN, "open to all", ("--bearer",)), (PROTECTED, "asks a hook", ("--bearer", "--authorise")))
GATEWAYS = [
    Gateway(
        name,
        title,
        penstock_command("cached", *options),
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=HITS,
        own=True,
    )
    for name, title, options in ROUTES
]
WORKLOADS = [hits.BY_NAME[name] for name in ("hot-16k", "hot-64k", "set-64k")]
# A token of the usual length, and what a protected hit may cost of an open one.
TOKEN = "x" * 600
MOST = 1.10


@dataclass(frozen=True)
class Row:
    """One cell. Times are in microseconds; the share is of the CPU time of the open route."""

    route: str
    workload: str
    cpu_us: float | None
    of_open: float | None
    p50_us: float | None
    p99_us: float | None
    rate: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[Cell]) -> list[Row]:
    share = command.shares(cells)
    return [
        Row(
            route=cell.gateway,
            workload=cell.workload,
            of_open=share(cell, OPEN) if cell.gateway == PROTECTED else None,
            rate=cell.rate,
            **command.figures(cell),
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("cpu_us", "CPU us", 9, ".2f"),
        ("of_open", "/open", 8, ".3f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("rate", "per s", 9, ".0f"),
        ("spread", "spread", 8, ".0%"),
    )
    command.show(rows, columns, lambda row: f"{row.workload}, {row.route}")
    for row in rows:
        if row.of_open is not None:
            met = command.met(row.of_open <= MOST)
            print(f"{row.workload}: {row.of_open:.3f} of an open route, {MOST} at most: {met}")


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = replace(command.settings_of(arguments, FULL, QUICK), token=TOKEN)
    command.pin(settings)
    outcome = run(GATEWAYS, WORKLOADS, settings, command.say)
    rows = rows_of(outcome.cells)
    show(rows)
    output = arguments.output or (OUTPUT if settings == replace(FULL, token=TOKEN) else None)
    return command.end(rows, outcome.cells, outcome.absent, GATEWAYS, settings, output, method=METHOD)


if __name__ == "__main__":
    sys.exit(command.run(measure, parse_arguments()))
