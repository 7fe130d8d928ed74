"""A crowd at a cold segment: `crowd.py [--clients 1000]`, for penstock, nginx, Varnish and a limit.

A segment of 2 MiB whose origin takes 4 s to send it, evenly, is in no cache, and 1,000 clients ask for it. Two cases:
`at once`, while the origin has not begun to answer, and `spread` evenly over the time that it takes. The one that
asked first has had the origin asked; the others follow. The limit is a program that knows no HTTP and writes what
comes to all who asked, in turn (peers/fan_out.py): what the kernel takes for it.

Reported are the requests that reached the origin; when the first byte of the body came to the followers (after it had
come to any client, and they had asked); when the last came (after the origin had sent it, and they had asked); and by
how much the resident memory of the cache's processes had grown at most, over what they took when all clients were
connected and had had an answer. `load` is the machine's load average before; with one that is above the number of cores
the times say little of the caches. Printed are the medians of the rounds. A client whose bytes are not those of the
origin, all of them, has failed.

The cache is pinned to one core, origin and clients to the other. First bytes are timed by the kernel as they arrive at
the client's socket (SO_TIMESTAMPNS), so that it does not matter when the client reads them. Where the read that finds
them finds later ones too, the kernel tells the time of the last: figures may be too high, and are never too low.

Results are in results/crowd.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median

from harness import results
from harness.builds import AbsentError
from harness.caches import COMMANDS, version
from harness.cpu import descendants, read_tree
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

SIZE = 2 * 1024 * 1024
SEND_SECONDS = 4.0
PIECES = 128
# In it all of them have asked. Less than the five seconds, with the sending, after which nginx's lock gives up.
THINK_SECONDS = 0.5
SAMPLE_SECONDS = 0.05
LIMIT_SECONDS = 60.0
CACHES = ("limit", "penstock", "nginx", "varnish")
CASES = ("at once", "spread")
OUTPUT = results.DIRECTORY / "crowd.json"
# Not in Python's socket: SO_TIMESTAMPNS of Linux, whose message has its number.
SO_TIMESTAMPNS = 35
# Until the first byte of the body only so much is read at once.
HEAD_READ = 1024
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Row:
    """What one crowd got from one cache. Times are in milliseconds, memory in MiB."""

    cache: str
    case: str
    round: int
    clients: int
    origin_requests: int
    first_byte_median: float
    first_byte_p99: float
    first_byte_maximum: float
    last_byte_median: float
    last_byte_maximum: float
    resident_growth: float
    cpu_seconds: float
    load: float
    failed: int


class Origin:
    """Sends the segment slowly, and what else is asked for at once."""

    def __init__(self) -> None:
        self.body = os.urandom(SIZE)
        self.requests = 0
        self.begun = threading.Event()
        self.ended = 0
        self._listener = socket.create_server((HOST, 0), backlog=4096)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as reader:
            while line := reader.readline():
                while reader.readline().strip():
                    pass
                if not line.startswith(b"GET /segment"):
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok"
                    )
                    continue
                self.requests += 1
                self.begun.set()
                time.sleep(THINK_SECONDS)
                self._send(connection)

    def _send(self, connection: socket.socket) -> None:
        head = f"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {SIZE}\r\n\r\n".encode()
        step = SIZE // PIECES
        began = time.monotonic()
        for number in range(PIECES):
            due = began + SEND_SECONDS * number / (PIECES - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            piece = self.body[number * step : (number + 1) * step]
            if number == PIECES - 1:
                self.ended = time.time_ns()
            connection.sendall(head + piece if number == 0 else piece)


@dataclass
class Client:
    """One connection, and when what came to it."""

    connection: socket.socket
    asked: int = 0
    first: int = 0
    last: int = 0
    received: int = 0
    head: bytes = b""
    failed: bool = False

    def ask(self, path: str) -> None:
        self.asked = time.time_ns()
        self.connection.sendall(f"GET {path} HTTP/1.1\r\nHost: origin.example\r\n\r\n".encode())

    def warm(self) -> None:
        self.ask("/warm")
        answer = b""
        while not answer.endswith(b"\r\n\r\nok"):
            piece = self.connection.recv(HEAD_READ)
            if not piece:
                raise RuntimeError(f"a first answer was {answer!r}")
            answer += piece
        self.connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.connection.setblocking(False)

    def read(self, body: bytes) -> bool:
        """Takes what is there, and says whether that was all."""
        try:
            if not self.first:
                data, stamps, _, _ = self.connection.recvmsg(HEAD_READ, 64)
                came = data and stamp(stamps)
            else:
                data = self.connection.recv(SIZE)
                came = time.time_ns()
        except BlockingIOError:
            return False
        except OSError:
            data, came = b"", 0
        if not data:
            self.failed = True
            return True
        if not self.first:
            head, end, data = (self.head + data).partition(b"\r\n\r\n")
            if not (end and data):
                self.head = head + end
                return False
            self.first = came
            self.failed = not head.startswith(b"HTTP/1.1 200")
        place = self.received
        self.received += len(data)
        self.failed |= data != body[place : self.received]
        if self.received >= SIZE:
            self.last = came
            return True
        return self.failed


def stamp(messages: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in messages:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("qq", data)
            return int(seconds * 1_000_000_000 + nanoseconds)
    raise LookupError("the kernel told no time")


def resident(pid: int) -> int:
    """Of the whole tree. What processes share is counted for each: it does not grow."""
    total = 0
    for process in descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    return total


class Growth:
    """The most that a process tree has had over what it had at first; sampled, on a thread of its own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self.most = resident(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.most = max(self.most, resident(self._pid))

    def end(self) -> float:
        self._over.set()
        self._thread.join()
        return (max(self.most, resident(self._pid)) - self._before) / 2**20


def gather(clients: list[Client], origin: Origin, path: str, gap: float) -> None:
    """The first one asks, then the others, each `gap` seconds after the one before; until all have got it."""
    clients[0].ask(path)
    if not origin.begun.wait(LIMIT_SECONDS):
        raise RuntimeError("the origin was not asked")
    poll = select.epoll()
    by_number = {client.connection.fileno(): client for client in clients}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    began = time.monotonic()
    asked = 1
    with poll:
        while by_number:
            now = time.monotonic()
            if now - began > LIMIT_SECONDS:
                break
            while asked < len(clients) and now >= began + gap * asked:
                clients[asked].ask(path)
                asked += 1
            wait = LIMIT_SECONDS if asked == len(clients) else max(0.0, began + gap * asked - now)
            for number, _ in poll.poll(min(wait, 1.0)):
                if by_number[number].read(origin.body):
                    poll.unregister(number)
                    del by_number[number]
    for client in by_number.values():
        client.failed = True


def measure(cache: str, case: str, number: int, count: int, runtime: Path) -> Row:
    folder = runtime / f"{cache}-{case.replace(' ', '-')}-{number}"
    folder.mkdir()
    origin, port, load = Origin(), free_port(), round(os.getloadavg()[0], 2)
    command = COMMANDS[cache](f"{HOST}:{port}", f"{HOST}:{origin.port}", folder)
    with ExitStack() as stack:
        stack.callback(origin.close)
        process = stack.enter_context(Process(command, core=FULL.gateway_core, runtime=folder))
        process.wait_until_listening(port)
        clients = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((HOST, port), timeout=LIMIT_SECONDS))
            clients.append(Client(connection))
            clients[-1].warm()
        before = read_tree(process.pid)
        growth = Growth(process.pid)
        try:
            gather(clients, origin, "/segment", SEND_SECONDS / count if case == "spread" else 0.0)
        finally:
            grown = growth.end()
        used = read_tree(process.pid).scheduler - before.scheduler
    well = [client for client in clients[1:] if not client.failed]
    earliest = min((client.first for client in clients if client.first), default=0)
    began = [max(client.asked, earliest) for client in well]
    waits = sorted((client.first - start) / 1e6 for client, start in zip(well, began, strict=True)) or [0.0]
    lasts = sorted((client.last - max(origin.ended, client.asked)) / 1e6 for client in well) or [0.0]
    return Row(
        cache,
        case,
        number,
        count,
        origin.requests,
        round(median(waits), 3),
        round(waits[int(0.99 * (len(waits) - 1))], 3),
        round(waits[-1], 3),
        round(median(lasts), 3),
        round(lasts[-1], 3),
        round(grown, 2),
        round(used, 3),
        load,
        sum(client.failed for client in clients),
    )


def middle(rows: list[Row]) -> list[Row]:
    """The median of each figure over the rounds."""
    found = []
    for cache, case in dict.fromkeys((row.cache, row.case) for row in rows):
        same = [row for row in rows if (row.cache, row.case) == (cache, case)]
        figures = [item.name for item in fields(Row) if item.name not in {"cache", "case", "round"}]
        found.append(
            replace(
                same[0], round=0, **{name: median(getattr(row, name) for row in same) for name in figures}
            )
        )
    return found


def table(rows: list[Row]) -> str:
    title = (
        f"{'cache':10}{'case':10}{'asked':>7}{'first byte: p50':>17}{'p99':>10}{'max':>10}{'last: p50':>12}"
        f"{'max':>10}{'MiB more':>10}{'CPU s':>8}{'load':>7}{'failed':>8}"
    )
    lines = [
        f"{row.cache:10}{row.case:10}{row.origin_requests:7.0f}{row.first_byte_median:17.2f}"
        f"{row.first_byte_p99:10.2f}{row.first_byte_maximum:10.2f}{row.last_byte_median:12.2f}"
        f"{row.last_byte_maximum:10.2f}{row.resident_growth:10.2f}{row.cpu_seconds:8.2f}{row.load:7.1f}{row.failed:8.0f}"
        for row in rows
    ]
    return "\n".join((title, *lines))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--cache", action="append", choices=CACHES, help="only these; may be repeated")
    parser.add_argument("--case", action="append", choices=CASES, help="only these; may be repeated")
    arguments = parser.parse_args()
    needed = 4 * arguments.clients + 1000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < needed:
        raise SystemExit(f"{needed} descriptors are needed, and the limit is {most} (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    os.sched_setaffinity(0, {FULL.load_core})
    rows = []
    absent = {}
    versions = {}
    for cache in arguments.cache or CACHES:
        try:
            versions[cache] = version(cache)
        except AbsentError as error:
            absent[cache] = str(error)
            print(f"{cache}: left out: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="penstock-crowd-") as name:
        for number in range(arguments.rounds):
            for cache in versions:
                for case in arguments.case or CASES:
                    rows.append(measure(cache, case, number, arguments.clients, Path(name)))
                    print(table(rows[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    print(table(middle(rows)))
    if not (arguments.cache or arguments.case):
        settings = {"size": SIZE, "send_seconds": SEND_SECONDS, "think_seconds": THINK_SECONDS}
        method = __doc__.partition("\n\n")[2]
        results.publish(OUTPUT, rows, method=method, **settings, versions=versions, absent=absent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
