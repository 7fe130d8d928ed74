"""What clients notice of a storm on the machine: README.md beside this file.

    storms.py                            every storm: calm, storm, calm; four minutes
    storms.py --only origin clock

Clients keep connections, open new ones and read event streams (harness/upgrade_load.py), while the gateway gets into a
storm for twenty seconds and out of it again. A run without options is kept in results/storms.json. It takes root: it
changes control groups, and mounts a small file system.
Exit status: 0, or 1 if something was lost that a storm does not excuse.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import command, results
from harness.builds import BENCHMARKS
from harness.load import message, tell
from harness.process_group import resident
from harness.processes import HOST, Process, free_port
from harness.settings import FULL, Settings

OUTPUT = results.DIRECTORY / "storms.json"
CALM_SECONDS, STORM_SECONDS, AFTER_SECONDS = 10.0, 20.0, 20.0
IDLE, STREAMS, SEGMENTS = 500, 200, 4000
NEIGHBOURS, QUOTA = 3, 0.3
DISK_MIB = 48
FAKE_TIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
METHOD = (
    "The gateway is on one core; origin and clients share the other. 500 idle connections ask once in 20 s, 50 others "
    "300 times a second together, 100 new ones are opened a second: for one of 4,000 cached segments of 16 KiB. 200 "
    "event streams have ten events a second. Nothing is asked twice. Ten seconds of calm, twenty of the storm, twenty "
    "of calm."
)


@dataclass(frozen=True)
class Phase:
    """What clients have noticed of one of the three."""

    name: str
    answers: int
    failed: int
    lost: int
    """Events that did not follow on the one before."""
    ended: int
    """Event streams that have ended."""
    late: int
    """Events that came more than 100 ms after the origin had sent them."""
    events: int
    longest_ms: float
    resident_mib: float


@dataclass(frozen=True)
class Gateway:
    """What a storm comes over."""

    process: Process
    origin: Process
    core: int | str
    directory: Path


@dataclass(frozen=True)
class Storm:
    """What happens to the gateway, and what that excuses."""

    name: str
    title: str
    within: Callable[[Gateway], AbstractContextManager[None]]
    """There is the storm in the context."""
    stalls: bool = False
    """Misses and events wait for its end, and new requests may fail."""


@contextmanager
def neighbours(gateway: Gateway) -> Iterator[None]:
    """Programs that want all of the gateway's core."""
    burn = ["taskset", "--cpu-list", str(gateway.core), sys.executable, "-c", "while True: pass"]
    burning = [subprocess.Popen(burn) for _ in range(NEIGHBOURS)]
    try:
        yield
    finally:
        for each in burning:
            each.kill()
            each.wait()


@contextmanager
def quota(gateway: Gateway) -> Iterator[None]:
    """The gateway may take a share of its core, in each tenth of a second."""
    group = Path("/sys/fs/cgroup/cpu/penstock-storm")
    group.mkdir(exist_ok=True)
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(int(QUOTA * 100_000)))
        (group / "cgroup.procs").write_text(str(gateway.process.pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(gateway.process.pid))
        group.rmdir()


@contextmanager
def origin(gateway: Gateway) -> Iterator[None]:
    """The origin stands still."""
    os.kill(gateway.origin.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(gateway.origin.pid, signal.SIGCONT)


@contextmanager
def disk(gateway: Gateway) -> Iterator[None]:
    """Another program fills the file system of the cache."""
    filler = gateway.directory / "disk" / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def clock(gateway: Gateway) -> Iterator[None]:
    """The time of day is an hour ahead, and then jumps back."""
    set_clock(gateway.directory, "+3600")
    try:
        yield
    finally:
        set_clock(gateway.directory, "+0")


def set_clock(directory: Path, seconds: str) -> None:
    part = directory / "faketime.new"
    part.write_text(seconds + "\n")
    part.replace(directory / "faketime")


STORMS = (
    Storm("neighbours", "three programs on the gateway's core", neighbours),
    Storm("quota", "30 % of a core", quota),
    Storm("origin", "the origin stands still", origin, stalls=True),
    Storm("disk", "the disk of the cache is full", disk),
    Storm("clock", "the clock is an hour ahead, and back", clock),
)


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system that can be filled."""
    place = directory / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def served(directory: Path, listen: str, origin: str, cache: Path) -> list[str]:
    """The gateway, whose time of day is that of a file."""
    return [
        *("env", f"LD_PRELOAD={FAKE_TIME}", f"FAKETIME_TIMESTAMP_FILE={directory / 'faketime'}"),
        *("FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"),
        *(sys.executable, "-m", "penstock", "serve", "--origin", origin, "--listen", listen),
        *("--no-access-log", "--threads", "1", "--connections", "4096", "--memory", "256MiB"),
        *(
            "--cache",
            "32MiB",
            "--cache-disk",
            str(cache / "cache"),
            "--cache-disk-size",
            f"{DISK_MIB * 2 // 3}MiB",
        ),
    ]


def phase(name: str, said: dict[str, Any], pid: int) -> Phase:
    counts = Counter(said["counts"])
    return Phase(
        name,
        sum(count for what, count in counts.items() if what.endswith("answered")),
        sum(
            count
            for what, count in counts.items()
            if what.endswith(("failed", "no connection")) and "event" not in what
        ),
        counts["streams: event lost or repeated: failed"],
        counts["streams: torn"] + counts["streams: ended after a whole body"],
        counts["streams: events later than 100 ms"],
        counts["streams: events"],
        counts["longest answer, ms"],
        round(resident(pid), 1),
    )


def weather(storm: Storm, settings: Settings, runtime: Path) -> list[Phase]:
    """Have the gateway go through a storm."""
    places = {name: runtime / name for name in ("gateway", "origin", "clients")}
    for place in places.values():
        place.mkdir(parents=True)
    port, source = free_port(), free_port()
    harness = BENCHMARKS / "harness"
    set_clock(places["gateway"], "+0")
    load = [sys.executable, str(harness / "upgrade_load.py"), *map(str, (port, IDLE, STREAMS, SEGMENTS, 0))]
    phases = []
    with (
        small_disk(places["gateway"]) as cache,
        Process(
            [sys.executable, str(harness / "upgrade_origin.py"), str(source)],
            core=settings.load_core,
            runtime=places["origin"],
        ) as origin_process,
        Process(
            served(places["gateway"], f"{HOST}:{port}", f"http://{HOST}:{source}", cache),
            core=settings.gateway_core,
            runtime=places["gateway"],
        ) as process,
    ):
        origin_process.wait_until_listening(source)
        process.wait_until_listening(port)
        gateway = Gateway(process, origin_process, settings.gateway_core, places["gateway"])
        with Process(load, core=settings.load_core, runtime=places["clients"], interactive=True) as clients:
            message(clients)
            tell(clients, "begin")
            time.sleep(CALM_SECONDS)
            tell(clients, "storm")
            phases.append(phase("calm", message(clients), process.pid))
            with storm.within(gateway):
                time.sleep(STORM_SECONDS)
            tell(clients, "after")
            phases.append(phase("storm", message(clients), process.pid))
            time.sleep(AFTER_SECONDS)
            tell(clients, "end")
            phases.append(phase("after", message(clients), process.pid))
    return phases


def is_well(storm: Storm, phases: list[Phase]) -> bool:
    """Whether nothing was lost that the storm does not excuse."""
    calm, during, after = phases
    excused = storm.stalls
    return (
        not any(each.lost or each.ended for each in phases)
        and not calm.failed + after.failed
        and (excused or not during.failed)
        and after.answers > 0.9 * calm.answers * AFTER_SECONDS / CALM_SECONDS
    )


def show(name: str, phases: list[Phase], is_fine: bool) -> None:
    print(f"{name}: {'nothing lost' if is_fine else 'LOST SOMETHING'}")
    columns = list(asdict(phases[0]))
    print("".join(f"{column.replace('_', ' '):>13}" for column in columns))
    for each in phases:
        print("".join(f"{value!s:>13}" for value in asdict(each).values()))
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[storm.name for storm in STORMS])
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not Path(FAKE_TIME).exists():
        print(
            "storms.py: it takes root, and libfaketime (Debian: apt-get install libfaketime)", file=sys.stderr
        )
        return 2
    command.pin(FULL)
    kept, is_fine = {}, True
    for storm in STORMS:
        if arguments.only is None or storm.name in arguments.only:
            with tempfile.TemporaryDirectory() as directory:
                phases = weather(storm, FULL, Path(directory))
            well = is_well(storm, phases)
            show(storm.title, phases, well)
            kept[storm.name] = {
                "title": storm.title,
                "is_well": well,
                "phases": [asdict(each) for each in phases],
            }
            is_fine &= well
    if arguments.only is None:
        OUTPUT.write_text(json.dumps({"method": METHOD, "storms": kept}, indent=1) + "\n")
        print(f"saved: {OUTPUT}")
    return int(not is_fine)


if __name__ == "__main__":
    sys.exit(main())
