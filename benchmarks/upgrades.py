"""Upgrades under load, beside the reloads of nginx and of HAProxy: README.md beside this file.

    upgrades.py                          thirty upgrades of penstock, ten of the others, one in ten seconds: ten minutes
    upgrades.py --quick                  two of each
    upgrades.py --only penstock

Clients keep idle and busy connections, open new ones, and read event streams that never end. penstock has a cache. It is
upgraded by SIGUSR2, which starts its code anew; HAProxy by SIGUSR2 to its master, which does as well; nginx by SIGHUP,
which has its workers replaced (its own upgrade is not for a master in the foreground). A run without options is kept in
results/upgrades.json.
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
from dataclasses import dataclass
from pathlib import Path

from harness import command, results
from harness.builds import BENCHMARKS
from harness.gateways import BY_NAME, Launch, package_versions
from harness.load import message, tell
from harness.processes import HOST, Process, free_port
from harness.settings import FULL, Settings

OUTPUT = results.DIRECTORY / "upgrades.json"
PERIOD_SECONDS = 10.0
UPGRADES = {"penstock": 30, "nginx": 10, "haproxy": 10}
QUICK_UPGRADES = 2
IDLE, STREAMS, SEGMENTS = 5000, 1000, 12_000
CACHE = "256MiB"
SERVES = re.compile(r"upgrade: process (\d+) serves")
METHOD = (
    "The gateway, all of its processes, is on one core; origin and clients share the other. Every failure is counted, "
    "and no request is repeated. Idle connections ask once in 20 s, 50 others 300 times a second together, 100 new ones "
    "are opened a second; each asks for one of 12,000 segments of 16 KiB. Event streams have ten events a second and no "
    "end; an event is late by the time from its origin to its client."
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


def group(pid: int) -> int:
    """How many processes of the group of `pid` run."""
    found = 0
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                state, _, leader, *_ = (path / "stat").read_text().rpartition(")")[2].split()
                found += int(leader) == pid and state != "Z"
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def by_penstock(process: Process, log: Path) -> None:
    """Upgrade the process that serves now."""
    known = SERVES.findall(log.read_text())
    os.kill(int(known[-1]) if known else process.pid, signal.SIGUSR2)


def penstock(launch: Launch) -> list[str]:
    return [
        *(sys.executable, "-m", "penstock", "serve", "--origin", f"http://{launch.origin}"),
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


def measure(gateway: Upgraded, upgrades: int, settings: Settings, runtime: Path) -> Row:
    """Put the load on a gateway, and upgrade it."""
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
            for turn in range(upgrades):
                time.sleep(max(0.0, begun + (turn + 0.5) * PERIOD_SECONDS - time.monotonic()))
                gateway.upgrade(process, places["gateway"] / "stderr")
            time.sleep(max(0.0, begun + upgrades * PERIOD_SECONDS - time.monotonic()))
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
    parser.add_argument("--only", choices=[gateway.name for gateway in GATEWAYS])
    arguments = parser.parse_args()
    command.pin(FULL)
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
