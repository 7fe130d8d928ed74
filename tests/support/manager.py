"""A service manager as `penstock serve` sees one: it is told of the state, and passes sockets."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .command import COMMAND, Running, listening
from .waiting import in_time

# It execs the rest of its arguments with the descriptors that it inherits as 3, 4 and so on, as a service manager does.
_PASS = """
import os, sys
numbers, rest = [int(text) for text in sys.argv[1].split(",")], sys.argv[2:]
# Out of the way first: a target may be one of the numbers.
high = [os.dup2(number, 100 + at) for at, number in enumerate(numbers)]
for at, number in enumerate(high):
    os.dup2(number, 3 + at, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(len(numbers))
os.execv(rest[0], rest)
"""


class Manager:
    """What is told through NOTIFY_SOCKET."""

    def __init__(self, address: str | Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.told: list[dict[str, str]] = []

    async def next(self) -> dict[str, str]:
        """The next datagram."""
        received = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        self.told.append(dict(line.split("=", 1) for line in received.decode().split("\n")))
        return self.told[-1]

    async def until(self, name: str, value: str = "1") -> dict[str, str]:
        """The next datagram that has the line `name=value`."""

        async def search() -> dict[str, str]:
            while True:
                found = await self.next()
                if found.get(name) == value:
                    return found

        return await in_time(search(), f"{name}={value} is told")

    def close(self) -> None:
        self._socket.close()


def passing(sockets: list[socket.socket], *arguments: str) -> list[str]:
    """The command of `penstock serve` with `sockets`, which it must inherit."""
    numbers = ",".join(str(each.fileno()) for each in sockets)
    return [sys.executable, "-c", _PASS, numbers, *COMMAND, "serve", *arguments]


@asynccontextmanager
async def serve_with(
    sockets: list[socket.socket], names: str | None, *arguments: str, directory: Path | None = None
) -> AsyncIterator[Running]:
    """`penstock serve` with `sockets` as a service manager passes them."""
    environment = dict(os.environ)
    if names is not None:
        environment["LISTEN_FDNAMES"] = names
    inherited = [each.fileno() for each in sockets]
    command = passing(sockets, *arguments)
    async with listening(*command, pass_fds=inherited, cwd=directory, env=environment) as running:
        yield running
