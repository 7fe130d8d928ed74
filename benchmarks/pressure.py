"""How requests fare when three times as many come as can be served, with shedding and without: README.md beside
this file.

    pressure.py                          ten storms of 5 s each: five minutes
    pressure.py --quick                  two storms
    pressure.py --calm 3600              an hour at 0.8 of the capacity, in which nothing may be refused

The application takes 2 ms of the processor for a request, so that the event loop is what cannot keep up. Its capacity
is measured first, by clients that wait for each other. Then requests come by open loop: at 0.8 of the capacity
("calm"), and in storms of three times the capacity with 0.8 of it for 5 s after each. A client leaves after a second.
A run without options is kept in results/pressure.json, and a calm of an hour or more in results/pressure_calm.json.
Exit status: 0, or 1 if a storm did not end, because less than 95 % of what was asked for 2 s after a storm was served;
of a calm, if a request was refused or the log tells of pressure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from harness import command, results
from harness.builds import BENCHMARKS
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "pressure.json"
CALM_OUTPUT = results.DIRECTORY / "pressure_calm.json"
HOUR = 3600.0
STORMS, QUICK_STORMS = 10, 2
CALM, STORM, AFTER = 20.0, 5.0, 5.0
TIMES = 3.0
LOAD = 0.8
LIMIT = "0.1"
"""`edge.overload_after` with shedding, in seconds."""
CLIENTS = 4
"""That wait for each other, to measure the capacity."""
SLOTS_IN_TWO_SECONDS = 20
METHOD = (
    "The gateway and its application share a core, the clients have the other. The capacity is that of 4 clients that "
    "wait for their answers. Good is a 200 within a second; latencies run from the moment a request was due. Return is "
    "the time after a storm from which on 95 % of what is asked for in half a second is good."
)
CONFIGURATION = """app = "pressure_app:make"
listen = "{listen}"
access_log = false
[edge]
overload_after = {limit}
[status]
listen = "{status}"
"""


@dataclass(frozen=True)
class Row:
    """A gateway under storms. Times are in milliseconds unless they say otherwise."""

    name: str
    capacity: float
    """Requests a second."""
    calm_good: float
    """The share of what was asked for."""
    calm_p50: float
    calm_p99: float
    goodput: float
    """In storms, of the capacity: the median, and the least."""
    goodput_least: float
    admitted_p50: float
    admitted_p99: float
    refused: float
    """The share of the requests of storms."""
    refused_p50: float
    refused_p99: float
    first_admitted_p99: float
    """In the first storm, as the next: none was before."""
    first_refused_p99: float
    left: float
    served_us: float
    """Of the processor, that the engine's thread takes for a request in the calm."""
    refused_us: float
    """The same for a refusal: what it took in storms, less that for each request that was not refused."""
    return_seconds: float
    """The longest."""
    good_after: float
    """From 2 s after a storm on, the least share of what was asked for."""
    storms: list[dict[str, Any]]


def parts_of(capacity: float, storms: int) -> tuple[list[tuple[float, float]], ...]:
    """The calm, and storms with what comes after each."""
    storm = [(TIMES * capacity, STORM), (LOAD * capacity, AFTER)]
    return [(LOAD * capacity, CALM)], storm * storms


def run_storm(port: int, phases: list[tuple[float, float]]) -> list[dict[str, Any]]:
    program = [
        sys.executable,
        str(BENCHMARKS / "harness" / "storm.py"),
        str(port),
        "/work",
        json.dumps(phases),
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def capacity_of(port: int) -> float:
    """Requests a second that clients get who wait for their answers."""
    end = time.monotonic() + 5.0

    def client(_: int) -> int:
        connection, count = http.client.HTTPConnection(HOST, port), 0
        while time.monotonic() < end:
            connection.request("GET", "/work")
            connection.getresponse().read()
            count += 1
        connection.close()
        return count

    with ThreadPoolExecutor(CLIENTS) as clients:
        return sum(clients.map(client, range(CLIENTS))) / 5.0


def engine_seconds(pid: int) -> float:
    """Of the processor, that the engine's threads have had."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("penstock-engine"):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def back_after(phase: dict[str, Any]) -> float:
    """Seconds after which half a second is served; as many as there are if none is."""
    good, due = phase["per_slot"], phase["due_per_slot"]
    for begins in range(len(good) - 5):
        window = slice(begins, begins + 5)
        if sum(good[window]) >= 0.95 * sum(due[window]):
            return begins / 10
    return float(phase["seconds"])


@dataclass(frozen=True)
class Calm:
    """A gateway at a load that it can serve."""

    capacity: float
    """Requests a second."""
    seconds: float
    due: int
    good: int
    refused: int
    left: int
    p50: float
    """Milliseconds."""
    p99: float
    pressed: int
    """Lines of the log that tell of pressure."""

    @property
    def is_false_alarm(self) -> bool:
        return self.refused > 0 or self.pressed > 0


@dataclass(frozen=True)
class Started:
    """A gateway with the application."""

    process: Process
    port: int
    status: int


@contextmanager
def started(limit: str, runtime: Path) -> Iterator[Started]:
    port, status = free_port(), free_port()
    runtime.mkdir()
    file = runtime / "penstock.toml"
    file.write_text(CONFIGURATION.format(listen=f"{HOST}:{port}", limit=limit, status=f"{HOST}:{status}"))
    program = [
        "env",
        f"PYTHONPATH={BENCHMARKS / 'peers'}",
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--config",
        str(file),
    ]
    with Process(program, core=FULL.gateway_core, runtime=runtime) as process:
        process.wait_until_listening(port)
        yield Started(process, port, status)


def measure(name: str, limit: str, storms: int, runtime: Path) -> Row:
    with started(limit, runtime) as gateway:
        capacity = capacity_of(gateway.port)
        command.say(f"{name}: {capacity:.0f} requests a second")
        spent = [engine_seconds(gateway.process.pid)]
        phases = []
        for part in parts_of(capacity, storms):
            phases += run_storm(gateway.port, part)
            spent.append(engine_seconds(gateway.process.pid))
        with urllib.request.urlopen(f"http://{HOST}:{gateway.status}/ready", timeout=10) as answer:
            command.say(answer.read().decode())
    return row_of(name, capacity, phases, [after - before for before, after in pairwise(spent)])


def measure_calm(limit: str, seconds: float, runtime: Path) -> Calm:
    with started(limit, runtime) as gateway:
        capacity = capacity_of(gateway.port)
        (phase,) = run_storm(gateway.port, [(LOAD * capacity, seconds)])
    told = (runtime / "stderr").read_text()
    return Calm(
        round(capacity, 1),
        seconds,
        phase["due"],
        phase["good"],
        phase["refused"],
        phase["left"],
        phase["good_ms"]["p50"],
        phase["good_ms"]["p99"],
        told.count("the application is pressed") + told.count("the engine is pressed"),
    )


def row_of(name: str, capacity: float, phases: list[dict[str, Any]], spent: list[float]) -> Row:
    """`spent`: seconds of the processor that the engine's thread took in the calm, and in the rest."""
    calm, *rest = phases
    during, after = rest[::2], rest[1::2]
    goodputs = [phase["good"] / phase["seconds"] / capacity for phase in during]
    due = sum(phase["due"] for phase in during)

    def middle(phases: list[dict[str, Any]], what: str, share: str) -> float:
        found = [phase[what][share] for phase in phases if phase[what]]
        return round(median(found), 2) if found else 0.0

    refused = sum(phase["refused"] for phase in rest)
    served_us = 1e6 * spent[0] / calm["due"]
    others_us = served_us * (sum(phase["due"] for phase in rest) - refused)
    late = [
        sum(phase["per_slot"][SLOTS_IN_TWO_SECONDS:]) / sum(phase["due_per_slot"][SLOTS_IN_TWO_SECONDS:])
        for phase in after
    ]
    return Row(
        name,
        round(capacity, 1),
        round(calm["good"] / calm["due"], 4),
        calm["good_ms"]["p50"],
        calm["good_ms"]["p99"],
        round(median(goodputs), 3),
        round(min(goodputs), 3),
        middle(during, "good_ms", "p50"),
        middle(during, "good_ms", "p99"),
        round(sum(phase["refused"] for phase in during) / due, 3),
        middle(during, "refused_ms", "p50"),
        middle(during, "refused_ms", "p99"),
        middle(during[:1], "good_ms", "p99"),
        middle(during[:1], "refused_ms", "p99"),
        round(sum(phase["left"] for phase in during) / due, 3),
        round(served_us, 1),
        round((1e6 * spent[1] - others_us) / refused, 1) if refused else 0.0,
        max(back_after(phase) for phase in after),
        round(min(late), 3),
        [{key: value for key, value in phase.items() if not key.endswith("per_slot")} for phase in rest],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--calm", type=float, metavar="SECONDS", help="no storms, at 0.8 of the capacity")
    arguments = parser.parse_args()
    command.pin(FULL)
    if arguments.calm:
        with tempfile.TemporaryDirectory() as directory:
            calm = measure_calm(LIMIT, arguments.calm, Path(directory) / "calm")
        print(calm)
        if arguments.calm >= HOUR:
            results.publish(CALM_OUTPUT, [calm], method=METHOD)
        return int(calm.is_false_alarm)
    storms = QUICK_STORMS if arguments.quick else STORMS
    with tempfile.TemporaryDirectory() as directory:
        rows = [
            measure(name, limit, storms, Path(directory) / name)
            for name, limit in (("shedding", LIMIT), ("without", "false"))
        ]
    for name in Row.__dataclass_fields__:
        if name != "storms":
            print(f"{name:16}" + "".join(f"{getattr(row, name):>14}" for row in rows))
    if not arguments.quick:
        results.publish(OUTPUT, rows, method=METHOD)
    return int(rows[0].good_after < 0.95)


if __name__ == "__main__":
    sys.exit(main())
