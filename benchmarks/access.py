"""What it costs that a hit is on a route which asks who may, beside one that is open: README.md beside this file.

    access.py                            five rounds of 5 s, about 5 minutes
    access.py --quick                    one round of 2 s

Both are asked with the same token. A run without options is kept in results/access.json. Exit status: 0 when all is
valid, 1 when a cell is void, 2 when programs outside the benchmark disturbed it or nothing could be measured."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compare import interrupt
from harness import hits, results
from harness.gateways import Gateway, package_versions, penstock_command
from harness.hit_caches import HITS
from harness.measurement import Cell
from harness.run import run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "access.json"
METHOD = (
    "As hot and set of hits.py: the gateway is pinned to one core, wrk to another, the origin is stopped. Each request "
    "brings a token of 600 bytes in Authorization, by which the protected route remembers what its hook has said. CPU is "
    "the gateway's user + system time (scheduler's account) divided by the responses; rounds are interleaved, figures are "
    "medians of the rounds."
)
OPEN, PROTECTED = "open", "protected"
GATEWAYS = [
    Gateway(
        name,
        title,
        penstock_command("cached", *options),
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=HITS,
        own=True,
    )
    for name, title, options in (
        (OPEN, "open to all", ("--bearer",)),
        (PROTECTED, "asks a hook", ("--bearer", "--authorise")),
    )
]
WORKLOADS = [
    hits.BY_NAME[f"{kind}-{size}"] for kind, size in (("hot", "16k"), ("hot", "64k"), ("set", "64k"))
]
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
    rate: float | None
    p50_us: float | None
    p99_us: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[Cell]) -> list[Row]:
    costs = {(cell.gateway, cell.workload): cell.cpu_us for cell in cells}

    def share(cell: Cell) -> float | None:
        base = costs.get((OPEN, cell.workload))
        return None if cell.cpu_us is None or not base else round(cell.cpu_us / base, 3)

    return [
        Row(
            route=cell.gateway,
            workload=cell.workload,
            cpu_us=cell.cpu_us,
            of_open=share(cell),
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
    print(f"{'':24}{'CPU us':>9}{'/open':>8}{'per s':>10}{'p50 us':>9}{'p99 us':>9}{'spread':>8}")
    for row in rows:
        title = f"{row.workload}, {row.route}"
        if row.void is not None:
            print(f"{title:24} void: {row.void.splitlines()[0]}")
            continue
        figures = (
            (row.cpu_us, "9.2f"),
            (row.of_open, "8.3f"),
            (row.rate, "10.0f"),
            (row.p50_us, "9.0f"),
            (row.p99_us, "9.0f"),
            (row.spread, "8.0%"),
        )
        shown = (
            "-".rjust(int(form.split(".")[0])) if value is None else format(value, form)
            for value, form in figures
        )
        print(f"{title:24}{''.join(shown)}")
    for row in rows:
        if row.route == PROTECTED and row.of_open is not None:
            met = "met" if row.of_open <= MOST else "NOT MET"
            print(f"{row.workload}: {row.of_open:.3f} of an open route, {MOST} at most: {met}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.rounds} round of {QUICK.seconds:g} s")
    parser.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each round, default {FULL.seconds:g}")
    parser.add_argument("--output", type=Path, help=f"where a run is kept; a full one is in {OUTPUT.name}")
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = QUICK if arguments.quick else FULL
    settings = replace(
        settings,
        token=TOKEN,
        rounds=arguments.rounds or settings.rounds,
        seconds=arguments.seconds or settings.seconds,
    )
    if {settings.gateway_core, settings.load_core} - os.sched_getaffinity(0):
        raise SystemExit("two cores are needed")
    os.sched_setaffinity(0, {settings.load_core})
    outcome = run(GATEWAYS, WORKLOADS, settings, say=lambda line: print(line, file=sys.stderr, flush=True))
    rows = rows_of(outcome.cells)
    show(rows)
    void = results.disturbance(outcome.cells)
    for line in (*void, *(f"absent: {name}: {why}" for name, why in outcome.absent.items())):
        print(line)
    output = arguments.output or (OUTPUT if settings == replace(FULL, token=TOKEN) else None)
    if output:
        results.publish(
            output,
            rows,
            method=METHOD,
            settings=asdict(settings),
            versions=results.versions(GATEWAYS, outcome.absent),
            absent=outcome.absent,
            void=void,
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
