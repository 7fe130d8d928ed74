"""Upgrades under load, beside the reloads of nginx and of HAProxy: README.md beside this file.

    upgrades.py                          thirty upgrades of penstock, ten of the others, one in ten seconds: ten minutes
    upgrades.py --quick                  two of each
    upgrades.py --only penstock
    upgrades.py --soak                   a hundred of penstock, one after the other: six minutes

Clients keep idle and busy connections, open new ones, and read event streams that never end. penstock has a cache. It is
upgraded by SIGUSR2, which starts its code anew; HAProxy by SIGUSR2 to its master, which does as well; nginx by SIGHUP,
which has its workers replaced (its own upgrade is not for a master in the foreground). A run without options is kept in
results/upgrades.json, and one with --soak in results/upgrades_soak.json.
Exit status: 0, or 1 if a connection of penstock's was refused or a request of its failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness import command, results
from harness.builds import BENCHMARKS
from harness.gateways import BY_NAME, Launch, package_versions
from harness.load import message, tell
from harness.process_group import group, is_there, members, resident
from harness.processes import HOST, Process, free_port
from harness.settings import FULL, Settings

OUTPUT = results.DIRECTORY / "upgrades.json"
SOAK_OUTPUT = results.DIRECTORY / "upgrades_soak.json"
PERIOD_SECONDS = 10.0
UPGRADES = {"penstock": 30, "nginx": 10, "haproxy": 10}
QUICK_UPGRADES = 2
SOAK_UPGRADES = 100
SOAK_METHOD = (
    "As upgrades.json, but each upgrade begins a second after the process before has ended. Of the process that serves: "
    "descriptors, threads and resident memory; of both: the largest sum of their resident memory, looked at every 20 ms."
)
IDLE, STREAMS, SEGMENTS, SUBSCRIBERS = 5000, 1000, 12_000, 500
CACHE = "256MiB"
SERVES = re.compile(r"upgrade: process (\d+) serves")
METHOD = (
    "The gateway, all of its processes, is on one core; origin and clients share the other. Every failure is counted, "
    "and no request is repeated. Idle connections ask once in 20 s, 50 others 300 times a second together, 100 new ones "
    "are opened a second; each asks for one of 12,000 segments of 16 KiB. Event streams have ten events a second and no "
    "end; an event is late by the time from its origin to its client. Of penstock, 500 more clients subscribe to a "
    "topic, to which one publishes ten events a second, by requests to a handler in a worker process."
)


@dataclass(frozen=True)
class Row:
    """What clients have noticed, and what is left of the gateway."""

    gateway: str
    versions: dict[str, str]
    upgrades: int
    seconds: float
    counts: dict[str, float]
    first: dict[str, str]
    processes_before: int
    processes_after: int
    processes_later: int
    """After `LATER_SECONDS` more without an upgrade, with the clients still there."""
    hit_ratio: float
    """Of all answers."""
    least_hit_ratio: float
    """Of the second with the fewest hits."""

    @property
    def failures(self) -> int:
        return int(
            sum(count for what, count in self.counts.items() if what.endswith(("failed", "no connection")))
        )


LATER_SECONDS = 35.0


@dataclass(frozen=True)
class Turn:
    """One upgrade of the soak."""

    seconds: float
    """From the signal to the end of the process before."""
    descriptors: int
    threads: int
    resident_mib: float
    both_mib: float


def by_penstock(process: Process, log: Path) -> None:
    """Upgrade the process that serves now."""
    known = SERVES.findall(log.read_text())
    os.kill(int(known[-1]) if known else process.pid, signal.SIGUSR2)


def penstock(launch: Launch) -> list[str]:
    return [
        *("env", f"UPGRADES_ORIGIN=http://{launch.origin}", f"PYTHONPATH={BENCHMARKS / 'peers'}"),
        *(sys.executable, "-m", "penstock", "serve", "upgrades_app:app", "--workers", "1"),
        *(
            "--listen",
            launch.listen,
            "--no-access-log",
            "--threads",
            "1",
            "--connections",
            "4096",
            "--drain",
            "30",
            "--memory",
            "768MiB",
            "--cache",
            CACHE,
        ),
    ]


def haproxy(launch: Launch) -> list[str]:
    made = BY_NAME["haproxy"].command(launch)
    # A master and its worker, in the foreground.
    return [made[0], "-W", *made[1:]]


@dataclass(frozen=True)
class Upgraded:
    """A gateway, and how it is upgraded."""

    name: str
    command: Callable[[Launch], list[str]]
    upgrade: Callable[[Process, Path], None]
    versions: Callable[[], dict[str, str]]


GATEWAYS = (
    Upgraded("penstock", penstock, by_penstock, package_versions("penstock")),
    Upgraded(
        "nginx",
        BY_NAME["nginx"].command,
        lambda process, _: os.kill(process.pid, signal.SIGHUP),
        BY_NAME["nginx"].versions,
    ),
    Upgraded(
        "haproxy",
        haproxy,
        lambda process, _: os.kill(process.pid, signal.SIGUSR2),
        BY_NAME["haproxy"].versions,
    ),
)


def measure(
    gateway: Upgraded, upgrades: int, settings: Settings, runtime: Path, period: float = PERIOD_SECONDS
) -> Row:
    """Put the load on a gateway, and upgrade it once in `period` seconds."""
    places = {name: runtime / name for name in ("gateway", "origin", "clients")}
    for place in places.values():
        place.mkdir(parents=True)
    port, origin = free_port(), free_port()
    launch = Launch("events", f"{HOST}:{port}", f"{HOST}:{origin}", places["gateway"])
    harness = BENCHMARKS / "harness"
    source = [sys.executable, str(harness / "upgrade_origin.py"), str(origin)]
    load = [
        sys.executable,
        str(harness / "upgrade_load.py"),
        str(port),
        str(IDLE),
        str(STREAMS),
        str(SEGMENTS),
        str(SUBSCRIBERS if gateway.name == "penstock" else 0),
    ]
    with (
        Process(source, core=settings.load_core, runtime=places["origin"]) as server,
        Process(gateway.command(launch), core=settings.gateway_core, runtime=places["gateway"]) as process,
    ):
        server.wait_until_listening(origin)
        process.wait_until_listening(port)
        with Process(load, core=settings.load_core, runtime=places["clients"], interactive=True) as clients:
            message(clients)
            before = group(process.pid)
            tell(clients, "begin")
            begun = time.monotonic()
            for number in range(upgrades):
                time.sleep(max(0.0, begun + (number + 0.5) * period - time.monotonic()))
                gateway.upgrade(process, places["gateway"] / "stderr")
            time.sleep(max(0.0, begun + upgrades * period - time.monotonic()))
            after, took = group(process.pid), time.monotonic() - begun
            time.sleep(LATER_SECONDS)
            later = group(process.pid)
            tell(clients, "end")
            seen = message(clients)
    versions = gateway.versions()
    row = Row(
        gateway.name,
        versions,
        upgrades,
        round(took, 1),
        seen["counts"],
        seen["first"],
        before,
        after,
        later,
        *ratios(seen["hits"]),
    )
    print(json.dumps(row.__dict__), file=sys.stderr, flush=True)
    return row


def turn(process: Process, log: Path) -> Turn:
    """Upgrade once, and wait until the process before has ended."""
    known = SERVES.findall(log.read_text())
    old = int(known[-1]) if known else process.pid
    begun, both = time.monotonic(), 0.0
    os.kill(old, signal.SIGUSR2)
    while is_there(old):
        both = max(both, sum(map(resident, members(process.pid))))
        time.sleep(0.02)
        if time.monotonic() - begun > 60:
            raise SystemExit(f"the process {old} has not ended")
    took = time.monotonic() - begun
    # What its streams are connected by is there when they have begun.
    time.sleep(1.0)
    new = int(SERVES.findall(log.read_text())[-1])
    return Turn(
        round(took, 2),
        len(os.listdir(f"/proc/{new}/fd")),
        len(os.listdir(f"/proc/{new}/task")),
        round(resident(new), 1),
        round(both, 1),
    )


def soak(settings: Settings, runtime: Path) -> tuple[dict[str, object], bool]:
    """A hundred upgrades under load. What is kept, and whether nothing failed."""
    turns = []

    def upgrade(process: Process, log: Path) -> None:
        turns.append(turn(process, log))

    row = measure(replace(GATEWAYS[0], upgrade=upgrade), SOAK_UPGRADES, settings, runtime, period=0.0)
    print(f"{'':12}{'seconds':>10}{'descriptors':>13}{'threads':>9}{'MiB':>9}{'both':>9}")
    for at in (0, 1, 9, 49, 98, 99):
        one = turns[at]
        counts = f"{one.seconds:10.2f}{one.descriptors:13}{one.threads:9}"
        print(f"{at + 1:12}{counts}{one.resident_mib:9.1f}{one.both_mib:9.1f}")
    print(
        f"longest: {max(one.seconds for one in turns)} s; most of both: {max(one.both_mib for one in turns)} MiB"
    )
    show([row])
    kept: dict[str, object] = {
        "method": SOAK_METHOD,
        "turns": [asdict(one) for one in turns],
        "row": asdict(row),
    }
    return kept, not row.failures


def ratios(seconds: list[tuple[int, int, int]]) -> tuple[float, float]:
    """The share of hits in all answers, and in the second with the fewest. The first and last are not whole."""
    found = [hits / answers for _, hits, answers in seconds[1:-1]]
    return round(sum(row[1] for row in seconds) / sum(row[2] for row in seconds), 4), round(min(found), 4)


def show(rows: list[Row]) -> None:
    names = sorted({name for row in rows for name in row.counts})
    print(f"{'':36}" + "".join(f"{row.gateway:>12}" for row in rows))
    for name in names:
        print(f"{name:36}" + "".join(f"{row.counts.get(name, 0):12g}" for row in rows))
    for name in ("processes_before", "processes_after", "processes_later", "hit_ratio", "least_hit_ratio"):
        print(f"{name.replace('_', ' '):36}" + "".join(f"{getattr(row, name):12}" for row in rows))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--only", choices=[gateway.name for gateway in GATEWAYS])
    arguments = parser.parse_args()
    command.pin(FULL)
    if arguments.soak:
        with tempfile.TemporaryDirectory() as directory:
            kept, is_well = soak(FULL, Path(directory))
        SOAK_OUTPUT.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"saved: {SOAK_OUTPUT}")
        return int(not is_well)
    chosen = [each for each in GATEWAYS if arguments.only in {None, each.name}]
    with tempfile.TemporaryDirectory() as directory:
        rows = [
            measure(
                each,
                QUICK_UPGRADES if arguments.quick else UPGRADES[each.name],
                FULL,
                Path(directory) / each.name,
            )
            for each in chosen
        ]
    show(rows)
    if not arguments.quick and arguments.only is None:
        OUTPUT.write_text(
            json.dumps({"method": METHOD, "rows": [row.__dict__ for row in rows]}, indent=1) + "\n"
        )
        print(f"saved: {OUTPUT}")
    return int(any(row.failures for row in rows if row.gateway == "penstock"))


if __name__ == "__main__":
    sys.exit(main())
