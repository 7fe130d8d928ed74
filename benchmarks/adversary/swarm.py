"""Attackers: thousands of connections of one thread and one epoll, so cheap that they do not distort what is measured.

What an attacker does is data, an `Attack`. It connects again when it is cut off, at a bounded rate. `python -m
adversary.swarm PORT JSON` runs some until its standard input ends, and then prints what became of them as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field

_BUFFER = 4096
_TICK = 0.02
_READ = 65536


@dataclass(frozen=True)
class Attack:
    """What each of so many connections sends, and whether it reads."""

    name: str
    connections: int
    first: str
    """Sent at once. `{n}` is a number that is new each time."""
    padding: int = 0
    """Bytes of a header field's value that follow it."""
    drip: str = ""
    """Sent again and again after that."""
    interval: float = 1.0
    """Seconds between two of these."""
    reads: bool = True
    """Whether what comes is read. If not, the receive buffer is as small as can be."""
    again: bool = False
    """Whether it sends `first` anew when something has come: a flood of whole requests, `interval` seconds apart."""
    reconnects: int = 1500
    """Connections a second, over all attacks that run together. Without a bound it is the cores that decide how long
    others wait: the attackers' process and the thread of the engine then take one each."""
    addresses: int = 4
    """How many addresses of this machine it comes from; never the honest client's."""


@dataclass
class _Connection:
    attack: Attack
    socket: socket.socket
    rest: bytes
    due: float = 0.0
    begun: bool = False


@dataclass
class Swarm:
    """Runs attacks against an address."""

    address: tuple[str, int]
    attacks: list[Attack]
    outcomes: Counter[str] = field(default_factory=Counter)
    """By attack: connections, and by what they ended."""
    _poll: select.epoll = field(default_factory=select.epoll)
    _open: dict[int, _Connection] = field(default_factory=dict)
    _missing: deque[Attack] = field(default_factory=deque)
    _number: int = 0
    _allowed: float = 0.0
    """Seconds whose connections may be made."""
    _turned: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for attack in self.attacks:
            self._missing.extend([attack] * attack.connections)

    def turn(self) -> None:
        """Do what is due, and wait a moment for what comes."""
        now = time.monotonic()
        # Of time that has passed without use no more than a tick is kept: there is no burst.
        self._allowed = min(self._allowed + (now - self._turned), _TICK)
        self._turned = now
        fastest = max(attack.reconnects for attack in self.attacks)
        for _ in range(min(len(self._missing), int(self._allowed * fastest))):
            self._connect(self._missing.popleft(), now)
            self._allowed -= 1 / fastest
        for number, events in self._poll.poll(_TICK, 256):
            self._happened(number, events)
        now = time.monotonic()
        for connection in [one for one in self._open.values() if one.due and one.due <= now]:
            self._drip(connection, now)

    def close(self) -> None:
        for connection in self._open.values():
            connection.socket.close()
        self._open.clear()
        self._poll.close()

    @property
    def open(self) -> int:
        return len(self._open)

    def _connect(self, attack: Attack, now: float) -> None:
        one = socket.socket()
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # As on a network. With the loopback's segments of 64 KB the kernel keeps 3 MB for one that reads nothing.
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1448)
        if not attack.reads:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        high, low = divmod(random.randrange(attack.addresses), 250)
        with suppress(OSError):
            one.bind((f"127.66.{high}.{low + 1}", 0))
        with suppress(BlockingIOError):
            one.connect(self.address)
        connection = _Connection(attack, one, self._first(attack))
        self._open[one.fileno()] = connection
        self.outcomes[f"{attack.name}: connections"] += 1
        self._poll.register(one.fileno(), select.EPOLLOUT | select.EPOLLRDHUP)
        if attack.drip:
            connection.due = now + attack.interval * random.uniform(0.5, 1.5)

    def _first(self, attack: Attack) -> bytes:
        self._number += 1
        text = attack.first.replace("{n}", f"{os.getpid()}-{self._number}")
        return text.encode() + b"x" * attack.padding

    def _happened(self, number: int, events: int) -> None:
        connection = self._open.get(number)
        if connection is None:
            return
        attack = connection.attack
        if events & select.EPOLLOUT and connection.rest:
            try:
                sent = connection.socket.send(connection.rest)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(connection, type(error).__name__)
                return
            connection.rest = connection.rest[sent:]
            if not connection.rest:
                wanted = (select.EPOLLIN if attack.reads else 0) | select.EPOLLRDHUP
                self._poll.modify(number, wanted)
        if events & (select.EPOLLHUP | select.EPOLLERR):
            self._lost(connection, "reset")
            return
        if events & select.EPOLLIN:
            self._read(connection)
        elif events & select.EPOLLRDHUP:
            self._lost(connection, "end")

    def _read(self, connection: _Connection) -> None:
        attack = connection.attack
        try:
            data = connection.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(connection, type(error).__name__)
            return
        if not data:
            self._lost(connection, "end")
            return
        if data.startswith(b"HTTP/1.1 "):
            self.outcomes[f"{attack.name}: {data[9:12].decode()}"] += 1
        if attack.again and not connection.rest:
            connection.due = time.monotonic() + attack.interval * random.uniform(0.5, 1.5)

    def _drip(self, connection: _Connection, now: float) -> None:
        attack = connection.attack
        connection.due = 0.0 if attack.again else now + attack.interval
        if attack.again:
            connection.rest = self._first(attack)
            self._poll.modify(connection.socket.fileno(), select.EPOLLOUT | select.EPOLLRDHUP)
        elif not connection.rest:
            with suppress(OSError):
                connection.socket.send(attack.drip.encode())

    def _lost(self, connection: _Connection, how: str) -> None:
        self.outcomes[f"{connection.attack.name}: {how}"] += 1
        del self._open[connection.socket.fileno()]
        connection.socket.close()
        self._missing.append(connection.attack)


def main() -> None:
    """Attack until standard input ends."""
    port, attacks = int(sys.argv[1]), [Attack(**one) for one in json.loads(sys.argv[2])]
    os.set_blocking(0, False)
    swarm = Swarm(("127.0.0.1", port), attacks)
    while True:
        swarm.turn()
        try:
            if not os.read(0, 1):
                break
        except BlockingIOError:
            continue
    held = swarm.open
    swarm.close()
    print(json.dumps({"open": held, **swarm.outcomes}))


def spell(attacks: list[Attack]) -> str:
    """The second argument of this program."""
    return json.dumps([asdict(attack) for attack in attacks])


if __name__ == "__main__":
    main()
