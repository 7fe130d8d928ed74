"""Worker processes under fire, and what a request costs that one of them answers: README.md beside this file.

    workers.py                                   three rounds of three minutes, and the costs: about 12 minutes
    workers.py --quick                           one round of 10 s a phase
    workers.py --only fire                       or costs

`penstock serve --workers 2` relays 200 event streams of 10 events a second and answers a mixed load, in three phases:
calm; beside another `penstock serve` of the same application, which gets no requests, and which is under fire on the
same core; and under fire itself. Fire is a reload every five seconds, and kill -9 of one of the two workers between each
two of them, each in its turn. A run without options is kept in results/workers.json. Exit status: 0, 1 when what is
promised was not met, 2 when programs outside the benchmark disturbed the run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from harness import command, results
from harness.fire import (
    EVENTS_PER_SECOND,
    PERIOD_SECONDS,
    PHASES,
    SAFE,
    STREAMS,
    Origins,
    Row,
    Workers,
    measure,
    origins,
)
from harness.gateways import package_versions
from harness.settings import FULL, QUICK, Settings
from harness.worker_costs import Cost, costs

OUTPUT = results.DIRECTORY / "workers.json"
FIRE, QUICK_FIRE = Settings(rounds=3, seconds=60.0), Settings(rounds=1, seconds=10.0)
# What a stream may stall longer than beside the same burn in another process.
MOST_MS = 10.0
METHOD = (
    "The gateway (parent and workers) and the one beside it have one core; origins, readers and the mixed load share "
    "another, origin and reader of events before the rest (SCHED_FIFO where it is permitted). Each event is checked "
    "to come once and in order; its time runs from the origin's write to the client's read. A gap lies between two "
    "reads of one stream, which are due every 100 ms. No request is repeated by the load; any status but 200, another "
    "body, a connection that fails or an answer that takes 30 s is a failure. Costs: user + system time (scheduler's "
    "account) of parent and worker divided by the requests of 16 connections, medians of interleaved rounds, "
    "everything of the gateway on one core."
)


def fire(sources: Origins, settings: Settings, runtime: Path) -> list[Row]:
    """Every phase in every round, every other round backwards."""
    gateway, beside = (Workers(sources, settings, runtime / name) for name in ("gateway", "beside"))
    rows = []
    with gateway.process, beside.process:
        for each in (gateway, beside):
            each.process.wait_until_listening(each.port)
        for number in range(settings.rounds):
            for phase in PHASES if number % 2 == 0 else PHASES[::-1]:
                load = sources, settings, runtime / f"{number}-{phase}"
                rows.append(measure(phase, gateway, beside, load, settings.seconds))
    return rows


def longest(rows: list[Row], phase: str) -> float:
    return max(row.event_max_ms for row in rows if row.phase == phase)


def on_their_way(row: Row) -> float:
    """Events that may not have come at the end: one of each stream, and those of the longest stall."""
    return STREAMS * (1 + row.event_max_ms / 1e3 * EVENTS_PER_SECOND)


def verdict(rows: list[Row]) -> dict[str, bool]:
    """What is promised, and whether it was met in all rounds."""
    burning = [row for row in rows if row.phase == "fire"]
    due = [round(row.seconds / PERIOD_SECONDS) for row in burning]
    more = longest(rows, "fire") - longest(rows, "beside")
    return {
        "each kill and each reload was one": all(
            row.kills == count and abs(row.reloads - count) <= 1
            for row, count in zip(burning, due, strict=True)
        ),
        "no stream broke, and no event was lost or repeated": all(
            not row.streams_broken and row.events >= row.events_due - on_their_way(row) for row in burning
        ),
        "no GET failed": not sum(row.failed(*SAFE) for row in burning),
        f"the longest stall is {more:.1f} ms over that beside the same burn, {MOST_MS:g} at most": more
        <= MOST_MS,
    }


def show_fire(rows: list[Row]) -> None:
    titles = (
        "broken",
        "events",
        "p50 ms",
        "p99",
        "p99.9",
        "max",
        "gap p99.9",
        "gap max",
        "CPU s",
        "beside",
        "other",
    )
    print(f"{'phase':8}{'kills':>6}{'reloads':>8}" + "".join(f"{title:>10}" for title in titles))
    for row in rows:
        times = (row.event_p50_ms, row.event_p99_ms, row.event_p999_ms, row.event_max_ms)
        shown = "".join(f"{value:10.1f}" for value in (*times, row.gap_p999_ms, row.gap_max_ms))
        print(
            f"{row.phase:8}{row.kills:6}{row.reloads:8}{row.streams_broken:10}{row.events:10}{shown}"
            f"{row.gateway_cpu_seconds:10.1f}{row.beside_cpu_seconds:10.1f}{row.other_cpu:10.0%}"
        )
        for kind, seen in row.requests.items():
            print(
                f"{'':8}{kind:10}"
                + ", ".join(f"{name} {value}" for name, value in seen.items() if value != "")
            )


def show_costs(rows: list[Cost]) -> None:
    print(f"{'':42}{'CPU us':>9}{'worker':>9}{'p50 us':>9}{'p99 us':>9}{'per s':>9}{'spread':>8}{'other':>7}")
    for row in rows:
        print(
            f"{row.workload + ', ' + row.gateway:42}{row.cpu_us:9.1f}{row.worker_us:9.1f}{row.p50_us:9.0f}"
            f"{row.p99_us:9.0f}{row.per_second:9.0f}{row.spread:8.0%}{row.other_cpu:7.0%}"
        )
        for error in row.errors:
            print(f"  void: {error}")


def run(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FIRE, QUICK_FIRE)
    command.pin(settings)
    rows: list[Row] = []
    prices: list[Cost] = []
    with (
        tempfile.TemporaryDirectory(prefix="penstock-workers-") as name,
        origins(settings, Path(name)) as sources,
    ):
        if arguments.only != "costs":
            rows = fire(sources, settings, Path(name))
        if arguments.only != "fire":
            prices = costs(sources, QUICK if arguments.quick else FULL, Path(name) / "costs")
    show_fire(rows)
    show_costs(prices)
    promises = verdict(rows) if rows else {}
    for promise, is_met in promises.items():
        print(f"{promise}: {command.met(is_met)}")
    others = max((row.other_cpu for row in (*rows, *prices)), default=0.0)
    void = [f"other programs used up to {others:.0%} of the two cores"] if others > results.DISTURBED else []
    for line in void:
        print(line)
    output = arguments.output or (OUTPUT if settings == FIRE and arguments.only is None else None)
    if output is not None:
        results.publish(
            output,
            rows,
            method=METHOD,
            settings=asdict(settings),
            versions=package_versions("penstock", "aiohttp", "uvloop")(),
            promises=promises,
            costs=[asdict(price) for price in prices],
            void=void,
        )
    if void:
        return 2
    return 0 if all(promises.values()) and not any(price.errors for price in prices) else 1


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FIRE, QUICK_FIRE)
    parser.add_argument("--only", choices=("fire", "costs"), help="one of the two")
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(command.run(run, parse_arguments()))
