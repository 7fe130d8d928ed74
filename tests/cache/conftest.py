"""The cache through real sockets: raw clients in front, scripted origins behind, one engine thread or three."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
from conftest import _forget, until
from edge.serving import Edges
from penstock import config
from penstock.config import OriginLimits


async def _caching(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    async with penstock.Engine(
        memory="16MiB",
        threads=request.param,
        limits=OriginLimits(idle_timeout=30),
        cache=config.Cache(memory="8MiB"),
    ) as engine:
        edges = Edges(engine)
        yield edges
        await edges.close()
        del edges
        _forget(request)
        assert engine.cache is not None
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        engine.cache.clear()
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        stats = engine.cache.stats()
        assert (stats.keys, stats.objects, stats.used) == (0, 0, 0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if not task.done()], "a task was left running"


THREADS = [pytest.param(1, id="one thread"), pytest.param(3, id="three threads")]

caching = pytest.fixture(_caching, params=THREADS, name="caching")
"""Sites whose engine has a cache."""
