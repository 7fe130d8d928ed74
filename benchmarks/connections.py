"""What idle clients cost in memory: `connections.py [--clients 8000]`.

Three cases, each in a fresh gateway: clients that have had one answer and keep their connections, by the application's
lane and by the native one; and clients of a relayed event stream whose origin is quiet. Reported are the gateway's
resident bytes for each client, over those of the gateway when it had started, and how often its event loop was woken
while they idled. Results are in results/connections.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.request import urlopen

from harness import results
from harness.builds import BENCHMARKS
from harness.processes import HOST, Process, free_port
from harness.quiet_origin import origin
from harness.settings import FULL

CASES = {"app": "/ok", "native": "/vod/ok", "events": "/live/events", "events-app": "/events"}
OUTPUT = results.DIRECTORY / "connections.json"
IDLE_SECONDS = 5.0
# A program's own, its libraries', and one for each side of a relayed client.
SPARE_DESCRIPTORS = 1000


@dataclass(frozen=True)
class Row:
    """What one case cost."""

    case: str
    clients: int
    started_bytes: int
    bytes_per_client: float
    wakeups: int
    idle_seconds: float


async def client(port: int, path: str, turn: asyncio.Semaphore) -> asyncio.StreamWriter:
    async with turn:
        reader, writer = await asyncio.open_connection(HOST, port, limit=4096)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode(errors="replace"))
        await reader.readuntil(b"hello" if "events" in path else b"ok")
        return writer


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise LookupError("no Rss")


def wakeups(port: int) -> int:
    with urlopen(f"http://{HOST}:{port}/wakeups", timeout=10) as answer:
        return int(answer.read())


async def measure(case: str, count: int, upstream: int, runtime: Path) -> Row:
    folder = runtime / case
    folder.mkdir()
    port = free_port()
    program = str(BENCHMARKS / "peers" / "isolation_app.py")
    url = f"http://{HOST}:{upstream}"
    lane = "app" if case in {"app", "events-app"} else "native"
    where = ["--listen", f"{HOST}:{port}", "--events", url, "--segments", url, "--gateway", lane]
    with Process([sys.executable, program, *where], core=FULL.gateway_core, runtime=folder) as gateway:
        await asyncio.to_thread(gateway.wait_until_listening, port)
        await asyncio.to_thread(wakeups, port)
        started = resident(gateway.pid)
        turn = asyncio.Semaphore(64)
        clients = await asyncio.gather(*(client(port, CASES[case], turn) for _ in range(count)))
        before = await asyncio.to_thread(wakeups, port)
        await asyncio.sleep(IDLE_SECONDS)
        used = resident(gateway.pid) - started
        after = await asyncio.to_thread(wakeups, port)
        for writer in clients:
            writer.transport.abort()
    # The second question is a wake-up or two of its own.
    return Row(case, count, started, round(used / count, 1), after - before, IDLE_SECONDS)


async def run(cases: list[str], count: int, runtime: Path) -> list[Row]:
    server = await asyncio.start_server(origin, HOST, 0, backlog=4096)
    rows = []
    async with server:
        for case in cases:
            rows.append(await measure(case, count, server.sockets[0].getsockname()[1], runtime))
            print(asdict(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=8000, help="default: %(default)s")
    parser.add_argument("--case", action="append", choices=CASES, help="only these; may be repeated")
    arguments = parser.parse_args()
    needed = 2 * arguments.clients + SPARE_DESCRIPTORS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < needed:
        raise SystemExit(f"{needed} descriptors are needed, and the limit is {most} (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    os.sched_setaffinity(0, {FULL.load_core})
    with tempfile.TemporaryDirectory(prefix="penstock-connections-") as name:
        rows = asyncio.run(run(arguments.case or list(CASES), arguments.clients, Path(name)))
    print(f"{'case':12}{'clients':>8}{'bytes each':>12}{'wake-ups':>10}")
    for row in rows:
        print(f"{row.case:12}{row.clients:8}{row.bytes_per_client:12.0f}{row.wakeups:10}")
    if not arguments.case:
        results.publish(OUTPUT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
