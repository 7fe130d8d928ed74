"""The `penstock` command as a process of its own."""

import asyncio
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from . import leaks
from .client import RawClient
from .waiting import DEADLINE

COMMAND = (sys.executable, "-m", "penstock")
LISTENING = re.compile(r"listening on (\S+)")


class Running:
    """`penstock serve`, until the block ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The next line of the log that has `pattern`."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            async for raw in self.process.stderr:
                self.lines.append(raw.decode().rstrip())
                if found := pattern.search(self.lines[-1]):
                    return found
        raise AssertionError(f"no line has {pattern.pattern!r}: {self.lines}")

    async def ended(self) -> int:
        """The exit status, once the process has ended; its log is in `lines` then."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            self.lines += (await self.process.stderr.read()).decode().splitlines()
            return await self.process.wait()

    def log(self) -> str:
        return "\n".join(self.lines)


@asynccontextmanager
async def serve(
    *arguments: str,
    directory: Path | None = None,
    command: Sequence[str] = COMMAND,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Running]:
    whole = (*command, "serve", "--listen", "127.0.0.1:0", *arguments)
    async with listening(*whole, cwd=directory, env=environment) as running:
        yield running


@asynccontextmanager
async def listening(*command: str, **options: Any) -> AsyncIterator[Running]:
    """`command`, which is `penstock serve`, once it listens; `options` are those of subprocesses."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, **options)
    running = Running(process)
    try:
        running.url = (await running.wait_for(LISTENING))[1]
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        if await running.ended() == -signal.SIGKILL:
            leaks.killed()


def run(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=directory
    )


async def asked(*arguments: str) -> tuple[int, str, str]:
    """Exit status, what the command prints and what it complains of; this loop goes on meanwhile."""
    ended = await asyncio.to_thread(run, *arguments)
    return ended.returncode, ended.stdout, ended.stderr


async def refused(running: Running) -> None:
    """Wait until nothing listens any more: a connection in the listener's queue until then is no request."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                (await RawClient.connect(running.port)).abort()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                # The listener was closed while this one stood in its queue.
                continue


def free_port() -> int:
    """A port that nothing listens to, below the range from which the kernel gives ports to other sockets."""
    for port in random.sample(range(10_000, 30_000), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")
