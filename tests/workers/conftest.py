"""Workers, in processes of their own, and a parent and its workers in one process, which leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import penstock
from brokers.redis_server import RedisServer, a_redis
from penstock import config
from support.leaks import engine_under_test, forget
from support.waiting import until

from .family import Family
from .relaying import Relaying


@pytest.fixture
async def family(request: pytest.FixtureRequest) -> AsyncIterator[Family]:
    async with engine_under_test(
        request, cache=config.Cache(memory="4MiB"), limits=config.OriginLimits(idle_timeout=30)
    ) as engine:
        family = Family(engine)
        yield family
        await family.close()
        del family


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers are started, and what is imported is looked for."""
    monkeypatch.chdir(tmp_path)
    # What is changed within a second of its being compiled would not be seen to have changed.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return tmp_path


@pytest.fixture
async def relaying(request: pytest.FixtureRequest, family: Family) -> AsyncIterator[Relaying]:
    worker = await family.worker()
    family.ready(worker)
    with worker.inside():
        own = await asyncio.to_thread(penstock.Engine, memory="16MiB", threads=1)
    async with own:
        relaying = Relaying(family, worker, own)
        yield relaying
        await relaying.close()
        del relaying
        forget(request)
        await until(lambda: own.stats().pool.live_bytes == 0, "every slab of the worker is back")


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    async with a_redis() as server:
        yield server
