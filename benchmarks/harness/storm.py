"""Clients that ask at a rate of their own, whatever becomes of their requests: `storm.py PORT PATH JSON`.

JSON is a list of phases, each with a rate and its seconds. Requests are due at random (exponential gaps, seeded) and
go to a connection that is idle, or to a new one. A latency runs from the moment a request was due. A client leaves
after PATIENCE, and comes back no more: each request is another client's. Prints, for each phase, what became of the
requests that were due in it, as JSON; `due_per_slot` are all by when they were due, and `per_slot` the good ones.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

PATIENCE = 1.0
"""Seconds until a client leaves. What comes later is of no use."""
SLOT = 0.1


@dataclass
class Phase:
    rate: float
    seconds: float
    due: int = 0
    good: list[float] = field(default_factory=list)
    """Seconds of what was answered with 200 in time."""
    refused: list[float] = field(default_factory=list)
    """Seconds of what was answered with 503."""
    left: int = 0
    """Clients that have left without an answer."""
    failed: int = 0
    per_slot: list[int] = field(default_factory=list)
    due_per_slot: list[int] = field(default_factory=list)

    def told(self) -> dict[str, object]:
        return {
            "rate": self.rate,
            "seconds": self.seconds,
            "due": self.due,
            "good": len(self.good),
            "good_ms": percentiles(self.good),
            "refused": len(self.refused),
            "refused_ms": percentiles(self.refused),
            "left": self.left,
            "failed": self.failed,
            "per_slot": self.per_slot,
            "due_per_slot": self.due_per_slot,
        }


def percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    shares = {"p50": 0.5, "p99": 0.99}
    return {
        name: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
        for name, share in shares.items()
    }


@dataclass
class Connection:
    socket: socket.socket
    phase: Phase | None = None
    """Of the request under way."""
    begun: float = 0.0
    slot: int = 0
    read: bytes = b""


class Storm:
    def __init__(self, port: int, path: str, phases: list[Phase]) -> None:
        self._address = ("127.0.0.1", port)
        self._request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        self._phases = phases
        self._poll = select.epoll()
        self._open: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._waiting: list[tuple[float, int, int]] = []
        """Those whose time runs: until when, the connection's number, and which request."""
        self._count = 0

    def run(self) -> None:
        chance = random.Random(1)
        begins = time.monotonic()
        for phase in self._phases:
            phase.per_slot = [0] * round(phase.seconds / SLOT)
            phase.due_per_slot = list(phase.per_slot)
            due = begins + chance.expovariate(phase.rate)
            while due < begins + phase.seconds:
                self._serve_until(due)
                phase.due += 1
                slot = min(int((due - begins) / SLOT), len(phase.per_slot) - 1)
                phase.due_per_slot[slot] += 1
                self._ask(phase, due, slot)
                due += chance.expovariate(phase.rate)
            begins += phase.seconds
        self._serve_until(begins + PATIENCE)

    def _serve_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            for number, _ in self._poll.poll(min(left, 0.05)):
                self._read(self._open[number])
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, number, which = heapq.heappop(self._waiting)
                connection = self._open.get(number)
                if connection is not None and connection.phase is not None and connection.slot >> 16 == which:
                    connection.phase.left += 1
                    self._drop(connection)

    def _ask(self, phase: Phase, due: float, slot: int) -> None:
        self._count += 1
        connection = self._idle.pop() if self._idle else self._connect()
        connection.phase, connection.begun, connection.read = phase, due, b""
        connection.slot = self._count << 16 | slot
        heapq.heappush(self._waiting, (due + PATIENCE, connection.socket.fileno(), self._count))
        try:
            connection.socket.send(self._request)
        except OSError:
            phase.failed += 1
            self._drop(connection)

    def _connect(self) -> Connection:
        one = socket.create_connection(self._address)
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(one)
        self._open[one.fileno()] = connection
        self._poll.register(one.fileno(), select.EPOLLIN)
        return connection

    def _read(self, connection: Connection) -> None:
        phase = connection.phase
        try:
            data = connection.socket.recv(65536)
        except OSError:
            data = b""
        if not data or phase is None:
            if phase is None:
                with suppress(ValueError):
                    self._idle.remove(connection)
            else:
                phase.failed += 1
            self._drop(connection)
            return
        connection.read += data
        head, found, body = connection.read.partition(b"\r\n\r\n")
        if not found:
            return
        lowered = head.lower()
        length = int(lowered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        took = time.monotonic() - connection.begun
        status = head[9:12]
        if status == b"200":
            phase.good.append(took)
            phase.per_slot[connection.slot & 0xFFFF] += 1
        elif status == b"503":
            phase.refused.append(took)
        else:
            phase.failed += 1
        connection.phase = None
        if b"\r\nconnection: close" in lowered:
            self._drop(connection)
        else:
            self._idle.append(connection)

    def _drop(self, connection: Connection) -> None:
        del self._open[connection.socket.fileno()]
        connection.socket.close()


def main() -> None:
    phases = [Phase(rate, seconds) for rate, seconds in json.loads(sys.argv[3])]
    Storm(int(sys.argv[1]), sys.argv[2], phases).run()
    print(json.dumps([phase.told() for phase in phases]))


if __name__ == "__main__":
    main()
