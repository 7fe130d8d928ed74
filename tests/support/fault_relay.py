"""A relay between the two ends of a connection that does one thing wrong at one byte of one direction.

The byte is named by its number, or by what stands there: a `Place` finds it in what passes, so that a test can say "in
the status line" of bytes that it did not write. What could be the place is held back until the place is found.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from penstock.testing import Peer, ScriptedOrigin

from .client import RawClient

_READ = 64 * 1024
_HELD = 1 << 20
"""Bytes that are held back at most while a place is looked for."""
_DELAY = 0.03
_STEPS = 200
"""Bytes that a trickle and a split send one by one, so that a large body ends in time."""
_QUIET = 0.02
"""Seconds without a byte after which what was merged is sent."""
STRAYS = (b"\0", b"\r\n", b"stray", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
"""What is inserted."""


class Action(StrEnum):
    DELAY = "delay"
    STALL = "stall"
    """Nothing more passes, and nothing more is read."""
    TRICKLE = "trickle"
    CUT = "cut"
    """The receiver gets FIN, and the sender's connection ends too."""
    RESET = "reset"
    HALF_CLOSE = "half-close"
    """The receiver gets FIN, and what it sends still passes."""
    CORRUPT = "corrupt"
    """One bit of the byte is another."""
    INSERT = "insert"
    """Bytes that nothing sent come before the byte."""
    SPLIT = "split"
    """Each byte is a segment of its own."""
    MERGE = "merge"
    """All that follows comes at once."""


HARMLESS = frozenset({Action.DELAY, Action.TRICKLE, Action.SPLIT, Action.MERGE})
"""What TCP may do to any connection: nothing is lost or changed."""
ALTERING = frozenset({Action.CORRUPT, Action.INSERT})


@dataclass(frozen=True)
class Place:
    """The bytes that group 1 of `pattern` matches in a stream. The seed chooses one of them."""

    pattern: bytes
    after: bytes = b""
    """A pattern that has to pass first, or what follows is never sent; the place is looked for from its end on."""

    def begins(self, stream: bytes | bytearray) -> int | None:
        """The number of the byte from which on what comes is held back until the place is found."""
        found = re.search(self.after, stream)
        return None if found is None else found.end()

    def find(self, stream: bytes | bytearray) -> range | None:
        begins = self.begins(stream)
        if begins is None or (found := re.compile(self.pattern).search(stream, begins)) is None:
            return None
        return range(*found.span(1))


@dataclass(frozen=True)
class Fault:
    """What happens, and where; once, on the first connection that has the place."""

    action: Action
    place: Place | int
    up: bool = False
    """Whether the place is in what the client of the relay sends, and not in what it is sent."""
    seed: str = ""

    def at(self, stream: bytes | bytearray) -> int | None:
        """The number of the byte, if it has come or is the next one."""
        if isinstance(self.place, int):
            return self.place if self.place <= len(stream) else None
        found = self.place.find(stream)
        return None if found is None else Random(self.seed).choice(found)


@dataclass
class Direction:
    """What has come on one direction of a connection, and what went on."""

    received: bytearray = field(default_factory=bytearray)
    passed: bytearray = field(default_factory=bytearray)


@dataclass
class Passage:
    """One connection."""

    up: Direction = field(default_factory=Direction)
    down: Direction = field(default_factory=Direction)


def _finish(end: RawClient) -> None:
    """Send FIN, if that can be sent."""
    with suppress(OSError, RuntimeError):
        end.writer.write_eof()


def _reset(end: RawClient) -> None:
    """Send RST, unless it is closed."""
    with suppress(OSError):
        end.reset()


async def _discard(end: RawClient) -> None:
    """Read to the end."""
    with suppress(OSError):
        while await end.reader.read(_READ):
            pass


class _Ended(Exception):  # noqa: N818 (it is no error)
    """This direction passes nothing more."""


class _Pump:
    """One direction of one connection."""

    def __init__(
        self, relay: "FaultRelay", source: RawClient, sink: RawClient, kept: Direction, fault: Fault | None
    ) -> None:
        self.relay = relay
        self.source = source
        self.sink = sink
        self.kept = kept
        self.fault = fault
        self.held = b""

    async def run(self) -> None:
        try:
            while data := await self.source.reader.read(_READ):
                self.kept.received += data
                await self.take(data)
            await self.send(self.held)
            _finish(self.sink)
        except _Ended:
            pass
        except OSError:
            _reset(self.source)
            _reset(self.sink)

    async def take(self, data: bytes) -> None:
        fault = self.fault
        if fault is None or self.relay.fired.is_set():
            held, self.held = self.held, b""
            await self.send(held + data)
            return
        self.held += data
        at = fault.at(self.kept.received)
        if at is None:
            if len(self.held) > _HELD:
                raise AssertionError(f"the place of {fault} did not come")
            begins = None if isinstance(fault.place, int) else fault.place.begins(self.kept.received)
            free = len(self.held) if begins is None else begins - len(self.kept.passed)
            if free > 0:
                held, self.held = self.held[:free], self.held[free:]
                await self.send(held)
            return
        before = at - (len(self.kept.received) - len(self.held))
        held, self.held = self.held, b""
        self.relay.fired.set()
        await self.send(held[:before])
        await self.act(fault, held[before:])

    async def send(self, data: bytes) -> None:
        self.kept.passed += data
        await self.sink.send(data)

    async def act(self, fault: Fault, rest: bytes) -> None:
        """Do it. `rest` begins with the byte at the place."""
        chance = Random(f"{fault.seed} acts")
        match fault.action:
            case Action.DELAY:
                await asyncio.sleep(_DELAY)
            case Action.STALL:
                await asyncio.Event().wait()
            case Action.CUT:
                _finish(self.sink)
                self.source.abort()
                raise _Ended
            case Action.HALF_CLOSE:
                _finish(self.sink)
                await _discard(self.source)
                raise _Ended
            case Action.RESET:
                _reset(self.sink)
                _reset(self.source)
                raise _Ended
            case Action.CORRUPT:
                rest = bytes([rest[0] ^ (1 << chance.randrange(8))]) + rest[1:] if rest else rest
            case Action.INSERT:
                await self.send(chance.choice(STRAYS))
            case Action.TRICKLE | Action.SPLIT:
                pause = 0.001 if fault.action is Action.TRICKLE else 0.0
                for number in range(min(len(rest), _STEPS)):
                    await self.send(rest[number : number + 1])
                    await asyncio.sleep(pause)
                rest = rest[_STEPS:]
            case Action.MERGE:
                rest += await self.all_that_comes()
        await self.send(rest)

    async def all_that_comes(self) -> bytes:
        """What comes until nothing does for a moment."""
        parts = b""
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_QUIET):
                    data = await self.source.reader.read(_READ)
                if not data:
                    break
                self.kept.received += data
                parts += data
        return parts


class FaultRelay(ScriptedOrigin):
    """Relays connections to a port of this machine, or to a Unix socket. Use it in `async with`.

    Args:
        target: a port, or the path of a Unix socket.
        fault: what it does wrong, or None.
        unix: the path to listen on, in place of a port.
    """

    def __init__(self, target: int | str, fault: Fault | None = None, *, unix: str | None = None) -> None:
        super().__init__(self._relay, unix=unix)
        self._target = target
        self._fault = fault
        self.fired = asyncio.Event()
        """Whether the fault has happened; what passes then is left alone."""
        self.passages: list[Passage] = []

    async def _relay(self, peer: Peer) -> None:
        passage, fault = Passage(), self._fault
        self.passages.append(passage)
        client = RawClient(peer._reader, peer._writer)
        try:
            server = await self._connect()
        except OSError:
            _reset(client)
            return
        try:
            up = _Pump(self, client, server, passage.up, fault if fault and fault.up else None)
            down = _Pump(self, server, client, passage.down, fault if fault and not fault.up else None)
            await asyncio.gather(up.run(), down.run())
        finally:
            server.abort()

    async def _connect(self) -> RawClient:
        if isinstance(self._target, str):
            return RawClient(*await asyncio.open_unix_connection(self._target))
        return await RawClient.connect(self._target)
