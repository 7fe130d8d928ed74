"""What clients notice of an upgrade: `python upgrade_load.py PORT IDLE STREAMS SEGMENTS SUBSCRIBERS`.

It prints a line when all connections are open. It counts from the first line on its standard input on, prints what it
has counted at each further one, and ends with the line "end". Nothing is ever asked twice: no failure is hidden by a
client that repeats requests.

IDLE connections ask once in 20 s each, 50 others 300 times a second together, and 100 times a second a connection is
opened, asks, and is closed: for one of SEGMENTS segments, each of which was asked for once before the line. STREAMS
event streams without end are read; one that ends is opened anew, as `retry` says. Each event must come once and in its
order, and says when the origin has sent it. SUBSCRIBERS read a topic, to which a client publishes ten events a second.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import cast

import uvloop

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30.0
IDLE_SECONDS, BUSY_CONNECTIONS, BUSY_PER_SECOND, FRESH_PER_SECOND = 20.0, 50, 300, 100
EVENT = re.compile(rb"id: (\d+)\ndata: (\d+) x+\n\n")
PUBLISHED = re.compile(rb"id: \d+-\d+\ndata: (\d+) (\d+) x+\n\n")
PUBLISH_SECONDS = 0.1
LATE_MS = (20, 50, 100)
RETRY = re.compile(rb"retry: (\d+)")


class FailureError(Exception):
    """A request got no whole answer."""


@dataclass
class Counts:
    """What has happened."""

    seen: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    is_counting: bool = False
    longest_ms: float = 0.0
    latest_ms: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """From the origin, or the publisher, to the client, of the event that took longest."""
    seconds: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """What the cache has said, by second."""

    def begin_anew(self) -> None:
        """Forget what was counted."""
        for kept in (self.seen, self.first, self.latest_ms, self.seconds):
            kept.clear()
        self.longest_ms = 0.0

    def note_hit(self, is_hit: bool) -> None:
        if self.is_counting:
            self.seconds[int(time.monotonic())]["hit" if is_hit else "no hit"] += 1

    def note_event(self, name: str, took_ms: float) -> None:
        if self.is_counting:
            self.seen[f"{name}: events"] += 1
            self.latest_ms[name] = max(self.latest_ms[name], took_ms)
            for limit in LATE_MS:
                if took_ms > limit:
                    self.seen[f"{name}: events later than {limit} ms"] += 1

    def note(self, what: str, why: object = "") -> None:
        if self.is_counting:
            self.seen[what] += 1
            self.first.setdefault(what, repr(why))


class Client:
    """A connection that is kept, and opened anew when the server has closed it."""

    may_hit = True
    """A cache may answer its requests."""

    def __init__(self, port: int, name: str, counts: Counts, segments: int) -> None:
        self._port, self._name, self._counts, self._segments = port, name, counts, segments
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        try:
            self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        except OSError as error:
            self._writer = None
            self._counts.note(f"{self._name}: no connection", error)

    async def ask(self, segment: int | None = None) -> None:
        """A request and its answer; a connection is opened before it where the client has no open one."""
        number = random.randrange(self._segments) if segment is None else segment
        if self._writer is not None and (self._reader.at_eof() or self._writer.is_closing()):
            self._counts.note(f"{self._name}: closed between two requests")
            self.close()
        if self._writer is None:
            await self.connect()
            if self._writer is None:
                return
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                announced = await self._exchange(self._writer, number)
        except (OSError, EOFError, TimeoutError, FailureError) as error:
            self._counts.note(f"{self._name}: failed", error)
            self.close()
            return
        self._counts.note(f"{self._name}: answered")
        if self._counts.is_counting:
            took = asyncio.get_running_loop().time() - begun
            self._counts.longest_ms = max(self._counts.longest_ms, took * 1e3)
        if announced:
            self._counts.note(f"{self._name}: closed as announced")
            self.close()

    def _request(self, segment: int) -> bytes:
        return b"GET /segment/%d HTTP/1.1\r\nHost: gateway\r\n\r\n" % segment

    async def _exchange(self, writer: asyncio.StreamWriter, segment: int) -> bool:
        """Whether the connection ends with it."""
        writer.write(self._request(segment))
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise FailureError(head[:60])
        length = re.search(rb"content-length: (\d+)", head)
        if length is None:
            raise FailureError(head)
        await self._reader.readexactly(int(length[1]))
        if self.may_hit:
            self._counts.note_hit(b"; hit" in head)
        return b"connection: close" in head

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


async def paced(client: Client, seconds: float) -> None:
    """Ask once in `seconds`, each connection at a time of its own."""
    await asyncio.sleep(random.uniform(0, seconds))
    while True:
        await client.ask()
        await asyncio.sleep(random.uniform(0.5, 1.5) * seconds)


async def warm(port: int, counts: Counts, segments: int) -> None:
    """Ask for each segment once."""
    left = iter(range(segments))

    async def ask() -> None:
        client = Client(port, "warm", counts, segments)
        for number in left:
            await client.ask(number)
        client.close()

    await asyncio.gather(*(ask() for _ in range(20)))


async def fresh(port: int, counts: Counts, segments: int) -> None:
    while True:
        client = Client(port, "fresh", counts, segments)
        await client.ask()
        client.close()
        await asyncio.sleep(random.uniform(0.5, 1.5) * BUSY_CONNECTIONS / FRESH_PER_SECOND)


class Publisher(Client):
    """A client that publishes an event with each request: its number, and the time."""

    may_hit = False

    def _request(self, segment: int) -> bytes:
        event = b"%d %d %b" % (segment, time.monotonic_ns(), b"x" * 160)
        head = b"POST /publish HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n" % len(event)
        return head + event


async def published(port: int, counts: Counts) -> None:
    client, number = Publisher(port, "publisher", counts, 1), 0
    while True:
        number += 1
        await client.ask(number)
        await asyncio.sleep(PUBLISH_SECONDS)


class Stream(asyncio.Protocol):
    """A client of an event stream, which opens another one when it ends."""

    name, target, pattern = "streams", b"/events/", EVENT
    first: int | None = 1
    """The number of the first event, if that is known."""

    def __init__(self, port: int, counts: Counts, opened: asyncio.Semaphore) -> None:
        self._port, self._counts, self._opened = port, counts, opened
        self._is_first = True
        self._begin()

    def _begin(self) -> None:
        self._rest, self._next = b"", self.first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is not of asyncio's class.
        cast("asyncio.Transport", transport).write(
            b"GET %b HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n\r\n" % self.target
        )

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self._is_first:
            self._is_first = False
            self._opened.release()
        text = self._rest + data
        end = 0
        for found in self.pattern.finditer(text):
            number, sent = int(found[1]), int(found[2])
            if self._next not in {None, number}:
                self._counts.note(f"{self.name}: event lost or repeated: failed", (self._next, number))
            self._next = number + 1
            self._counts.note_event(self.name, (now - sent) / 1e6)
            end = found.end()
        self._rest = text[end:][-4096:]

    def connection_lost(self, error: Exception | None) -> None:
        # The last chunk of a body that is whole (RFC 9112, section 7.1).
        is_whole = error is None and self._rest.endswith(b"0\r\n\r\n")
        self._counts.note(f"{self.name}: {'ended after a whole body' if is_whole else 'torn'}", error)
        retry = RETRY.search(self._rest)
        self._begin()
        loop = asyncio.get_running_loop()
        loop.call_later(int(retry[1]) / 1e3 if retry else 0.0, lambda: loop.create_task(self.open()))

    async def open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, HOST, self._port)
        except OSError as error:
            self.connection_lost(error)


class Subscriber(Stream):
    """A client of a topic."""

    name, target, pattern = "subscribers", b"/topics/news", PUBLISHED
    first = None


async def run(port: int, idle: int, streams: int, segments: int, subscribers: int) -> None:
    counts, opened = Counts(), asyncio.Semaphore(0)
    await warm(port, counts, segments)
    kept = [(Client(port, "idle", counts, segments), IDLE_SECONDS) for _ in range(idle)]
    pause = BUSY_CONNECTIONS / BUSY_PER_SECOND
    kept += [(Client(port, "busy", counts, segments), pause) for _ in range(BUSY_CONNECTIONS)]
    for client, _ in kept:
        await client.connect()
    tasks = [asyncio.create_task(paced(client, seconds)) for client, seconds in kept]
    tasks += [asyncio.create_task(fresh(port, counts, segments)) for _ in range(BUSY_CONNECTIONS)]
    if subscribers:
        tasks.append(asyncio.create_task(published(port, counts)))
    for each, count in ((Stream, streams), (Subscriber, subscribers)):
        for _ in range(count):
            await each(port, counts, opened).open()
    for _ in range(streams + subscribers):
        await opened.acquire()
    print("{}", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    counts.is_counting, line = True, ""
    while line != "end\n":
        line = await asyncio.to_thread(sys.stdin.readline) or "end\n"
        print(json.dumps(report_of(counts)), flush=True)
        counts.begin_anew()
    counts.is_counting = False
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def report_of(counts: Counts) -> dict[str, object]:
    report = {
        **counts.seen,
        "longest answer, ms": round(counts.longest_ms, 1),
        **{f"latest event of {name}, ms": round(late, 1) for name, late in counts.latest_ms.items()},
    }
    seconds = [[second, seen["hit"], sum(seen.values())] for second, seen in sorted(counts.seconds.items())]
    return {"counts": report, "first": counts.first, "hits": seconds}


if __name__ == "__main__":
    uvloop.run(run(*map(int, sys.argv[1:])))
