"""A parent and its workers, which leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import penstock
from conftest import _forget, until
from penstock import config

from .family import Family


@pytest.fixture
async def family(request: pytest.FixtureRequest) -> AsyncIterator[Family]:
    async with penstock.Engine(
        memory="16MiB", cache=config.Cache(memory="4MiB"), limits=config.OriginLimits(idle_timeout=30)
    ) as engine:
        family = Family(engine)
        yield family
        await family.close()
        assert engine.cache is not None
        engine.cache.clear()
        del family
        _forget(request)
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if not task.done()], "a task was left running"
