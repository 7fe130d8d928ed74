"""What inspecting relayed event streams costs, beside relaying them: README.md beside this file.

    inspection.py                                five rounds of 5 s, about 3 minutes
    inspection.py --quick                        one round of 2 s

1,000 streams of 10 events a second: chunks of chat completions, whose usage is null. By either lane, with and without
`inspect`. A run without options is kept in results/inspection.json. Exit status: 0 when all is valid, 1 when a cell is
void, 2 when programs outside the benchmark disturbed it or nothing could be measured.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from compare import interrupt
from harness import results
from harness.gateways import Gateway, package_versions, penstock_command
from harness.measurement import EVENTS, Cell
from harness.run import DIRECT, run
from harness.settings import FULL, QUICK

OUTPUT = results.DIRECTORY / "inspection.json"
METHOD = (
    "As the event streams of compare.py, rounds interleaved: the gateway has one core, origin and client share another. "
    "CPU is the gateway's user + system time (scheduler's account) divided by the events that were delivered; figures "
    "are medians of the rounds."
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
    costs = {cell.gateway: cell.cpu_us for cell in cells}

    def share(cell: Cell) -> float | None:
        lane, _, inspected = cell.gateway.partition("-")
        base = costs.get(lane)
        return round(cell.cpu_us / base, 3) if inspected and cell.cpu_us and base else None

    return [
        Row(
            gateway=cell.gateway,
            cpu_us=cell.cpu_us,
            of_plain=share(cell),
            p50_us=cell.p50_us,
            p99_us=cell.p99_us,
            rate=cell.rate,
            spread=cell.spread,
            void=cell.void,
            rounds=[asdict(round_) for round_ in cell.rounds],
        )
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
    print(" " * 32 + "".join(f"{title:>{width}}" for _, title, width, _ in columns))
    for row in rows:
        if row.void is not None:
            print(f"{TITLES[row.gateway]:32} void: {row.void.splitlines()[0]}")
            continue
        figures = (
            "-".rjust(width) if (value := getattr(row, name)) is None else f"{value:>{width}{form}}"
            for name, _, width, form in columns
        )
        print(f"{TITLES[row.gateway]:32}{''.join(figures)}")
    for row in rows:
        if row.of_plain is not None:
            met = "met" if row.of_plain <= MOST else "NOT MET"
            print(f"{TITLES[row.gateway]}: {row.of_plain:.3f} of the same lane, {MOST} at most: {met}")


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
        rounds=arguments.rounds or settings.rounds,
        seconds=arguments.seconds or settings.seconds,
    )
    if {settings.gateway_core, settings.load_core} - os.sched_getaffinity(0):
        raise SystemExit("two cores are needed")
    os.sched_setaffinity(0, {settings.load_core})
    outcome = run(GATEWAYS, [EVENTS], settings, say=lambda line: print(line, file=sys.stderr, flush=True))
    rows = rows_of(outcome.cells)
    show(rows)
    void = results.disturbance(outcome.cells)
    for line in (*void, *(f"absent: {name}: {why}" for name, why in outcome.absent.items())):
        print(line)
    output = arguments.output or (OUTPUT if settings == FULL else None)
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
