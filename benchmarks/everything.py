"""Half an hour with everything on: README.md beside this file.

    everything.py                        thirty minutes
    everything.py --minutes 2

`penstock load` has viewers, clients of tokens and subscribers at a gateway with a cache, a hub, a hook and two workers.
Meanwhile its origin fails, cuts off and stalls a share of the segments, and once a minute a worker is killed, the origin
stands still, or the gateway is upgraded. A run without options is kept in results/everything.json.
Exit status: 0, or 1 if something was lost that must not be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Any

from harness import command, results
from harness.builds import BENCHMARKS
from harness.process_group import members, resident
from harness.processes import HOST, Process, free_port
from harness.settings import FULL, Settings

OUTPUT = results.DIRECTORY / "everything.json"
MINUTES, SEED = 30, 7
TOPICS, PUBLISH_SECONDS = 5, 0.1
BETWEEN_SECONDS, STANDS_SECONDS, LOOK_SECONDS = 60.0, 2.0, 5.0
MOST_GROWTH = 1.1
SERVES = re.compile(r"upgrade: process (\d+) serves")
READY = re.compile(r"worker \d+ \(process (\d+)\) is ready")
USED = re.compile(r"^penstock_pool_used_bytes (\S+)$", re.MULTILINE)
SCENARIO = """
[hls.viewers]
path = "/vod/{title}/master.m3u8"
titles = 100
arrivals = { curve = "day", rate = 0.5, to = 2, period = 600 }
player = { profile = "hls.js" }
watch = { median = 60, sigma = 1 }

[tokens.readers]
arrivals = { curve = "steady", rate = 5 }
watch = { median = 2, sigma = 0.5 }
leave = 0.1

[events.subscribers]
path = "/topics/{title}"
titles = 5
counter = "n"
clock = "t"
arrivals = { curve = "steady", rate = 2 }
watch = { median = 60, sigma = 1 }

[void]
others = 1.0
"""
METHOD = (
    "The gateway, with two workers, is on one core; origin, publisher and `penstock load` share the other. Of the "
    "requests for segments that reach the origin 1 % are answered with 503, 0.5 % cut off, and 0.5 % stand still for "
    "2 s. Once a minute, in turn: a worker is killed, the origin stands still for 2 s, the gateway is upgraded. Memory "
    "is what all of the gateway's processes have resident, every 5 s: means of the middle and of the last third."
)


@dataclass(frozen=True)
class Outcome:
    """What has come of it."""

    minutes: float
    summary: dict[str, Any]
    happened: dict[str, int]
    refused: int
    """Events whose publication was not answered with 200: they may be missing."""
    middle_mib: float
    last_mib: float
    used_at_rest: float
    """Bytes of the pool besides the cache and the history, when all clients have gone."""

    def complaints(self) -> list[str]:
        """What was lost that must not be."""
        events = self.summary["events"]
        found = [
            f"events: {events[name]} {name}" for name in ("gaps", "repeats", "reordered") if events[name]
        ]
        found += [
            f"{each['class']}: {each['count']} failed: {each['cause']}"
            for each in self.summary["errors"]
            if each["class"] != "segment"
        ]
        if self.last_mib > MOST_GROWTH * self.middle_mib:
            found.append(f"memory grew from {self.middle_mib:.0f} to {self.last_mib:.0f} MiB")
        return found


@dataclass
class Gateway:
    """The one that serves, after upgrades too."""

    process: Process
    log: Path
    origin: Process

    def newest(self, pattern: re.Pattern[str]) -> int:
        found = pattern.findall(self.log.read_text(errors="replace"))
        return int(found[-1]) if found else self.process.pid

    def kill_a_worker(self) -> None:
        os.kill(self.newest(READY), signal.SIGKILL)

    def stop_the_origin(self) -> None:
        os.kill(self.origin.pid, signal.SIGSTOP)
        time.sleep(STANDS_SECONDS)
        os.kill(self.origin.pid, signal.SIGCONT)

    def upgrade(self) -> None:
        os.kill(self.newest(SERVES), signal.SIGUSR2)


class Publisher(threading.Thread):
    """Publishes numbered events to each topic, one after the other."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.over = threading.Event()
        self.refused = 0

    def run(self) -> None:
        connection = HTTPConnection(HOST, self._port, timeout=30)
        for number in count():
            for topic in range(TOPICS):
                body = json.dumps({"n": number, "t": time.time(), "pad": "x" * 100})
                try:
                    connection.request("POST", f"/publish/{topic}", body)
                    answer = connection.getresponse()
                    answer.read()
                    self.refused += answer.status != 200
                except (OSError, HTTPException):
                    self.refused += 1
                    connection.close()
            if self.over.wait(PUBLISH_SECONDS):
                return


class Weather(threading.Thread):
    """Has something happen to `gateway` once in a while, and looks at its memory."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(daemon=True)
        acts: list[Callable[[], None]] = [gateway.kill_a_worker, gateway.stop_the_origin, gateway.upgrade]
        self._gateway, self._acts = gateway, acts
        self.over = threading.Event()
        self.happened = {act.__name__: 0 for act in acts}
        self.memory: list[float] = []

    def run(self) -> None:
        begun = time.monotonic()
        for number in count(1):
            while (left := begun + number * BETWEEN_SECONDS - time.monotonic()) > 0:
                self.memory.append(sum(map(resident, members(self._gateway.process.pid))))
                if self.over.wait(min(left, LOOK_SECONDS)):
                    return
            act = self._acts[number % len(self._acts)]
            act()
            self.happened[act.__name__] += 1


def used(port: int) -> float:
    """Bytes of the pool that are held, once two looks in a row say so."""
    before = -1.0
    for _ in range(30):
        connection = HTTPConnection(HOST, port, timeout=10)
        connection.request("GET", "/metrics")
        found = USED.search(connection.getresponse().read().decode())
        assert found is not None, "the gateway has no figure of its pool"
        now = float(found[1])
        if now == before:
            return now
        before = now
        time.sleep(1)
    return before


def served(origin: int, port: int, status: int) -> list[str]:
    return [
        *("env", f"EVERYTHING_ORIGIN=http://{HOST}:{origin}", f"PYTHONPATH={BENCHMARKS / 'peers'}"),
        *(
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "everything_app:app",
            "--workers",
            "2",
            "--threads",
            "1",
        ),
        *("--listen", f"{HOST}:{port}", "--status-listen", f"{HOST}:{status}", "--no-access-log"),
        *("--memory", "256MiB", "--cache", "96MiB", "--drain", "20"),
    ]


def measure(minutes: float, settings: Settings, runtime: Path) -> Outcome:
    places = {name: runtime / name for name in ("gateway", "origin", "load")}
    for place in places.values():
        place.mkdir()
    scenario, out = runtime / "scenario.toml", runtime / "run"
    scenario.write_text(SCENARIO)
    source, port, status = free_port(), free_port(), free_port()
    origin = [sys.executable, str(BENCHMARKS / "peers" / "everything_origin.py"), str(source), str(SEED)]
    load = [
        *(
            sys.executable,
            "-m",
            "penstock",
            "load",
            "run",
            str(scenario),
            "--target",
            f"http://{HOST}:{port}",
        ),
        *("--duration", str(minutes * 60), "--seed", str(SEED), "--out", str(out)),
    ]
    with (
        Process(origin, core=settings.load_core, runtime=places["origin"]) as origin_process,
        Process(
            served(source, port, status), core=settings.gateway_core, runtime=places["gateway"]
        ) as process,
    ):
        origin_process.wait_until_listening(source)
        process.wait_until_listening(port)
        publisher = Publisher(port)
        weather = Weather(Gateway(process, places["gateway"] / "stderr", origin_process))
        publisher.start()
        weather.start()
        with Process(load, core=settings.load_core, runtime=places["load"]) as clients:
            clients.child.wait()
            said = clients.diagnosis()
        for thread in (publisher, weather):
            thread.over.set()
            thread.join()
        at_rest = used(status)
    if not (out / "summary.json").exists():
        raise SystemExit(f"penstock load: {said}")
    third = len(weather.memory) // 3
    return Outcome(
        minutes,
        json.loads((out / "summary.json").read_text()),
        weather.happened,
        publisher.refused,
        mean(weather.memory[third : 2 * third] or [0]),
        mean(weather.memory[2 * third :]),
        at_rest,
    )


def show(outcome: Outcome) -> bool:
    """Whether nothing was lost."""
    summary = outcome.summary
    print(f"{outcome.minutes:g} minutes: {outcome.happened}; verdict of the generator: {summary['verdict']}")
    print(f"sessions: {summary['sessions']}")
    print(f"viewers: {summary['qoe']}")
    print(f"events: {summary['events']}; publications refused: {outcome.refused}")
    for each in summary["errors"]:
        print(f"{each['class']}: {each['count']} failed: {each['cause']}")
    print(f"memory: {outcome.middle_mib:.0f} MiB in the middle third, {outcome.last_mib:.0f} MiB in the last")
    print(f"pool: {outcome.used_at_rest / 2**20:.1f} MiB are held at rest")
    complaints = outcome.complaints()
    for complaint in complaints:
        print(f"LOST: {complaint}")
    return not complaints


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=MINUTES)
    arguments = parser.parse_args()
    command.pin(FULL)
    with tempfile.TemporaryDirectory() as directory:
        outcome = measure(arguments.minutes, FULL, Path(directory))
    is_well = show(outcome)
    if arguments.minutes == MINUTES:
        OUTPUT.write_text(json.dumps({"method": METHOD, **asdict(outcome)}, indent=1) + "\n")
        print(f"saved: {OUTPUT}")
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(main())
