"""What the commands that measure have in common: options, cores, rows and their table, what is kept, and how they end.

Exit status: 0 when all is valid, 1 when a cell is void, 2 when programs outside the benchmark disturbed the run or
nothing could be measured, 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harness import results
from harness.gateways import Gateway
from harness.measurement import Cell
from harness.settings import Settings

Columns = Sequence[tuple[str, str, int, str]]
"""Of a table: the attribute of a row, the title, the width, and how it is formatted."""


def parser_of(doc: str | None, full: Settings, quick: Settings) -> argparse.ArgumentParser:
    """The options of every run."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{quick.rounds} round of {quick.seconds:g} s")
    parser.add_argument("--rounds", type=int, help=f"default {full.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each round, default {full.seconds:g}")
    return parser


def add_output(parser: argparse.ArgumentParser, output: Path) -> None:
    parser.add_argument("--output", type=Path, help=f"where a run is kept; a full one is in {output.name}")


def settings_of(arguments: argparse.Namespace, full: Settings, quick: Settings) -> Settings:
    settings = quick if arguments.quick else full
    return replace(
        settings,
        rounds=arguments.rounds or settings.rounds,
        seconds=arguments.seconds or settings.seconds,
    )


def pin(settings: Settings) -> None:
    """Keep this process, and what it starts, off the gateway's core. Raises SystemExit where there are not two cores."""
    if missing := {settings.gateway_core, settings.load_core} - os.sched_getaffinity(0):
        raise SystemExit(f"core {missing.pop()} is not available: two cores are needed")
    if settings.gateway_core == settings.load_core:
        raise SystemExit("the gateway needs a core of its own")
    os.sched_setaffinity(0, {settings.load_core})


def say(line: str) -> None:
    """Tell of a step, beside the result."""
    print(line, file=sys.stderr, flush=True)


def figures(cell: Cell) -> dict[str, Any]:
    """What the rows of all tables have of a cell."""
    return {
        "cpu_us": cell.cpu_us,
        "p50_us": cell.p50_us,
        "p99_us": cell.p99_us,
        "spread": cell.spread,
        "void": cell.void,
        "rounds": [asdict(round_) for round_ in cell.rounds],
    }


def shares(cells: Sequence[Cell]) -> Callable[[Cell, str], float | None]:
    """What says which share a cell's CPU time is of another gateway's for the same workload."""
    costs = {(cell.gateway, cell.workload): cell.cpu_us for cell in cells}

    def share(cell: Cell, of: str) -> float | None:
        base = costs.get((of, cell.workload))
        return None if cell.cpu_us is None or not base else round(cell.cpu_us / base, 3)

    return share


def show(rows: Sequence[Any], columns: Columns, title: Callable[[Any], str], width: int = 32) -> None:
    """Print a table of rows that may be void."""
    print(" " * width + "".join(f"{name:>{size}}" for _, name, size, _ in columns))
    for row in rows:
        name = f"{title(row).replace('*', '')[: width - 1]:{width}}"
        if row.void is not None:
            print(f"{name} void: {row.void.splitlines()[0]}")
            continue
        shown = (
            "-".rjust(size) if (value := getattr(row, attribute)) is None else f"{value:>{size}{form}}"
            for attribute, _, size, form in columns
        )
        print(f"{name}{''.join(shown)}")


def met(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


def end(
    rows: Sequence[Any],
    cells: Sequence[Cell],
    absent: dict[str, str],
    gateways: list[Gateway],
    settings: Settings,
    output: Path | None,
    **more: Any,
) -> int:
    """Say what is not there and what has disturbed the run, keep it in `output`, and return the exit status."""
    void = results.disturbance([*cells])
    for line in (*void, *(f"absent: {name}: {why}" for name, why in absent.items())):
        print(line)
    if output is not None:
        results.publish(
            output,
            rows,
            **more,
            settings=asdict(settings),
            versions=results.versions(gateways, absent),
            absent=absent,
            void=void,
        )
    if void or not rows:
        return 2
    return 1 if any(row.void for row in rows) else 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, for `kill` as for Ctrl-C. A second signal does not disturb the stopping of what was started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(work: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Return the exit status of `work`, or of its interruption."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return work(arguments)
    except KeyboardInterrupt:
        print("interrupted: nothing is saved, everything is stopped", file=sys.stderr)
        return 130
