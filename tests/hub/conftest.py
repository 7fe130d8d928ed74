"""A hub behind sites of the engine's, with one engine thread and with three."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edge.conftest import THREADS, _edges
from edge.serving import Edges

from .nodes import Nodes
from .redis_server import RedisServer, need_redis
from .subscribers import Topics

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""


@pytest.fixture
async def topics(edge: Edges) -> AsyncIterator[Topics]:
    """Hubs of the test's own, which are closed when it ends."""
    topics = Topics(edge)
    yield topics
    topics.close()


@pytest.fixture
async def redis() -> AsyncIterator[RedisServer]:
    """A Redis of the test's own, which runs."""
    need_redis()
    # pytest's own directories have longer names than sockets may.
    with tempfile.TemporaryDirectory(prefix="r") as directory:
        server = RedisServer(Path(directory))
        await server.start()
        yield server
        server.end()


@pytest.fixture
async def nodes(edge: Edges, redis: RedisServer) -> AsyncIterator[Nodes]:
    """Hubs that share it."""
    nodes = Nodes(edge, redis)
    yield nodes
    await nodes.close()
