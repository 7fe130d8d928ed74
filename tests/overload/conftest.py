"""Sites on an engine with little memory and the settings that a user gets, on one engine thread and on three."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import penstock
from penstock.config import OriginLimits
from penstock.framing import Fixed
from penstock.metrics import text
from penstock.testing import Peer
from support.client import answer
from support.edges import Edges
from support.leaks import engine_under_test
from support.waiting import until

CONNECTIONS = 4
"""To an origin, for each engine thread."""


class Overloaded(Edges):
    """Sites of an engine of 4 MiB."""

    def __init__(self, engine: penstock.Engine, threads: int) -> None:
        super().__init__(engine)
        self.threads = threads

    def text(self) -> str:
        """All metrics."""
        return text(self.engine)

    def count(self, name: str, **labels: str) -> float:
        return count(self.engine, name, **labels)


def count(engine: penstock.Engine, name: str, **labels: str) -> float:
    """The value of a metric; 0 if it is missing."""
    wanted = ",".join(f'{label}="{value}"' for label, value in labels.items())
    for line in text(engine).splitlines():
        if line.startswith(f"penstock_{name}" + (f"{{{wanted}}}" if wanted else "") + " "):
            return float(line.rpartition(" ")[2])
    return 0.0


async def endless(peer: Peer, asked: list[str] | None = None) -> None:
    """`/` is small; anything else has no end. What is asked for is appended to `asked`."""
    while True:
        request = await peer.request()
        if asked is not None:
            asked.append(request.target)
        if request.target == "/":
            await peer.send(answer("Content-Length: 2", body=b"ok"))
            continue
        await peer.send(answer("Cache-Control: no-store"))
        while True:
            await peer.send(b"x" * 65536)


@asynccontextmanager
async def full_pool(engine: penstock.Engine) -> AsyncIterator[None]:
    """Frames that a program keeps, until there is no more memory for others."""
    frames: list[asyncio.Task[penstock.Frame]] = []
    async with AsyncExitStack() as streams:
        while engine.stats().pool.state != "full":
            zeros = penstock.open_fd(os.open("/dev/zero", os.O_RDONLY), framing=Fixed(65536), engine=engine)
            frames.append(asyncio.ensure_future(anext(await streams.enter_async_context(zeros))))
            await until(
                lambda: frames[-1].done() or engine.stats().pool.state == "full",
                "it is read, or the pool is full",
            )
        yield
        for frame in frames:
            frame.cancel()
        frames.clear()


@pytest.fixture(params=[pytest.param(1, id="one thread"), pytest.param(3, id="three threads")])
async def edge(request: pytest.FixtureRequest) -> AsyncIterator[Overloaded]:
    limits = OriginLimits(connections=CONNECTIONS, waiting=64, idle_timeout=30, upload_percent=50)
    async with engine_under_test(request, memory="4MiB", threads=request.param, limits=limits) as engine:
        edges = Overloaded(engine, request.param)
        yield edges
        await edges.close()
        del edges
