"""A working set that is on disk, beside event streams: `disk.py [--objects 5000] [--directory DIR]`.

A gateway with 1 GiB of cache in memory and the rest on disk is given objects of 2 MiB, is stopped, and is started again.
Then event streams are read through it four times: alone; while clients take a few objects out of memory, as fast as
they can; while as many clients take objects at random out of all, with the page cache dropped once a second; and so at
the same rate as the second of these. Each body is compared with what the origin has. Reported are what the clients took,
what was read from disk, what the origin was asked, and how long events took from the origin to their reader. The
directory is removed at the end; it takes 2 MiB an object. Results are in results/disk.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness import results
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "disk.json"
SIZE = 2 << 20
HOT = 64
CLIENTS = 8
STREAMS = 20
GAP_SECONDS = 0.01
SECONDS = 15.0
MEMORY = "1GiB"


@dataclass(frozen=True)
class Row:
    """What one phase gave."""

    phase: str
    mb_per_second: float
    bodies: int
    read_from_disk_mb: float
    origin_requests: int
    events: int
    event_p50_ms: float
    event_p99_ms: float
    event_max_ms: float


def body(number: int) -> bytes:
    return struct.pack("<Q", number) * (SIZE // 8)


class Origin:
    """Objects that are their number, and event streams that say when each event was sent."""

    def __init__(self) -> None:
        self.requests = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
                if target == "/count":
                    said = b"Content-Length: 10\r\n\r\n%010d" % self.requests
                    writer.write(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n" + said)
                elif target == "/events":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                    while not writer.is_closing():
                        writer.write(b"data: %d\n\n" % time.monotonic_ns())
                        await asyncio.sleep(GAP_SECONDS)
                    return
                else:
                    self.requests += 1
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\nContent-Length: %d\r\n\r\n"
                        % SIZE
                    )
                    writer.write(body(int(target[1:])))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def go_first() -> None:
    """Before the clients of the load, which compare what they get on the same core."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        print("events are measured without SCHED_FIFO: what the clients do delays them too", file=sys.stderr)


async def serve_origin(port: int) -> None:
    server = await asyncio.start_server(Origin().answer, HOST, port, backlog=1024)
    await server.serve_forever()


async def read_events(port: int, seconds: float) -> None:
    """Print how many milliseconds each event took."""
    late: list[float] = []

    async def follow() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(f"GET /events HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        while True:
            line = await reader.readline()
            if line.startswith(b"data: "):
                late.append((time.monotonic_ns() - int(line[6:])) / 1e6)

    streams = [asyncio.create_task(follow()) for _ in range(STREAMS)]
    await asyncio.sleep(seconds)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    print(json.dumps(late))


class Load:
    """Clients that take objects and compare them, until they are told to stop."""

    def __init__(self, port: int, numbers: list[int], rate: float | None) -> None:
        self.bodies = 0
        self.wrong: list[str] = []
        self._port, self._numbers, self._rate = port, numbers, rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._take, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _take(self, seed: int) -> None:
        choose = random.Random(seed)
        begun, taken = time.monotonic(), 0
        with Taker(self._port) as taker:
            while not self._stop.is_set():
                number = choose.choice(self._numbers)
                if not taker.take(number):
                    self.wrong.append(f"{number} is not what the origin has")
                    return
                self.bodies += 1
                taken += 1
                if self._rate is not None:
                    self._stop.wait(max(0.0, begun + taken * CLIENTS / self._rate - time.monotonic()))


class Taker:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._buffer = bytearray(SIZE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def take(self, number: int) -> bool:
        """Whether the object came, and is itself."""
        self._socket.sendall(f"GET /{number} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._socket.recv(1024)
        filled = len(rest := head.partition(b"\r\n\r\n")[2])
        self._buffer[:filled] = rest
        view = memoryview(self._buffer)
        while filled < SIZE:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                return False
            filled += count
        return self._buffer == body(number)


def requests_of(origin: int) -> int:
    with socket.create_connection((HOST, origin)) as connection:
        connection.sendall(b"GET /count HTTP/1.1\r\n\r\n")
        return int(connection.recv(4096).rpartition(b"\r\n\r\n")[2])


def read_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def drop_pages(directory: Path) -> None:
    """Of the directory's files alone: the machine may have other work."""
    for path in directory.glob("??/*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


class Dropping:
    """Drops the pages of a directory once a second."""

    def __init__(self, directory: Path) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(directory,))

    def _run(self, directory: Path) -> None:
        while not self._stop.wait(1.0):
            drop_pages(directory)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def measure(phase: str, gateway: Process, ports: tuple[int, int], load: Load | None) -> Row:
    port, origin = ports
    asked, read, taken = requests_of(origin), read_bytes(gateway.pid), load.bodies if load else 0
    command = [sys.executable, __file__, "--read-events", str(port)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    late = sorted(json.loads(printed))
    bodies = (load.bodies if load else 0) - taken
    assert load is None or not load.wrong, load.wrong
    row = Row(
        phase,
        round(bodies * SIZE / SECONDS / 1e6, 1),
        bodies,
        round((read_bytes(gateway.pid) - read) / 1e6, 1),
        requests_of(origin) - asked,
        len(late),
        *(round(late[int((len(late) - 1) * share)], 3) for share in (0.5, 0.99, 1.0)),
    )
    print(row, file=sys.stderr, flush=True)
    return row


def run(objects: int, directory: Path, runtime: Path) -> list[Row]:
    origin_port, port = free_port(), free_port()
    (runtime / "origin").mkdir()
    origin = Process(
        [sys.executable, __file__, "--serve-origin", str(origin_port)],
        core=FULL.load_core,
        runtime=runtime / "origin",
    )
    size = objects * (SIZE + (1 << 16)) + (64 << 20)
    command = [
        *(sys.executable, "-m", "penstock", "serve", "--origin", f"http://{HOST}:{origin_port}"),
        *("--listen", f"{HOST}:{port}", "--memory", "3GiB", "--cache", MEMORY, "--no-access-log"),
        *("--cache-disk", str(directory), "--cache-disk-size", str(size), "--threads", "1"),
    ]
    ports = (port, origin_port)
    with origin:
        origin.wait_until_listening(origin_port)
        (runtime / "first").mkdir()
        with Process(command, core=FULL.gateway_core, runtime=runtime / "first") as gateway:
            gateway.wait_until_listening(port)
            taker = Taker(port)
            begun = time.monotonic()
            for number in range(objects):
                assert taker.take(number), number
            seconds = time.monotonic() - begun
            print(f"filled in {seconds:.0f} s, {objects * SIZE / seconds / 1e6:.0f} MB/s", file=sys.stderr)
            gateway.child.terminate()
            gateway.child.wait(30)
        os.sync()
        drop_pages(directory)
        (runtime / "second").mkdir()
        with Process(command, core=FULL.gateway_core, runtime=runtime / "second") as gateway:
            gateway.wait_until_listening(port)
            kept = len(list(directory.glob("??/*")))
            print(f"{kept} of {objects} objects are on disk", file=sys.stderr)
            time.sleep(2.0)
            rows = [measure("event streams alone", gateway, ports, None)]
            hot, everything = list(range(HOT)), list(range(objects))
            with Load(port, hot, None) as load:
                rows.append(measure("from memory, at full speed", gateway, ports, load))
            with Dropping(directory), Load(port, everything, None) as load:
                rows.append(measure("from disk, at full speed", gateway, ports, load))
            rate = rows[-1].bodies / SECONDS / 2
            with Load(port, hot, rate) as load:
                rows.append(measure("from memory, at half the disk's rate", gateway, ports, load))
            with Dropping(directory), Load(port, everything, rate) as load:
                rows.append(measure("from disk, at half its rate", gateway, ports, load))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=5000, help="of 2 MiB; default: %(default)s")
    parser.add_argument("--directory", type=Path, help="on the disk to be measured; default: a temporary one")
    parser.add_argument("--serve-origin", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--read-events", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_origin is not None:
        go_first()
        asyncio.run(serve_origin(arguments.serve_origin))
        return 0
    if arguments.read_events is not None:
        go_first()
        asyncio.run(read_events(arguments.read_events, SECONDS))
        return 0
    os.sched_setaffinity(0, {FULL.load_core})
    with tempfile.TemporaryDirectory(prefix="penstock-disk-", dir=arguments.directory) as name:
        directory = Path(name) / "cache"
        try:
            rows = run(arguments.objects, directory, Path(name))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    print(f"{'':40}{'MB/s':>8}{'read MB':>10}{'origin':>8}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}")
    for row in rows:
        print(
            f"{row.phase:40}{row.mb_per_second:8.0f}{row.read_from_disk_mb:10.0f}{row.origin_requests:8}"
            f"{row.event_p50_ms:8.2f}{row.event_p99_ms:8.2f}{row.event_max_ms:8.2f}"
        )
    results.publish(OUTPUT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
