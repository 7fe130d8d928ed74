"""What fanning an event out costs, beside nchan, aiohttp-sse and a bare loop: README.md beside this file.

    fanout.py                                    eight rounds or more of 10 s, about 20 minutes
    fanout.py --quick                            one round of 2 s
    fanout.py --case 2000 --hub nchan --hub penstock-hub

Needs `sudo apt-get install libnginx-mod-nchan` and `pip install aiohttp-sse`. A full run is kept in results/fanout.json.
Exit status: see harness/command.py.
"""

from __future__ import annotations

import argparse
import resource
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness import command, results
from harness.fan_out import CASES, FanOut, run
from harness.hubs import BY_NAME, HUBS, LIMIT, NCHAN, OWN, OWN_HANDLER, QUEUES
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "fanout.json"
METHOD = (
    "Each hub is pinned to one core, subscribers and publisher to another, in one process. Hubs are started anew for "
    "each round and case; one subscriber and a few events come first, and what memory they take is no connection's. A "
    "publisher POSTs events of 192 bytes of data at a fixed rate, for all hubs alike. CPU is the hub's user + system "
    "time (scheduler's account, all threads and processes, the publishing included) from before the first POST until "
    "every subscriber has had every event, divided by the deliveries; each is checked for order and content. Latencies "
    "are of all deliveries, from just before the POST to when the kernel has the event for the subscriber's socket. "
    "Memory is the growth of the proportional set size of the hub's processes, divided by the subscribers; the kernel's"
    " own for the sockets is not in it. Rounds are interleaved, CPU is the best round's, other figures are medians."
)
# What a delivered event may cost of each, and what a connection may take.
MOST = {LIMIT: 1.15, NCHAN: 0.8, QUEUES: 0.35}
MOST_BYTES = 8 * 1024
FULL_RUN = replace(FULL, seconds=10.0)
QUICK_RUN = replace(FULL, rounds=1, seconds=2.0)


@dataclass(frozen=True)
class Row:
    """One hub's medians. Times are in microseconds; shares are of the CPU time of others for the same."""

    hub: str
    subscribers: int
    events_per_second: int
    cpu_us: float | None
    of_limit: float | None
    of_nchan: float | None
    of_aiohttp_sse: float | None
    p50_us: float | None
    p99_us: float | None
    bytes_per_connection: float | None
    load_share: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[FanOut]) -> list[Row]:
    share = command.shares(cells)

    def middle(cell: FanOut, values: list[float]) -> float | None:
        return None if cell.void else median(values)

    return [
        Row(
            hub=cell.gateway,
            subscribers=CASES[cell.workload].subscribers,
            events_per_second=CASES[cell.workload].rate,
            of_limit=share(cell, LIMIT),
            of_nchan=share(cell, NCHAN),
            of_aiohttp_sse=share(cell, QUEUES),
            bytes_per_connection=middle(cell, cell.bytes_per_connection),
            load_share=middle(cell, cell.load_shares),
            **command.figures(cell),
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("cpu_us", "CPU us", 9, ".2f"),
        ("of_limit", "/limit", 8, ".2f"),
        ("of_nchan", "/nchan", 8, ".2f"),
        ("of_aiohttp_sse", "/queues", 9, ".2f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("bytes_per_connection", "bytes each", 12, ".0f"),
        ("load_share", "load", 7, ".0%"),
        ("spread", "spread", 8, ".0%"),
    )
    for case in dict.fromkeys((row.subscribers, row.events_per_second) for row in rows):
        print(f"\n{case[0]:,} subscribers of one topic, {case[1]} events/s: for each delivered event")
        of_it = [row for row in rows if (row.subscribers, row.events_per_second) == case]
        command.show(of_it, columns, lambda row: BY_NAME[row.hub].title, 30)


def verdicts(rows: list[Row]) -> list[str]:
    """Return which targets are met."""
    said = []
    for row in (row for row in rows if row.hub in (OWN, OWN_HANDLER) and row.void is None):
        case = f"{row.hub}, {row.subscribers} subscribers"
        for other, share in ((LIMIT, row.of_limit), (NCHAN, row.of_nchan), (QUEUES, row.of_aiohttp_sse)):
            if share is not None:
                met = command.met(share <= MOST[other])
                said.append(f"{case}: {share:.2f} of {other}, {MOST[other]} at most: {met}")
        if row.bytes_per_connection is not None:
            met = command.met(row.bytes_per_connection <= MOST_BYTES)
            figure = f"{row.bytes_per_connection:.0f} bytes a connection, {MOST_BYTES} at most"
            said.append(f"{case}: {figure}: {met}")
    return said


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL_RUN, QUICK_RUN)
    parser.add_argument("--hub", action="append", choices=BY_NAME, help="only these; may be repeated")
    parser.add_argument("--case", action="append", choices=CASES, help="only these; may be repeated")
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


def allow_descriptors(needed: int) -> None:
    """Raises SystemExit where so many are not to be had."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < needed:
        raise SystemExit(f"{needed} descriptors are needed, and the limit is {most} (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL_RUN, QUICK_RUN)
    command.pin(settings)
    cases = arguments.case or list(CASES)
    allow_descriptors(max(CASES[case].subscribers for case in cases) + 1000)
    hubs = [hub for hub in HUBS if hub.name in (arguments.hub or BY_NAME)]
    with TemporaryDirectory(prefix="penstock-fan-out-") as name:
        # A worker that drops its privileges reaches what is its own below it.
        Path(name).chmod(0o711)
        cells, absent = run(hubs, cases, settings, Path(name))
    rows = rows_of(cells)
    show(rows)
    print()
    for line in verdicts(rows):
        print(line)
    is_full = settings == FULL_RUN and not arguments.hub and not arguments.case
    output = arguments.output or (OUTPUT if is_full else None)
    return command.end(rows, cells, absent, hubs, settings, output, method=METHOD)


if __name__ == "__main__":
    sys.exit(command.run(measure, parse_arguments()))
