"""What a request, an event and a delivery count: instructions, allocations, cache lines, system calls, wake-ups.

    counts.py                             three rounds, into results/counts.json
    counts.py --row relay-16k --rounds 1
    counts.py --against FILE              beside a run that was kept
    counts.py --check                     penstock's rows, once, beside results/counts.json: seven minutes, for CI
    counts.py --functions 20              and the functions that execute the most
    counts.py --publish                   writes the table of docs/concepts/cost.md from results/counts.json

To count another build, run this file with the interpreter of its environment, and keep it with `--output`. Needs
valgrind and strace. README.md beside this file says how it counts.

Exit status: 0; 1 if a row is void, or one of penstock's is higher than in the run that was kept; 2 if that was made with
other tools and no row can be compared; 130 when interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import penstock
from harness import command, counts_table, results, table
from harness.builds import BENCHMARKS, AbsentError
from harness.callgrind import Profile
from harness.counting import BY_NAME, GATEWAYS, ROWS, Calls, Row, cache_lines, calls, profile
from harness.counts_table import Figures, Known
from harness.gateways import Gateway, first_line
from harness.load import LoadError
from harness.processes import StartError
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "counts.json"
PAGE = BENCHMARKS.parent / "docs" / "concepts" / "cost.md"
ROUNDS = 3
METHOD = (
    "Origin and clients are one thread, with one kept-alive connection on either side of the gateway (a hub has its "
    "subscribers' besides) and one request or event under way. Instructions are what the gateway's process executes "
    "in user space, by callgrind, in a window after a warm-up; loop is the part of its first thread. Allocations are "
    "calls of libc's allocator for memory. Both are of the round that executed the least; each has a new process. "
    "Once, in processes of their own: the cache lines that one step touches, of code and of data, by callgrind's "
    "simulated cache; the system calls of all threads, by strace; the wake-ups of the event loop, by the engine's own "
    "count."
)


def versions(counted: list[Gateway], absent: dict[str, str]) -> dict[str, str]:
    """Return the versions of all that a count depends on."""
    return results.versions(counted, absent) | {
        "rustc": first_line("rustc", "cargo", "--version"),
        "valgrind": first_line("valgrind", "valgrind", "--version"),
        "libc": " ".join(platform.libc_ver()),
        "python": sys.version,
    }


def figures(
    row: Row,
    gateway: Gateway,
    profiles: list[Profile],
    lines: tuple[float | None, float | None],
    made: Calls,
) -> Figures:
    """Return the round that executed the least, beside what was counted once."""
    units = row.steps * row.units
    instructions = [profile.instructions / units for profile in profiles]
    # What runs by the clock, such as timers, only adds, and adds the more the slower the machine is.
    least = min(profiles, key=lambda profile: profile.instructions)
    return Figures(
        row=row.name,
        gateway=gateway.name,
        unit=row.unit,
        instructions=least.instructions / units,
        loop=least.loop / units,
        allocations=least.allocations / units,
        code_lines=lines[0],
        data_lines=lines[1],
        calls=sum(made.system_calls.values()),
        wakeups=made.wakeups,
        spread=max(instructions) / min(instructions) - 1,
        system_calls=made.system_calls,
        rounds=instructions,
    )


def show_functions(row: Row, gateway: Gateway, profile: Profile, most: int) -> None:
    units = row.steps * row.units
    title = gateway.title.replace("*", "")
    print(f"\n{row.title}, {title}: instructions per {row.unit} of each function alone")
    for (where, function), instructions in profile.functions.most_common(most):
        share = instructions / profile.instructions
        print(f"{instructions / units:12,.1f}{share:7.1%}  {Path(where).name}: {function[:140]}")


def attempt(row: Row, gateway: Gateway, arguments: argparse.Namespace) -> Figures:
    """Count all that there is to count of a gateway. Raises AbsentError."""
    profiles: list[Profile] = []
    try:
        for number in range(arguments.rounds):
            profiles.append(profile(row, gateway, FULL))
            counted = profiles[-1].instructions / (row.steps * row.units)
            command.say(
                f"round {number + 1}/{arguments.rounds} {row.name} {gateway.name}: "
                f"{counted:,.0f} instructions per {row.unit}"
            )
        if arguments.functions:
            show_functions(row, gateway, profiles[0], arguments.functions)
        lines = (None, None) if arguments.check else cache_lines(row, gateway, FULL)
        return figures(row, gateway, profiles, lines, calls(row, gateway, FULL))
    except (LoadError, StartError) as error:
        command.say(f"{row.name} {gateway.name}: void: {error}")
        return Figures(row.name, gateway.name, row.unit, void=str(error))


def measure(arguments: argparse.Namespace) -> int:
    command.pin(FULL)
    # Sets and dicts have the same order in every process.
    os.environ["PYTHONHASHSEED"] = "0"
    rows: list[Figures] = []
    absent: dict[str, str] = {}
    counted: list[Gateway] = []
    for row in (row for row in ROWS if row.name in (arguments.row or BY_NAME)):
        for gateway in (GATEWAYS[name] for name in row.gateways if name in (arguments.gateway or GATEWAYS)):
            if arguments.check and not gateway.own:
                continue
            try:
                rows.append(attempt(row, gateway, arguments))
                counted.append(gateway)
            except AbsentError as error:
                absent[gateway.name] = str(error)
    tools = versions(counted, absent)
    kept: dict[str, Any] = json.loads(arguments.against.read_text()) if arguments.against else {}
    others = counts_table.other_tools(tools, kept["versions"]) if kept else {}
    before = counts_table.comparable(counts_table.known(kept.get("rows", ())), others)
    counts_table.show(rows, before)
    more = counts_table.higher(rows, before, counts_table.BUILDS if arguments.check else 0.0)
    print()
    for line in (
        *(f"not compared: {counts_table.concerned(name)}: {line}" for name, line in others.items()),
        *(f"higher: {line}" for line in more),
        *(f"absent: {name}: {why}" for name, why in absent.items()),
    ):
        print(line)
    is_full = not arguments.row and not arguments.gateway and arguments.rounds == ROUNDS
    if output := arguments.output or (OUTPUT if is_full else None):
        results.publish(
            output,
            rows,
            # Of the build that was imported, which need not be the one beside this file.
            revision=results.revision(Path(penstock.__file__).parents[2]),
            method=METHOD,
            versions=tools,
            absent=absent,
            before=beside(kept, before, tools),
        )
    elif not arguments.check:
        print(f"not kept: a run of all rows in {ROUNDS} rounds is, and any with --output")
    if kept and not before:
        return 2
    return 1 if more or any(row.void for row in rows) else 0


def beside(kept: dict[str, Any], before: Known, tools: dict[str, str]) -> dict[str, Any]:
    """What the page shows a run beside: the run of --against; without one, what the last run was shown beside."""
    if not kept and OUTPUT.exists():
        last = json.loads(OUTPUT.read_text())
        kept, others = last["before"], counts_table.other_tools(tools, last["versions"])
        before = counts_table.comparable(counts_table.known(kept["rows"]), others)
    rows = [asdict(figures) for figures in before.values()]
    return {"revision": kept.get("revision"), "date": kept.get("date"), "rows": rows}


def publish() -> int:
    kept = json.loads(OUTPUT.read_text())
    now = [Figures(**row) for row in kept["rows"]]
    shown = counts_table.markdown(now, counts_table.known(kept["before"]["rows"]))
    written = f"Counted at commit {kept['revision']}; before: at {kept['before']['revision']}."
    page = table.render(PAGE.read_text(), f"{shown}\n\n{written}", counts_table.BEGIN, counts_table.END)
    PAGE.write_text(page)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--row", action="append", choices=BY_NAME, help="only these; may be repeated")
    parser.add_argument("--gateway", action="append", choices=GATEWAYS, help="only these; may be repeated")
    parser.add_argument("--against", type=Path, metavar="FILE", help="a run that was kept")
    parser.add_argument(
        "--check", action="store_true", help="count penstock once, against the results that are kept"
    )
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show N of each row")
    parser.add_argument("--publish", action="store_true", help="count nothing, and write the page")
    command.add_output(parser, OUTPUT)
    arguments = parser.parse_args()
    if arguments.check:
        arguments.rounds, arguments.against = 1, arguments.against or OUTPUT
    return arguments


if __name__ == "__main__":
    parsed = parse_arguments()
    sys.exit(publish() if parsed.publish else command.run(measure, parsed))
