"""What streams feel while the interpreter is blocked: `isolation.py [--seconds 0.5] [--times 10]`.

200 event streams of 20 events a second and 100 segments of 64 KiB a second pass a gateway while a handler of its
application blocks the interpreter, in each of three ways. Reported is the latency of the events that were due within
the stalls, and of no others. The rows: plain aiohttp; penstock by the application's lane and by the native one; and the
native one while an unrelated process on the gateway's core burns in the same way, which is what the machine takes.

The gateway and the burning process are pinned to one core, origins and clients to the other. The latency runs from the
origin's clock to the client's. Results are in results/isolation.json. Exit status: 0, or 1 if a row could not be made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from harness import results
from harness.builds import BENCHMARKS, go
from harness.burn import WAYS
from harness.processes import HOST, PINNED, Process, free_port
from harness.segments import origin_command
from harness.settings import FULL

STREAMS = 200
EVENTS_PER_SECOND = 20
SEGMENTS_PER_SECOND = 100
SEGMENT = 64 * 1024
ROWS = ("aiohttp", "app", "native", "elsewhere")
OUTPUT = results.DIRECTORY / "isolation.json"


@dataclass(frozen=True)
class Row:
    """Latencies in milliseconds of the events due within the stalls."""

    gateway: str
    way: str
    events: int
    stalled_seconds: float
    p50: float
    p99: float
    worst: float
    outside_p99: float
    segments: int
    failures: int


@contextmanager
def origins(runtime: Path) -> Iterator[tuple[str, str]]:
    """The URLs of the origin of events and of that of segments."""
    root, logs = runtime / "root", runtime / "origin"
    root.mkdir()
    logs.mkdir()
    (root / "segment").write_bytes(os.urandom(SEGMENT))
    events, segments = free_port(), free_port()
    command = [go("load/sse", "./origin"), "-listen", f"{HOST}:{events}", "-rate", str(EVENTS_PER_SECOND)]
    static = origin_command(logs, segments, root, expires="off")
    with (
        Process(command, core=FULL.load_core, runtime=runtime) as one,
        Process(static, core=FULL.load_core, runtime=logs) as other,
    ):
        one.wait_until_listening(events)
        other.wait_until_listening(segments)
        yield f"http://{HOST}:{events}", f"http://{HOST}:{segments}"


def burn_in_gateway(port: int, way: str, seconds: float, times: int) -> list[tuple[int, int]]:
    stalls = []
    for _ in range(times):
        with urlopen(f"http://{HOST}:{port}/burn?way={way}&seconds={seconds}", timeout=30) as response:
            stalls.append(tuple(json.load(response)))
        time.sleep(seconds)
    return stalls


def burn_elsewhere(way: str, seconds: float, times: int) -> list[tuple[int, int]]:
    program = str(BENCHMARKS / "harness" / "burn.py")
    command = [*PINNED, str(FULL.gateway_core), sys.executable, program, way, str(seconds), str(times)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [tuple(json.loads(line)) for line in lines]


def percentile(values: list[int], share: float) -> float:
    return round(sorted(values)[int(share * (len(values) - 1))] / 1e6, 3) if values else 0.0


def measure(row: str, way: str, urls: tuple[str, str], arguments: argparse.Namespace, runtime: Path) -> Row:
    folder = runtime / f"{row}-{way}"
    folder.mkdir()
    port, journal = free_port(), folder / "journal"
    gateway = "native" if row == "elsewhere" else row
    program = str(BENCHMARKS / "peers" / "isolation_app.py")
    where = ["--listen", f"{HOST}:{port}", "--events", urls[0], "--segments", urls[1]]
    command = [sys.executable, program, *where, "--gateway", gateway]
    live, vod = ("/live/events", "/vod/segment") if gateway == "native" else ("/events", "/segment")
    base = f"http://{HOST}:{port}"
    load = [
        go("load/sse", "./client"),
        "-url",
        base + live,
        "-streams",
        str(STREAMS),
        "-journal",
        str(journal),
    ]
    load += ["-segment", base + vod, "-segment-rate", str(SEGMENTS_PER_SECOND)]
    logs = folder / "client"
    logs.mkdir()
    with Process(command, core=FULL.gateway_core, runtime=folder) as served:
        served.wait_until_listening(port)
        with Process(load, core=FULL.load_core, runtime=logs, interactive=True) as client:
            if not client.stdout.readline():
                raise RuntimeError(client.diagnosis())
            time.sleep(1)
            client.stdin.write("begin\n")
            client.stdin.flush()
            if row == "elsewhere":
                stalls = burn_elsewhere(way, arguments.seconds, arguments.times)
            else:
                stalls = burn_in_gateway(port, way, arguments.seconds, arguments.times)
            time.sleep(1)
            client.stdin.write("end\n")
            client.stdin.flush()
            report = json.loads(client.stdout.readline())
    inside, outside = [], []
    for line in journal.read_text().splitlines():
        sent, latency = map(int, line.split())
        due_in_stall = any(began <= sent < ended for began, ended in stalls)
        (inside if due_in_stall else outside).append(latency)
    stalled = sum(ended - began for began, ended in stalls) / 1e9
    due = STREAMS * EVENTS_PER_SECOND * stalled
    if len(inside) < 0.95 * due:
        report["failures"] += round(due - len(inside))
    return Row(
        row,
        way,
        len(inside),
        round(stalled, 2),
        percentile(inside, 0.5),
        percentile(inside, 0.99),
        percentile(inside, 1),
        percentile(outside, 0.99),
        report["segments"],
        report["failures"],
    )


def table(rows: list[Row]) -> str:
    lines = [
        f"{'gateway':12}{'way':8}{'p50 ms':>10}{'p99 ms':>10}{'worst':>10}{'else p99':>10}{'events':>9}{'failed':>8}"
    ]
    lines += [
        f"{row.gateway:12}{row.way:8}{row.p50:10.2f}{row.p99:10.2f}{row.worst:10.2f}{row.outside_p99:10.2f}"
        f"{row.events:9}{row.failures:8}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="of each stall (default: %(default)s)")
    parser.add_argument("--times", type=int, default=10, help="stalls of each way (default: %(default)s)")
    parser.add_argument("--gateway", action="append", choices=ROWS, help="only these; may be repeated")
    parser.add_argument("--way", action="append", choices=WAYS, help="only these; may be repeated")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    rows = []
    with tempfile.TemporaryDirectory(prefix="penstock-isolation-") as name:
        runtime = Path(name)
        with origins(runtime) as urls:
            for way in arguments.way or WAYS:
                for row in arguments.gateway or ROWS:
                    rows.append(measure(row, way, urls, arguments, runtime))
                    print(table(rows[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    print(table(rows))
    if not (arguments.gateway or arguments.way):
        results.publish(OUTPUT, rows, stall_seconds=arguments.seconds, stalls=arguments.times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
