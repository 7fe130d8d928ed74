"""How much load one core of `penstock load` makes: `load_capacity.py [--quick] [--workload NAME]`.

The generator, one thread, is pinned to one core, and a server that does as little as possible to the other:

- `hls`: 5,000 players of 3 Mbit/s, in segments of 2 s, from files that nginx sends with sendfile. Segments are not
  copied on either side. The players fetch 1.9 GB/s.
- `thin`: 19,500 players of live titles of 20 kbit/s, in segments of 4 s, from the embedded origin in a process of its
  own: a segment and the playlist that has it, again and again.
- `events`: 19,500 subscribers of one topic with 10 events a second, each of which is numbered and has its time. The
  server is peers/bare_fan_out, which sends each event to one socket after the other; this program publishes.

Figures are those of the seconds in which all sessions are there. `generator` is the processor time of its process as a
share of its core, by the scheduler's account; `core` is all that the core did, which on loopback has a part of the
server's sending in it: the reader sends acknowledgements, and they have the server's kernel send more. `late` is by how
much its timers were late at the 99th percentile, over the whole run. `faults` are lost, repeated or disordered events.

A server at the limit of its core makes less load than was asked for; then `rate` is below `wanted`, and what counts are
the costs of a unit: a gigabyte, a request, an event. Limits stand beside what was found. Rounds are interleaved; the
table has medians, and the smallest and the largest share of the generator's core. A round whose generator was held up,
or that other programs disturbed, is void, and is left out of the table.

Results are in results/load_capacity.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from harness import command, results
from harness.builds import AbsentError, rust
from harness.cpu import core_busy, read_tree
from harness.process_group import resident
from harness.processes import HOST, PINNED, Process, free_port
from harness.settings import FULL
from harness.title import title_server

OUTPUT = results.DIRECTORY / "load_capacity.json"
ROUNDS, QUICK_ROUNDS = 3, 1
# Open files besides the connections, of the generator and of the server.
SPARE = 200
# Seconds after the last arrival until all are in their rhythm, and that are measured then.
SETTLE, MEASURED = 5, 20
SEGMENT_SECONDS, BITRATE = 2, 3_000_000
EVENT_RATE, EVENT_SIZE = 10, 192
EMBEDDED = """
import json, sys
from dataclasses import asdict
from penstock import _native
from penstock.load.scenario import Origin
origin = _native.LoadOrigin(json.dumps(asdict(Origin(bitrates=(20000,)))))
print(origin.port, flush=True)
sys.stdin.read()
"""
PLAYERS = """
[hls.viewers]
path = "{path}"
titles = {titles}
alpha = 0
arrivals = {{ curve = "flash", rate = 0, crowd = {sessions}, at = 0, within = {within} }}
player = {{ profile = "fixed", buffer = {buffer} }}
watch = {{ median = 3600, sigma = 0 }}
"""
SUBSCRIBERS = """
[events.subscribers]
path = "/events/topic"
arrivals = {{ curve = "flash", rate = 0, crowd = {sessions}, at = 0, within = {within} }}
counter = "n"
clock = "t"
watch = {{ median = 3600, sigma = 0 }}

[void]
# A core may be used up by them, and then their timers are late.
cpu = 1.0
lateness = 10.0
"""
RUN = """
[run]
max_sessions = {sessions}
threads = 1
samples = 0
"""
PROGRESS = re.compile(r"\s*([\d.]+) s of \S+: (\d+) sessions, \d+ so far, (\d+) requests/s, ([\d.]+) Mbit/s")


@dataclass(frozen=True)
class Limits:
    """What a workload is measured against: shares of a core, and seconds."""

    generator: float
    late: float | None


@dataclass(frozen=True)
class Workload:
    """`rate` is what a session makes in a second: bytes of `hls`, requests of `thin`, events."""

    name: str
    sessions: int
    arrivals: int
    """In a second."""
    rate: float
    unit: str
    scenario: str
    serve: Callable[[Path], AbstractContextManager[int]]
    limits: Limits


@dataclass(frozen=True)
class Row:
    """One round: units and bytes by the second, shares of a core, microseconds of processor time for a unit."""

    workload: str
    round: int
    verdict: str
    reasons: tuple[str, ...]
    sessions: int
    active: int
    wanted: float
    rate: float
    requests: float
    bytes: float
    generator: float
    core: float
    server: float
    unit_us: float
    late: float
    due_p99: float | None
    errors: int
    received: int
    faults: int
    resident: int


def files(runtime: Path) -> AbstractContextManager[int]:
    """Serve a title by nginx."""
    return title_server(runtime, BITRATE * SEGMENT_SECONDS // 8, SEGMENT_SECONDS)


@contextmanager
def embedded(runtime: Path) -> Iterator[int]:
    """Serve live titles by the embedded origin, in a process of its own."""
    with Process(
        [sys.executable, "-c", EMBEDDED], core=FULL.gateway_core, runtime=runtime, interactive=True
    ) as server:
        yield int(server.stdout.readline())


def publish(port: int, stop: threading.Event) -> None:
    """Publish events at their times until told to stop; one that is late is followed by the next at once."""
    connection = http.client.HTTPConnection(HOST, port)
    begun, number = time.monotonic(), 0
    while not stop.wait(max(0.0, begun + number / EVENT_RATE - time.monotonic())):
        data = json.dumps({"n": number, "t": round(time.time(), 6), "text": ""})
        data = data[:-2] + "x" * (EVENT_SIZE - len(data)) + data[-2:]
        connection.request("POST", "/publish", body=data, headers={"Content-Type": "text/plain"})
        connection.getresponse().read()
        number += 1
    connection.close()


@contextmanager
def fan_out(runtime: Path) -> Iterator[int]:
    """Serve a topic that is published to."""
    port, stop = free_port(), threading.Event()
    program = rust("peers/bare_fan_out", "bare-fan-out")
    with Process([program, f"{HOST}:{port}"], core=FULL.gateway_core, runtime=runtime) as server:
        server.wait_until_listening(port)
        publisher = threading.Thread(target=publish, args=(port, stop))
        publisher.start()
        try:
            yield port
        finally:
            stop.set()
            publisher.join()


WORKLOADS = (
    Workload(
        "hls",
        5_000,
        125,
        BITRATE / 8,
        "GB",
        PLAYERS.replace("{path}", "/master.m3u8").replace("{titles}", "1").replace("{buffer}", "4"),
        files,
        Limits(0.70, 0.005),
    ),
    Workload(
        "thin",
        19_500,
        # Each fills its buffer when it comes: more at a time have the server at its limit, and then all wake together.
        300,
        # Of a segment of 4 s and its playlist.
        0.5,
        "request",
        PLAYERS.replace("{path}", "/live/{{title}}/master.m3u8")
        .replace("{titles}", "200")
        .replace("{buffer}", "30"),
        embedded,
        Limits(0.70, 0.005),
    ),
    Workload("events", 19_500, 1_000, EVENT_RATE, "event", SUBSCRIBERS, fan_out, Limits(1.0, None)),
)
BY_NAME = {each.name: each for each in WORKLOADS}


@dataclass(frozen=True)
class Reading:
    """Processor time so far, in seconds."""

    at: float
    generator: float
    core: float
    server: float


def read(pid: int) -> Reading:
    generator = read_tree(pid).scheduler
    return Reading(time.monotonic(), generator, core_busy(FULL.load_core), core_busy(FULL.gateway_core))


def measure(workload: Workload, sessions: int, number: int, runtime: Path) -> Row:
    """One round of a workload with so many sessions."""
    runtime.mkdir()
    within = max(1, round(sessions / workload.arrivals))
    scenario = runtime / f"{workload.name}.toml"
    scenario.write_text((workload.scenario + RUN).format(sessions=sessions, within=within, title="{title}"))
    duration = within + SETTLE + MEASURED + 1
    with workload.serve(runtime) as port:
        told = [
            "--target",
            f"http://{HOST}:{port}",
            "--duration",
            str(duration),
            "--out",
            str(runtime / "run"),
        ]
        generator = ["-m", "penstock", "load", "run", str(scenario), *told]
        with subprocess.Popen(
            [*PINNED, str(FULL.load_core), sys.executable, *generator],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            seen, readings, memory = [], [], 0.0
            for line in process.stderr:
                if not (found := PROGRESS.match(line)):
                    continue
                if within + SETTLE < float(found[1]) <= within + SETTLE + MEASURED:
                    readings.append(read(process.pid))
                    seen.append(found)
                    memory = resident(process.pid) * 2**20
    summary = json.loads((runtime / "run" / "summary.json").read_text())
    before, after = readings[0], readings[-1]
    passed = after.at - before.at
    # The first of the lines is about what was before the first reading.
    requests = fmean(float(found[3]) for found in seen[1:])
    size = fmean(float(found[4]) for found in seen[1:]) * 1e6 / 8
    events = summary.get("events", {})
    delivered = summary["requests"].get("event", {"bytes": 0, "count": 0})
    if delivered["count"]:
        # Bytes that were read are events.
        rate = size * delivered["count"] / delivered["bytes"]
    else:
        rate = size if workload.unit == "GB" else requests
    due = summary["requests"].get("segment", {"due": {"p99": None}})["due"]["p99"]
    used = (after.generator - before.generator) / passed
    return Row(
        workload.name,
        number,
        summary["verdict"],
        tuple(summary["reasons"]),
        sessions,
        int(seen[-1][2]),
        sessions * workload.rate,
        rate,
        requests,
        size,
        used,
        (after.core - before.core) / passed,
        (after.server - before.server) / passed,
        used / rate * (1e15 if workload.unit == "GB" else 1e6),
        summary["generator"]["lateness"].get("p99", 0.0),
        due,
        sum(error["count"] for error in summary["errors"]),
        events.get("received", 0),
        sum(events.get(name, 0) for name in ("missing", "repeats", "reordered", "unnumbered")),
        round(memory),
    )


def show(workload: Workload, rows: Sequence[Row]) -> None:
    """Print the medians of a workload."""

    def middle(name: str) -> float:
        return float(median(getattr(row, name) for row in rows))

    shares = [row.generator for row in rows]
    limits, scale = workload.limits, 1e9 if workload.unit == "GB" else 1.0
    late = f"{middle('late') * 1e3:.2f} ms late at p99" + (
        f" (limit {limits.late * 1e3:g})" if limits.late else ""
    )
    print(
        f"{workload.name}: {middle('active'):.0f} sessions, {middle('rate') / scale:.2f} {workload.unit}/s of "
        f"{rows[0].wanted / scale:.2f}, {middle('requests'):.0f} requests/s; generator {middle('generator'):.0%} "
        f"(limit {limits.generator:.0%}; {min(shares):.0%} to {max(shares):.0%}), its core {middle('core'):.0%}, the "
        f"server's {middle('server'):.0%}; {middle('unit_us') / (1e6 if scale > 1 else 1):.3f} "
        f"{'s' if scale > 1 else 'µs'} a {workload.unit}; {late}; {middle('resident') / 1e6:.0f} MB; "
        f"{sum(row.errors for row in rows)} errors"
        + (f", {sum(row.faults for row in rows)} faults" if workload.unit == "event" else "")
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one round with a tenth of the sessions, not kept"
    )
    parser.add_argument("--workload", action="append", choices=[*BY_NAME], help="only these; may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    parser.add_argument("--sessions", type=int, help="in place of a workload's own number")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else arguments.rounds
    chosen = [BY_NAME[name] for name in arguments.workload or BY_NAME]
    share = 10 if arguments.quick else 1
    counts = {each.name: arguments.sessions or each.sessions // share for each in chosen}
    most = max(counts.values())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + SPARE
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
    except (ValueError, OSError):
        parser.error(f"{most} sessions need {wanted} open files, and the limit is {hard}: run it as root")
    # What this process does, once a second, is with the server.
    os.sched_setaffinity(0, {FULL.gateway_core})
    rows: list[Row] = []
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-load-capacity-") as name:
        Path(name).chmod(0o711)
        for number in range(rounds):
            for each in chosen:
                try:
                    row = measure(each, counts[each.name], number, Path(name) / f"{each.name}-{number}")
                except AbsentError as error:
                    absent[each.name] = str(error)
                    continue
                rows.append(row)
                command.say("; ".join((f"{each.name}, round {number + 1}: {row.verdict}", *row.reasons)))
    for each in chosen:
        of_it = [row for row in rows if row.workload == each.name]
        if valid := [row for row in of_it if row.verdict != "void"]:
            show(each, valid)
        if void := len(of_it) - len(valid):
            print(f"{each.name}: {void} of {len(of_it)} rounds are void")
    for name, why in absent.items():
        print(f"absent: {name}: {why}")
    if not (arguments.quick or arguments.workload or arguments.sessions):
        results.publish(OUTPUT, rows, absent=absent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
