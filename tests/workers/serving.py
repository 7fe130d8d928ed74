"""`penstock serve MODULE:APP --workers 2` as a process of its own, and its clients.

An application leaves a file `imported-PID` where it is imported, by which its workers are known.
"""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.client import RawClient
from support.waiting import until
from test_cli import Running, serve


class Serving:
    """A running command, its directory and its clients."""

    def __init__(self, running: Running, directory: Path) -> None:
        self.running = running
        self.directory = directory
        self.clients: list[RawClient] = []

    async def connect(self) -> RawClient:
        self.clients.append(await RawClient.connect(self.running.port))
        return self.clients[-1]

    async def ask(self, target: str, method: str = "GET") -> str:
        reply = await (await self.connect()).ask(target, method=method)
        assert reply.head.status == 200, reply
        return reply.body.decode()

    async def status(self, target: str) -> int:
        return (await (await self.connect()).ask(target)).head.status

    async def begin(self, target: str, *fields: str, method: str = "GET") -> "asyncio.Task[tuple[int, str]]":
        """A request; its answer is the task's."""
        client = await self.connect()
        await client.get(target, *fields, method=method)

        async def answer() -> tuple[int, str]:
            head = await client.head()
            return head.status, (await client.body(head)).decode()

        return asyncio.create_task(answer())

    async def hold(self, *fields: str, method: str = "GET") -> "asyncio.Task[tuple[int, str]]":
        """A request that a worker holds until it is released."""
        before = len(self.held())
        answer = await self.begin("/held", *fields, method=method)
        await until(lambda: len(self.held()) > before, "a worker has it")
        return answer

    def held(self) -> list[Path]:
        """What is left by each request that is held, or was."""
        return list(self.directory.glob("held-*"))

    def holding(self) -> set[int]:
        """Workers that hold a request, or did."""
        return self.pids("held")

    def pids(self, mark: str = "imported") -> set[int]:
        return {int(path.name.rpartition("-")[2]) for path in self.directory.glob(f"{mark}-*")}

    def alive(self) -> set[int]:
        return {pid for pid in self.pids() if is_alive(pid)}

    def release(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGUSR1)

    async def logged(self, pattern: str) -> re.Match[str]:
        return await self.running.wait_for(re.compile(pattern))


def is_alive(pid: int) -> bool:
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@asynccontextmanager
async def workers(directory: Path, *options: str, app: str) -> AsyncIterator[Serving]:
    """The command with two workers."""
    (directory / "mine.py").write_text(app)
    async with serve("mine:app", "--workers", "2", *options, directory=directory) as running:
        serving = Serving(running, directory)
        try:
            yield serving
        finally:
            for client in serving.clients:
                client.abort()
    await until(lambda: not serving.alive(), "no worker is left")
