"""Compare penstock with other gateways on this machine: `compare.py --help`, and README.md beside this file.

Exit status: 0 when the run is valid, 1 when a cell is void, 2 when the whole run is void or could not be
made.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from harness import gateways, measurement, results, table
from harness.builds import BENCHMARKS
from harness.run import run
from harness.settings import FULL, QUICK, Settings

README = BENCHMARKS.parent / "README.md"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("run", "show", "render"),
        default="run",
        help="run: measure (default); show: print the latest result; render: put its table into the README",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.rounds} round of {QUICK.seconds:g} s")
    parser.add_argument("--rounds", type=int, help=f"default {FULL.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each round, default {FULL.seconds:g}")
    parser.add_argument("--gateway-core", type=int, default=FULL.gateway_core)
    parser.add_argument("--load-core", type=int, default=FULL.load_core)
    parser.add_argument(
        "--gateway", action="append", choices=gateways.BY_NAME, help="only these; may be repeated"
    )
    parser.add_argument(
        "--workload", action="append", choices=measurement.BY_NAME, help="only these; may be repeated"
    )
    parser.add_argument(
        "--results", type=Path, default=results.DIRECTORY, help="directory (default: %(default)s)"
    )
    parser.add_argument("--result", type=Path, help="for show and render: this file instead of the latest")
    parser.add_argument("--readme", type=Path, default=README, help="for render (default: %(default)s)")
    return parser.parse_args()


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Raises SystemExit for settings that this machine cannot meet."""
    settings = QUICK if arguments.quick else FULL
    settings = replace(
        settings,
        rounds=arguments.rounds or settings.rounds,
        seconds=arguments.seconds or settings.seconds,
        gateway_core=arguments.gateway_core,
        load_core=arguments.load_core,
    )
    if missing := {settings.gateway_core, settings.load_core} - os.sched_getaffinity(0):
        raise SystemExit(
            f"core {missing.pop()} is not available: two cores are needed (--gateway-core, --load-core)"
        )
    if settings.gateway_core == settings.load_core:
        raise SystemExit("the gateway needs a core of its own")
    return settings


def scope_of(arguments: argparse.Namespace, settings: Settings) -> results.Scope:
    if arguments.gateway or arguments.workload:
        return "partial"
    return "full" if settings.rounds >= FULL.rounds and settings.seconds >= FULL.seconds else "quick"


def measure(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    # This process idles, but what it does shall not be done on the gateway's core.
    os.sched_setaffinity(0, {settings.load_core})
    chosen = [gateways.BY_NAME[name] for name in arguments.gateway or gateways.BY_NAME]
    workloads = [measurement.BY_NAME[name] for name in arguments.workload or measurement.BY_NAME]
    date = results.now()
    outcome = run(chosen, workloads, settings, say=lambda line: print(line, file=sys.stderr, flush=True))
    result = results.Result(
        date=date,
        scope=scope_of(arguments, settings),
        settings=settings,
        machine=results.machine(),
        versions=results.versions(chosen, outcome.absent),
        revision=results.revision(),
        absent=outcome.absent,
        cells=outcome.cells,
        void=[],
        comparison="",
    )
    results.judge(result, [other for _, other in results.load_all(arguments.results)])
    path = results.save(result, arguments.results)
    print(table.terminal(result))
    print(f"saved: {path}")
    if result.void or not result.cells:
        return 2
    return 1 if any(cell.void for cell in result.cells) else 0


def chosen_result(arguments: argparse.Namespace) -> results.Result:
    if arguments.result:
        return results.load(arguments.result)
    if arguments.action == "render":
        return results.latest_valid(arguments.results)
    found = results.load_all(arguments.results)
    if not found:
        raise LookupError(f"no results in {arguments.results}")
    return found[-1][1]


def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, for `kill` as for Ctrl-C. A second signal does not disturb the stopping of what was started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if arguments.action == "run":
        try:
            return measure(arguments)
        except KeyboardInterrupt:
            print("interrupted: nothing is saved, everything is stopped", file=sys.stderr)
            return 130
    try:
        result = chosen_result(arguments)
        if arguments.action == "show":
            print(table.terminal(result))
        else:
            arguments.readme.write_text(table.render(arguments.readme.read_text(), table.markdown(result)))
    except (LookupError, ValueError, OSError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
