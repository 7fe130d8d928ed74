"""Upgrades of `penstock serve` as a process of its own: the processes that follow each other."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .client import RawClient
from .command import Running, serve
from .waiting import in_time, until

SERVES = re.compile(r"upgrade: process (\d+) serves")
FAILED = re.compile(r"the upgrade has failed")
MOVED = re.compile(r"(\d+) event streams have moved, and (\d+) could not")
BEGINS = re.compile(r"process (\d+) begins")

# `penstock`, but for that one of the two processes ends itself at a message.
DYING = """
import os, signal, sys
side, when, step = os.environ["STEP"].split()
is_next = "PENSTOCK_UPGRADE_SOCKET" in os.environ
print(f"process {os.getpid()} begins", file=sys.stderr, flush=True)
if (side == "next") == is_next:
    if is_next:
        import penstock.serving.predecessor as module
    else:
        import penstock.serving.successor as module
    send, receive = module.send, module.receive
    def end_at(moment, message):
        if (when, step) == (moment, type(message).__name__.lower()):
            os.kill(os.getpid(), getattr(signal, os.environ.get("SIGNAL", "SIGKILL")))
    def end_and_send(link, message, *more):
        end_at("before", message)
        send(link, message, *more)
        end_at("after", message)
    def receive_and_end(link):
        found = receive(link)
        end_at("at", found[0])
        return found
    module.send, module.receive = end_and_send, receive_and_end
from penstock.cli import main
main()
"""


async def gone(process: int) -> None:
    """Wait until a process has ended, of which this one need not be the parent."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await in_time(ended.wait(), f"process {process} has ended")
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def ask(port: int, target: str = "/") -> bytes:
    """The body of an answer on a connection of its own."""
    client = await RawClient.connect(port)
    try:
        return (await in_time(client.ask(target))).body
    finally:
        client.abort()


class Line:
    """Processes that have served at one port, the newest last."""

    def __init__(self, running: Running) -> None:
        self.first = running
        self.processes = [running.process.pid]

    @property
    def port(self) -> int:
        return self.first.port

    @property
    def newest(self) -> int:
        return self.processes[-1]

    async def upgrade(self) -> int:
        """Have the newest process be upgraded by a signal; the number of the one that serves then."""
        os.kill(self.newest, signal.SIGUSR2)
        return await self.upgraded()

    async def upgraded(self) -> int:
        """The number of the process that serves after the upgrade that is under way."""
        self.processes.append(int((await self.first.wait_for(SERVES))[1]))
        return self.newest

    async def ended(self, process: int) -> None:
        """Wait until an earlier process has ended."""
        await gone(process)
        if process == self.first.process.pid:
            # Not its `wait`, which waits for all processes that have its standard error.
            await until(lambda: self.first.process.returncode is not None, "the first process is reaped")

    async def connect(self) -> RawClient:
        return await RawClient.connect(self.port)

    async def ask(self, target: str = "/") -> bytes:
        """As the function."""
        return await ask(self.port, target)


@asynccontextmanager
async def serving(
    *arguments: str, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Line]:
    """`penstock serve` and what follows it. Each must end well once the newest is stopped."""
    async with serve(*arguments, directory=directory, environment=environment) as running:
        line = Line(running)
        try:
            yield line
        finally:
            for process in reversed(line.processes):
                if process != running.process.pid or running.process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGTERM)
            for process in line.processes:
                await line.ended(process)
