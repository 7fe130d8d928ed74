"""Fanning out: one topic, its subscribers and its publisher, and what a hub takes for them.

A hub is started anew for each measurement, so that its memory is that of the connections it has.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import cpu
from harness.builds import AbsentError, rust
from harness.gateways import Gateway
from harness.load import LoadError, Target, Window, message, tell
from harness.measurement import Cell, Round
from harness.processes import HOST, Process, StartError
from harness.run import started
from harness.settings import Settings

# Of an event's data, without the field's name and line ends.
SIZE = 192
# A hub that is slower than this has not kept the rate, and its latencies are those of a queue.
DELIVERED_SHARE = 0.95


@dataclass(frozen=True)
class Case:
    """How many subscribers one topic has, and how many events it has in a second."""

    subscribers: int
    rate: int


CASES = {"2000": Case(2000, 10), "10000": Case(10_000, 2)}


@dataclass
class FanOut(Cell):
    """A cell with what this benchmark counts beside; `load_shares` are of the load's core, by the load alone."""

    bytes_per_connection: list[float] = field(default_factory=list)
    load_shares: list[float] = field(default_factory=list)


def resident(pid: int) -> int:
    """Return the bytes of a process tree, what processes share counted once."""
    total = 0
    for process in cpu.descendants(pid):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def load_command(target: Target, case: Case) -> list[str]:
    program = rust("load/subscribers", "subscribers")
    return [program, f"{HOST}:{target.port}", str(case.subscribers), str(case.rate)]


def publish(load: Process, count: int) -> dict[str, float]:
    """Have `count` events published, and return the report. Raises LoadError if one was not delivered."""
    tell(load, f"publish {count}")
    report = message(load)
    if report["failures"] or report["missing"]:
        raise LoadError(str(report["first_error"]))
    return report


def measure(target: Target, case: Case, cell: FanOut, settings: Settings, runtime: Path) -> None:
    """Add a round to the cell. Raises LoadError if the load has failed."""
    assert target.gateway is not None
    logs = runtime / "load"
    logs.mkdir()
    command = load_command(target, replace(case, subscribers=1))
    with Process(command, core=settings.load_core, runtime=logs, interactive=True) as load:
        message(load)
        publish(load, 10)
    empty = resident(target.gateway.pid)
    command = load_command(target, case)
    with Process(command, core=settings.load_core, runtime=logs, interactive=True) as load:
        message(load)
        publish(load, max(1, round(case.rate * settings.warm_up)))
        window = Window(target, settings)
        before = cpu.read_tree(load.pid).scheduler
        window.open()
        report = publish(load, round(case.rate * settings.seconds))
        window.close()
        used = cpu.read_tree(load.pid).scheduler - before
        grown = resident(target.gateway.pid) - empty
    # The last event has no interval after it.
    due = settings.seconds - 1 / case.rate
    late = report["seconds"] * DELIVERED_SHARE > due + 1 / case.rate
    deliveries = int(report["events"])
    cell.rounds.append(
        Round(
            units=deliveries,
            bytes=deliveries * SIZE,
            seconds=report["seconds"],
            cpu_seconds=window.cpu_seconds,
            p50_us=report["p50_us"],
            p99_us=report["p99_us"],
            other_cpu=window.other_cpu,
            errors=(f"{report['seconds']:.1f} s for events of {settings.seconds:g} s",) if late else (),
        )
    )
    cell.bytes_per_connection.append(grown / case.subscribers)
    cell.load_shares.append(used / report["seconds"])


def attempt(hub: Gateway, case: Case, cell: FanOut, settings: Settings, runtime: Path) -> None:
    """Measure a hub that is started for it. Raises AbsentError."""
    try:
        with started(hub, "fan-out", "", settings, runtime) as target:
            try:
                measure(target, case, cell, settings, runtime)
            except LoadError as error:
                said = target.gateway.diagnosis() if target.gateway else ""
                cell.failure = f"{error}; {said}"
    except StartError as error:
        cell.failure = str(error)


def run(
    hubs: list[Gateway], cases: list[str], settings: Settings, runtime: Path
) -> tuple[list[FanOut], dict[str, str]]:
    """Return the cells, and why a hub has none."""
    cells = {(hub.name, case): FanOut(hub.name, case) for case in cases for hub in hubs}
    absent: dict[str, str] = {}
    for number in range(settings.rounds):
        for case in cases:
            # Every other round backwards, so that no hub always runs in the wake of the same one.
            for hub in hubs[:: -1 if number % 2 else 1]:
                cell = cells[hub.name, case]
                if hub.name in absent or cell.failure is not None:
                    continue
                folder = runtime / f"{hub.name}-{case}-{number}"
                folder.mkdir()
                try:
                    attempt(hub, CASES[case], cell, settings, folder)
                except AbsentError as error:
                    absent[hub.name] = str(error)
                said = absent.get(hub.name) or cell.void or f"{cell.rounds[-1].cpu_us:.2f} us an event"
                line = f"round {number + 1}/{settings.rounds} {case} {hub.name}: {said}"
                print(line, file=sys.stderr, flush=True)
    return [cell for cell in cells.values() if cell.gateway not in absent], absent
