"""How engine threads share what comes to one port: `sharing.py [--threads 4]`.

Two ways, each in a fresh gateway: one listener that hands each connection to the thread that has fewest, and a listener
for each thread with SO_REUSEPORT, among which the kernel chooses by a hash. Event streams are opened, half of them, at
random, are closed and opened again; then an origin sends every stream the same events. Reported are the CPU time of the
busiest engine thread over the mean of all, which is what bounds the whole, and the gateway's CPU time for a connection
that asks once and closes. Results are in results/sharing.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from harness import results
from harness.builds import BENCHMARKS
from harness.cpu import read_tree
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "sharing.json"
WAYS = ("handed", "reuse-port")
STREAMS = (40, 400)
EVENTS = 100
GAP_SECONDS = 0.02
SHORT = 2000
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """What one way gave, as medians of the rounds."""

    way: str
    threads: int
    streams: int
    busiest_over_mean: float
    worst_round: float
    us_per_connection: float


class Origin:
    """Event streams that all tick together."""

    def __init__(self) -> None:
        self._writers: set[asyncio.StreamWriter] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /ok "):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: hello\n\n")
            self._writers.add(writer)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def tick(self) -> None:
        for _ in range(EVENTS):
            for writer in self._writers:
                writer.write(b"data: another\n\n")
            await asyncio.sleep(GAP_SECONDS)


async def follow(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


class Client:
    """One event stream, read to nowhere."""

    def __init__(self, writer: asyncio.StreamWriter, reading: asyncio.Task[None]) -> None:
        self._writer = writer
        self._reading = reading

    @classmethod
    async def open(cls, port: int) -> Client:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(f"GET /live/events HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        await reader.readuntil(b"hello\n\n")
        return cls(writer, asyncio.create_task(follow(reader)))

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        await self._writer.wait_closed()


def engine_times(pid: int) -> dict[str, int]:
    """Return the CPU nanoseconds of each engine thread."""
    return {
        task.name: int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
        if (task / "comm").read_text().startswith("penstock-engine"[:15])
    }


async def ask_once(port: int) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(f"GET /live/ok HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


async def measure(way: str, threads: int, streams: int, seed: int, runtime: Path) -> Row:
    """Make one round."""
    choice = random.Random(seed)
    runtime.mkdir()
    origin, port = Origin(), free_port()
    server = await asyncio.start_server(origin.answer, HOST, 0, backlog=4096)
    upstream = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    program = str(BENCHMARKS / "peers" / "sharing_app.py")
    where = ["--listen", f"{HOST}:{port}", "--origin", upstream, "--threads", str(threads), "--sharing", way]
    with Process([sys.executable, program, *where], core=FULL.gateway_core, runtime=runtime) as gateway:
        await asyncio.to_thread(gateway.wait_until_listening, port)
        clients = [await Client.open(port) for _ in range(streams)]
        for place in choice.sample(range(streams), streams // 2):
            await clients[place].close()
            clients[place] = await Client.open(port)
        before = engine_times(gateway.pid)
        await origin.tick()
        spent = [after - before[task] for task, after in engine_times(gateway.pid).items()]
        for client in clients:
            await client.close()
        start = read_tree(gateway.pid).scheduler
        for _ in range(SHORT):
            await ask_once(port)
        cost = (read_tree(gateway.pid).scheduler - start) / SHORT * 1e6
    server.close()
    share = max(spent) / mean(spent)
    return Row(way, threads, streams, share, share, cost)


async def run(threads: int, runtime: Path) -> list[Row]:
    rounds: dict[tuple[str, int], list[Row]] = {(way, streams): [] for streams in STREAMS for way in WAYS}
    for number in range(ROUNDS):
        for (way, streams), made in rounds.items():
            made.append(await measure(way, threads, streams, number, runtime / f"{way}-{streams}-{number}"))
            print(asdict(made[-1]), file=sys.stderr, flush=True)
    return [
        Row(
            way,
            threads,
            streams,
            round(median(row.busiest_over_mean for row in made), 2),
            round(max(row.worst_round for row in made), 2),
            round(median(row.us_per_connection for row in made), 1),
        )
        for (way, streams), made in rounds.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=4, help="default: %(default)s")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    with tempfile.TemporaryDirectory(prefix="penstock-sharing-") as name:
        rows = asyncio.run(run(arguments.threads, Path(name)))
    print(f"{'way':12}{'threads':>8}{'streams':>8}{'busiest/mean':>14}{'worst':>8}{'us a connection':>17}")
    for row in rows:
        print(
            f"{row.way:12}{row.threads:8}{row.streams:8}{row.busiest_over_mean:14.2f}{row.worst_round:8.2f}"
            f"{row.us_per_connection:17.1f}"
        )
    results.publish(OUTPUT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
