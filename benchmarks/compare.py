"""Compare penstock with other gateways on this machine: `compare.py --help`, and README.md beside this file.

Exit status: 0 when the run is valid, 1 when a cell is void, 2 when the whole run is void or could not be
made.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from harness import command, gateways, measurement, results, table
from harness.builds import BENCHMARKS
from harness.run import run
from harness.settings import FULL, QUICK, Settings

README = BENCHMARKS.parent / "README.md"


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    parser.add_argument(
        "action",
        nargs="?",
        choices=("run", "again", "show", "render"),
        default="run",
        help="run: measure (default); again: add rounds where a cell of the latest full result is unsteady; "
        "show: print the latest result; render: put its table into the README",
    )
    parser.add_argument("--gateway-core", type=int, default=FULL.gateway_core)
    parser.add_argument("--load-core", type=int, default=FULL.load_core)
    parser.add_argument(
        "--both-cores",
        action="store_true",
        help="the gateway has the load's core as well: for rates, not for costs",
    )
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


def scope_of(arguments: argparse.Namespace, settings: Settings) -> results.Scope:
    if arguments.gateway or arguments.workload or arguments.both_cores:
        return "partial"
    return "full" if settings.rounds >= FULL.rounds and settings.seconds >= FULL.seconds else "quick"


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL, QUICK)
    cores = {name: getattr(arguments, name) for name in ("gateway_core", "load_core", "both_cores")}
    settings = replace(settings, **cores)
    # This process idles, but what it does shall not be done on the gateway's core.
    command.pin(settings)
    chosen = [gateways.BY_NAME[name] for name in arguments.gateway or gateways.BY_NAME]
    workloads = [measurement.BY_NAME[name] for name in arguments.workload or measurement.BY_NAME]
    date = results.now()
    outcome = run(chosen, workloads, settings, command.say)
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
    return keep(result, arguments.results)


def keep(result: results.Result, directory: Path) -> int:
    """Judge, save and print a result, and return the exit status."""
    results.judge(result, [other for _, other in results.load_all(directory)])
    path = results.save(result, directory)
    print(table.terminal(result))
    print(f"saved: {path}")
    if result.void or not result.cells:
        return 2
    return 1 if any(cell.void for cell in result.cells) else 0


def measure_again(arguments: argparse.Namespace) -> int:
    """Add rounds to the workloads of the latest full, valid result of which a cell is left out of the table.

    They are measured for all gateways, as one run. The result is saved anew in its place.
    """
    result = results.latest_valid(arguments.results)
    command.pin(result.settings)
    workloads = table.unsteady(result)
    chosen = [gateway for gateway in gateways.GATEWAYS if gateway.name not in result.absent]
    now = (results.machine(), results.versions(chosen, {}), results.revision())
    if now != (result.machine, result.versions, result.revision):
        raise LookupError(
            "the latest full result is of another machine, commit or version of a gateway: run all of it"
        )
    if not workloads:
        print("no cell of the latest full result is unsteady")
        return 0
    outcome = run(chosen, workloads, replace(result.settings, again=FULL.again), command.say)
    results.add(result, outcome.cells)
    return keep(result, arguments.results)


def chosen_result(arguments: argparse.Namespace) -> results.Result:
    if arguments.result:
        return results.load(arguments.result)
    if arguments.action == "render":
        return results.latest_valid(arguments.results)
    found = results.load_all(arguments.results)
    if not found:
        raise LookupError(f"no results in {arguments.results}")
    return found[-1][1]


def main() -> int:
    arguments = parse_arguments()
    if arguments.action == "run":
        return command.run(measure, arguments)
    try:
        if arguments.action == "again":
            return command.run(measure_again, arguments)
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
