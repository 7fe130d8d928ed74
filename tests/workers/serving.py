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
from support.command import Running, serve
from support.subscribers import Event, Reader
from support.waiting import until


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
        # A worker that starts has no handler yet, and the signal would end it.
        for pid in self.alive() & self.pids("started"):
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


APP = """
import asyncio, os, signal, sys, time
from pathlib import Path
from aiohttp import web
import penstock.workers

VERSION = "one"
Path(f"imported-{os.getpid()}").touch()
go_on = asyncio.Event()

async def starts(app):
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, go_on.set)
    Path(f"started-{os.getpid()}").touch()

async def who(request):
    return web.Response(text=f"{os.getpid()} {VERSION}")

async def about(request):
    body = await request.read()
    names = request.transport.get_extra_info("peername") or ("", 0)
    return web.json_response([request.remote, names[1], request.method, request.path_qs, len(body)])

async def held(request):
    await request.read()
    Path(f"held-{id(request)}-{os.getpid()}").touch()
    await go_on.wait()
    return web.Response(text=f"{os.getpid()} {VERSION}")

async def half(request):
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    try:
        await go_on.wait()
    except asyncio.CancelledError:
        print("cancelled", file=sys.stderr)
        raise
    await response.write(b"rest")
    return response

async def blocks(request):
    try:
        os.mkdir("blocked")
    except FileExistsError:
        return web.Response(text="not again")
    time.sleep(1000)

async def crafted(request):
    # As a worker would that was taken over: past what writes messages.
    worker = penstock.workers.current()
    data = Path("crafted").read_bytes()
    Path(f"crafted-{os.getpid()}").touch()
    if request.query["on"] == "link":
        worker.link._writer.write(data)
    else:
        worker.calls._sock.sendall(data)
    await asyncio.sleep(1000)

async def said(app):
    print("shut down", file=sys.stderr)

async def cleaned(app):
    print("cleaned up", file=sys.stderr)

def app():
    app = web.Application()
    app.on_startup.append(starts)
    app.on_shutdown.append(said)
    app.on_cleanup.append(cleaned)
    for handler in (who, about, held, half, blocks, crafted):
        app.router.add_route("*", f"/{handler.__name__}", handler)
    return app
"""


async def subscribed(serving: Serving, path: str, *fields: str) -> Reader:
    client = await serving.connect()
    await client.get(path, *fields)
    reader = Reader(client, await client.head())
    assert reader.head.status == 200, reader.head
    return reader


async def rest(reader: Reader) -> list[Event]:
    events = []
    while (event := await reader.event()) is not None:
        events.append(event)
    return events
