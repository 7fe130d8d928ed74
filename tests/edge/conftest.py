"""The edge through real sockets: raw clients in front, scripted origins behind, with one engine thread and with three.

Where the meaning must not depend on who serves a route, a stock aiohttp runner is a third way.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
from conftest import _forget, until
from penstock.config import OriginLimits

from .serving import Edges


async def _edges(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    stock = request.param == "stock"
    threads = 1 if stock else request.param
    # No origin's connection outlives its use by more than that, so that what is left is seen. It is taken with the head
    # of a request, so that tests can step through its body; tests/overload have the default.
    async with penstock.Engine(
        memory="16MiB", threads=threads, limits=OriginLimits(idle_timeout=30, upload_part=0)
    ) as engine:
        edges = Edges(engine, stock=stock)
        yield edges
        await edges.close()
        del edges
        _forget(request)
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if not task.done()], "a task was left running"


THREADS = [pytest.param(1, id="one thread"), pytest.param(3, id="three threads")]

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""

anywhere = pytest.fixture(_edges, params=[*THREADS, pytest.param("stock", id="stock")], name="anywhere")
"""The same, and a stock runner that serves the same routes."""
