"""Workers that are killed and replaced, under event streams and a mixed load: what streams and requests notice of it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from subprocess import DEVNULL, run

from harness import cpu
from harness.builds import BENCHMARKS, go
from harness.load import message, tell
from harness.processes import HOST, Process, free_port
from harness.segments import origin_command
from harness.settings import Settings

STREAMS = 200
EVENTS_PER_SECOND = 10
PERIOD_SECONDS = 5.0
SEGMENT = 64 * 1024
PHASES = ("calm", "beside", "fire")
SAFE = ("handler", "relayed", "stored")
"""The kinds of the mixed load that may be repeated."""


@dataclass(frozen=True)
class Row:
    """What one phase gave. Times of events run from the origin's write to the client's read."""

    phase: str
    seconds: float
    kills: int
    reloads: int
    streams_broken: int
    first_broken: str
    events: int
    events_due: int
    event_p50_ms: float
    event_p99_ms: float
    event_p999_ms: float
    event_max_ms: float
    gap_p999_ms: float
    gap_max_ms: float
    requests: dict[str, dict[str, object]]
    gateway_cpu_seconds: float
    beside_cpu_seconds: float
    other_cpu: float

    def failed(self, *kinds: str) -> int:
        return sum(int(str(self.requests[kind]["failures"])) for kind in kinds)


@dataclass(frozen=True)
class Origins:
    """URLs, and the file that one of them serves."""

    events: str
    segments: str
    segment: Path

    def serve(self, app: str, port: int, *options: str) -> list[str]:
        """The command that serves an application of peers/workers_app.py."""
        return [
            *("env", f"--chdir={BENCHMARKS / 'peers'}", f"EVENTS={self.events}", f"SEGMENTS={self.segments}"),
            *(sys.executable, "-m", "penstock", "serve", f"workers_app:{app}"),
            *("--listen", f"{HOST}:{port}", "--no-access-log", *options),
        ]


def go_first() -> list[str]:
    """What starts a program that is not to wait for the rest of the load, on whose core it is."""
    first = ["chrt", "--fifo", "1"]
    if which("chrt") and run([*first, "true"], check=False, stderr=DEVNULL).returncode == 0:
        return first
    print("without SCHED_FIFO: what the load does delays events as well", file=sys.stderr)
    return []


@contextmanager
def origins(settings: Settings, runtime: Path) -> Iterator[Origins]:
    """Event streams, and a segment that may be stored."""
    root, of_events, of_segments = (runtime / name for name in ("root", "events", "segments"))
    for directory in (root, of_events, of_segments):
        directory.mkdir()
    segment = root / "segment"
    segment.write_bytes(os.urandom(SEGMENT))
    # By the path that the application's lane relays, too.
    (root / "relayed").mkdir()
    (root / "relayed" / "segment").symlink_to(segment)
    ports = free_port(), free_port()
    program = [go("load/sse", "./origin"), "-listen", f"{HOST}:{ports[0]}", "-rate", str(EVENTS_PER_SECOND)]
    static = origin_command(of_segments, ports[1], root, expires="1h")
    with (
        Process([*go_first(), *program], core=settings.load_core, runtime=of_events) as events,
        Process(static, core=settings.load_core, runtime=of_segments) as segments,
    ):
        events.wait_until_listening(ports[0])
        segments.wait_until_listening(ports[1])
        yield Origins(f"http://{HOST}:{ports[0]}", f"http://{HOST}:{ports[1]}", segment)


class Workers:
    """`penstock serve --workers 2`, and the fire that it is under."""

    def __init__(self, origins: Origins, settings: Settings, runtime: Path) -> None:
        runtime.mkdir()
        self.port = free_port()
        self._log = runtime / "stderr"
        command = origins.serve("fire", self.port, "--workers", "2", "--cache", "64MiB", "--threads", "1")
        self.process = Process(
            [*command, "--connections", "4096"], core=settings.gateway_core, runtime=runtime, together=True
        )

    def kill(self, turn: int) -> None:
        """Kill one of the two that serve, each in its turn."""
        log = self._log.read_text()
        ended = set(re.findall(r"process (\d+)\) (?:was killed|ended)", log))
        serving = [pid for pid in re.findall(r"process (\d+)\) is ready", log) if pid not in ended][-2:]
        if not serving:
            raise RuntimeError(f"no worker serves: {self.process.diagnosis()}")
        os.kill(int(serving[turn % len(serving)]), signal.SIGKILL)

    def reload(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)

    def count(self) -> tuple[int, int]:
        """How many workers have been killed, and how many generations have served, by its own account."""
        log = self._log.read_text()
        return log.count("was killed by SIGKILL"), log.count(" serves\n")


def burn(workers: Workers, seconds: float) -> None:
    """A reload every five seconds, and a kill in the middle between two."""
    begun = time.monotonic()
    for turn in range(round(seconds / PERIOD_SECONDS)):
        for act, share in ((workers.reload, 0.0), (lambda turn=turn: workers.kill(turn), 0.5)):
            time.sleep(max(0.0, begun + (turn + share) * PERIOD_SECONDS - time.monotonic()))
            act()
    time.sleep(max(0.0, begun + seconds - time.monotonic()))


def used(pid: int) -> float:
    """Seconds of CPU time of a process and of all its children, ended ones included."""
    while True:
        try:
            return cpu.read_tree(pid).stat
        except (FileNotFoundError, ProcessLookupError):
            if not Path(f"/proc/{pid}").exists():
                raise
            # One of the workers has ended meanwhile.


def strangers(settings: Settings) -> float:
    busy = sum(cpu.core_busy(core) for core in (settings.gateway_core, settings.load_core))
    return busy - used(os.getpid())


def accounts(gateway: Workers, beside: Workers, settings: Settings) -> tuple[float, float, float]:
    """CPU time so far: of the one, of the other, and of programs outside the benchmark."""
    return used(gateway.process.pid), used(beside.process.pid), strangers(settings)


def measure(
    phase: str,
    gateway: Workers,
    beside: Workers,
    load: tuple[Origins, Settings, Path],
    seconds: float,
) -> Row:
    """Put the load on `gateway` while nothing, `beside` or itself is under fire."""
    origins, settings, runtime = load
    runtime.mkdir()
    url = f"http://{HOST}:{gateway.port}/events"
    reader = [*go_first(), go("load/sse", "./client"), "-url", url, "-streams", str(STREAMS)]
    mixed = [
        sys.executable,
        str(BENCHMARKS / "harness" / "mixed.py"),
        str(gateway.port),
        str(origins.segment),
    ]
    (runtime / "events").mkdir()
    (runtime / "mixed").mkdir()
    with (
        Process(reader, core=settings.load_core, runtime=runtime / "events", interactive=True) as events,
        Process(mixed, core=settings.load_core, runtime=runtime / "mixed", interactive=True) as requests,
    ):
        programs = (events, requests)
        for program in programs:
            message(program)
        before, told = accounts(gateway, beside, settings), gateway.count()
        for program in programs:
            tell(program, "begin")
        begun = time.monotonic()
        if phase == "calm":
            time.sleep(seconds)
        else:
            burn(gateway if phase == "fire" else beside, seconds)
        took = time.monotonic() - begun
        after, tells = accounts(gateway, beside, settings), gateway.count()
        for program in programs:
            tell(program, "end")
        seen, asked = (message(program) for program in programs)
    cpu_gateway, cpu_beside, other = (late - early for late, early in zip(after, before, strict=True))
    milliseconds = (
        round(seen[name] / 1e3, 2)
        for name in ("p50_us", "p99_us", "p999_us", "max_us", "gap_p999_us", "gap_max_us")
    )
    row = Row(
        phase,
        round(took, 2),
        *(late - early for late, early in zip(tells, told, strict=True)),
        seen["failures"],
        seen["first_error"],
        seen["events"],
        round(STREAMS * EVENTS_PER_SECOND * seen["seconds"]),
        *milliseconds,
        asked,
        round(cpu_gateway, 2),
        round(cpu_beside, 2),
        round(max(0.0, other) / (2 * took), 3),
    )
    print(json.dumps(row.__dict__), file=sys.stderr, flush=True)
    return row
