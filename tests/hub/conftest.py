"""A hub behind sites of the engine's, with one engine thread and with three."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
from conftest import _forget, until
from edge.conftest import THREADS, _edges
from edge.serving import Edges

from .applications import Served
from .subscribers import Topics

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""


@pytest.fixture
async def topics(edge: Edges) -> AsyncIterator[Topics]:
    """Hubs of the test's own, which are closed when it ends."""
    topics = Topics(edge)
    yield topics
    topics.close()


@pytest.fixture(params=["one thread", "three threads", "stock"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    threads = 3 if request.param == "three threads" else 1
    async with penstock.Engine(memory="16MiB", threads=threads) as engine:
        served = Served(engine, request.param == "stock")
        yield served
        await served.close()
        del served
        _forget(request)
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        ours = asyncio.current_task()
        await until(lambda: asyncio.all_tasks() <= {ours}, "every task of the test has ended")
