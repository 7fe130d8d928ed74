"""What inspecting relayed event streams costs, beside relaying them: README.md beside this file.

    inspection.py                                five rounds of 5 s, about 3 minutes
    inspection.py --quick                        one round of 2 s

1,000 streams of 10 events a second: chunks of chat completions, whose usage is null. By either lane, with and without
`inspect`. A run without options is kept in results/inspection.json. Exit status: see harness/command.py.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from harness import command, results
from harness.gateways import Gateway, package_versions, penstock_command
from harness.measurement import EVENTS, Cell
from harness.run import DIRECT, run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "inspection.json"
METHOD = (
    "As the event streams of compare.py, rounds interleaved: the gateway has one core, origin and client share another."
    " CPU is the gateway's user + system time (scheduler's account) divided by the events that were delivered, in the "
    "best round; other figures are medians of the rounds."
)
LANES = {"native": "native lane", "app": "application's lane"}
# What an inspected event may cost of one that is relayed and no more.
MOST = 1.15


def _name(lane: str, is_inspected: bool) -> str:
    return f"{lane}-inspected" if is_inspected else lane


GATEWAYS = [
    Gateway(
        _name(lane, is_inspected),
        f"{title}, inspected" if is_inspected else title,
        penstock_command(lane, *(("--inspect",) if is_inspected else ())),
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=frozenset({"events"}),
        own=True,
    )
    for lane, title in LANES.items()
    for is_inspected in (False, True)
]
TITLES = {gateway.name: gateway.title for gateway in GATEWAYS} | {DIRECT: "no gateway"}


@dataclass(frozen=True)
class Row:
    """One cell. Times are in microseconds; the share is of the CPU time of the same lane without inspection."""

    gateway: str
    cpu_us: float | None
    of_plain: float | None
    p50_us: float | None
    p99_us: float | None
    rate: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[Cell]) -> list[Row]:
    share = command.shares(cells)

    def of_plain(cell: Cell) -> float | None:
        lane, _, inspected = cell.gateway.partition("-")
        return share(cell, lane) if inspected else None

    return [
        Row(gateway=cell.gateway, of_plain=of_plain(cell), rate=cell.rate, **command.figures(cell))
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("cpu_us", "CPU us", 9, ".2f"),
        ("of_plain", "/plain", 8, ".3f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("rate", "per s", 9, ".0f"),
        ("spread", "spread", 8, ".0%"),
    )
    command.show(rows, columns, lambda row: TITLES[row.gateway])
    for row in rows:
        if row.of_plain is not None:
            met = command.met(row.of_plain <= MOST)
            print(f"{TITLES[row.gateway]}: {row.of_plain:.3f} of the same lane, {MOST} at most: {met}")


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL, QUICK)
    command.pin(settings)
    outcome = run(GATEWAYS, [EVENTS], settings, command.say)
    rows = rows_of(outcome.cells)
    show(rows)
    output = arguments.output or (OUTPUT if settings == FULL else None)
    return command.end(rows, outcome.cells, outcome.absent, GATEWAYS, settings, output, method=METHOD)


if __name__ == "__main__":
    sys.exit(command.run(measure, parse_arguments()))
