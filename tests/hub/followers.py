"""Clients that come and go: each checks, event by event, what it gets against what was published.

A `Follower` is what an EventSource is, at its worst: it leaves at random, in the middle of an event as well, stays away
for moments or until its place has gone, and some stop reading. It asks again for what follows the last event that it had
whole. Whatever it gets must be the next that was published, unless a gap was announced, which it believes only if
events are missing indeed.
"""

import asyncio
import heapq
import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

_HOST = "127.0.0.1"
# A client that stalls takes little, in small segments, so that the kernel keeps little for it at the other side too.
_SMALL_BUFFER = 4096
_SMALL_SEGMENT = 536


class Journal:
    """What was published, and who waits for how much of it."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.data: list[str] = []
        self.numbers: dict[str, int] = {}
        self.is_over = False
        self._waiting: list[tuple[int, int, Callable[[], object]]] = []
        self._order = count()

    def add(self, id_: str, data: str) -> None:
        self.numbers[id_] = len(self.ids)
        self.ids.append(id_)
        self.data.append(data)
        self._call()

    def end(self) -> None:
        self.is_over = True
        self._call()

    def when(self, events: int, call: Callable[[], object]) -> None:
        """Have `call` called once there are so many events, or all."""
        heapq.heappush(self._waiting, (events, next(self._order), call))
        self._call()

    def _call(self) -> None:
        while self._waiting and (self.is_over or self._waiting[0][0] <= len(self.ids)):
            heapq.heappop(self._waiting)[2]()


@dataclass(frozen=True)
class Habits:
    """How a follower behaves."""

    mean_bytes: float
    """After how much it leaves, by the mean."""
    away: int
    """For how many events it stays away the first time; the other times for moments."""
    stall: int = 0
    """For how many events it stops reading after its first one."""


@dataclass
class Follower:
    """One client, from its first connection until it has been told that the topic has ended."""

    port: int
    path: str
    journal: Journal
    habits: Habits
    random: random.Random
    last: str | None = None
    next: int | None = None
    gaps: int = 0
    left: int = 0
    missed: int = 0
    stalls: int = 0
    transport: asyncio.Transport | None = None
    ended: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def stop(self) -> None:
        """Leave for good, wherever it is."""
        self.ended.cancel()
        if self.transport is not None:
            self.transport.abort()

    def connect(self) -> None:
        if self.ended.done():
            return
        # What fails in it fails the follower.
        task = asyncio.get_running_loop().create_task(self._connect())
        task.add_done_callback(lambda done: done.cancelled() or self._fail(done.exception()))

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        try:
            connection.setblocking(False)
            if self.habits.stall:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL_SEGMENT)
            await loop.sock_connect(connection, (_HOST, self.port))
            await loop.create_connection(lambda: _Connection(self), sock=connection)
        except BaseException:
            connection.close()
            raise

    def _fail(self, error: BaseException | None) -> None:
        if error is not None and not self.ended.done():
            self.ended.set_exception(error)

    def disconnected(self, error: BaseException | None) -> None:
        """Come back, sooner or later; unless it was the end."""
        if error is not None:
            self._fail(error)
        if self.ended.done():
            return
        self.left += 1
        if self.left == 1 and self.habits.away:
            self.journal.when((self.next or 0) + self.habits.away, self.connect)
        else:
            asyncio.get_running_loop().call_later(self.random.uniform(0, 0.2), self.connect)

    def take(self, block: str) -> None:
        """Check one event.

        Raises:
            AssertionError: it is not what had to come.
        """
        fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
        kind = fields.get("event", "message")
        if kind == "penstock-end":
            assert self.journal.is_over, "a topic that goes on was said to have ended"
            self._end()
            return
        if kind == "penstock-gap":
            said = json.loads(fields["data"])
            assert said["after"] == self.last, f"{said} after {self.last}"
            assert self.next is not None, f"{said} for a subscriber that had nothing"
            behind = self.journal.numbers[said["resumed"]] + 1
            assert behind > self.next, f"{said}, but {self.next} is next"
            self.gaps += 1
            self.missed += behind - self.next
            self.next, self.last = behind, fields["id"]
            return
        assert kind == "message", block
        number = self.journal.numbers[fields["id"]]
        assert self.next in (None, number), f"event {number} where {self.next} was next"
        assert fields["data"] == self.journal.data[number], f"event {number} was altered"
        self.next, self.last = number + 1, fields["id"]

    def refused(self, head: str) -> None:
        """Being told to stay away is the end, for a subscriber that has all events."""
        assert head.startswith("HTTP/1.1 204 "), head
        assert self.journal.is_over, "a topic that goes on was said to have ended"
        self._end()

    def _end(self) -> None:
        assert self.next in (None, len(self.journal.ids)), (
            f"{self.next} of {len(self.journal.ids)} at the end"
        )
        if not self.ended.done():
            self.ended.set_result(None)


class _Connection(asyncio.Protocol):
    """One response to a follower, as far as it reads it."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        # Bytes, not events: it leaves within one as well. One that will stay away does so early, to have time for it.
        early = follower.habits.away and not follower.left
        mean = follower.habits.mean_bytes
        self._left = round(mean / 10 if early else follower.random.expovariate(1 / mean))
        self._head: str | None = None
        self._pending = b""
        self._body = b""
        self._error: BaseException | None = None
        self._resume: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = self._follower.transport = transport
        last = self._follower.last
        field = "" if last is None else f"Last-Event-ID: {last}\r\n"
        transport.write(f"GET {self._follower.path} HTTP/1.1\r\nHost: hub\r\n{field}\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._left -= len(data)
        # A client that was told of the end stays for it: else the last ones would be asking for ever.
        leaves = self._left <= 0 and not self._follower.journal.is_over
        try:
            self._pending += data[: self._left] if leaves else data
            self._read()
        except BaseException as error:
            self._error = error
            leaves = True
        if leaves or self._follower.ended.done():
            self._leave()

    def _leave(self) -> None:
        if self._follower.random.random() < 0.5:
            self._transport.abort()
        else:
            self._transport.close()

    def _read(self) -> None:
        if self._head is None:
            head, end, rest = self._pending.partition(b"\r\n\r\n")
            if not end:
                return
            self._head, self._pending = head.decode(), rest
            if not self._head.startswith("HTTP/1.1 200 "):
                self._follower.refused(self._head)
                return
            fields = dict(line.lower().partition(": ")[::2] for line in self._head.split("\r\n")[1:])
            self._resume = fields.get("penstock-resume")
            expected = {"full", "gap"} if self._follower.last is not None else {None}
            assert self._resume in expected, self._head
        self._decode()
        *blocks, self._body = self._body.split(b"\n\n")
        for block in blocks:
            self._take(block.decode())

    def _decode(self) -> None:
        place = 0
        while (end := self._pending.find(b"\r\n", place)) >= 0:
            length = int(self._pending[place:end], 16)
            if len(self._pending) < end + 2 + length + 2:
                break
            self._body += self._pending[end + 2 : end + 2 + length]
            place = end + 2 + length + 2
            if not length:
                # The response is over, well.
                self._transport.close()
                break
        self._pending = self._pending[place:]

    def _take(self, block: str) -> None:
        if self._resume is not None:
            # The head says what the first event does.
            assert ("event: penstock-gap" in block) == (self._resume == "gap"), (self._resume, block)
            self._resume = None
        self._follower.take(block)
        if self._follower.habits.stall and not self._follower.stalls and not self._follower.ended.done():
            self._follower.stalls += 1
            self._transport.pause_reading()
            until = (self._follower.next or 0) + self._follower.habits.stall
            self._follower.journal.when(until, self._go_on)

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._follower.disconnected(self._error)
