"""Workers, in processes of their own, and a parent and its workers in one process, which leave nothing behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.brokers.redis_server import RedisServer, a_redis
from support.relaying import family, relaying

__all__ = ["family", "relaying"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers are started, and what is imported is looked for."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    async with a_redis() as server:
        yield server
