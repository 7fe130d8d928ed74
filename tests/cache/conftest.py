"""The cache through real sockets: raw clients in front, scripted origins behind, one engine thread or three."""

from collections.abc import AsyncIterator

import pytest

from edge.serving import Edges
from penstock import config
from penstock.config import OriginLimits
from support.leaks import engine_under_test


async def _caching(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    async with engine_under_test(
        request,
        threads=request.param,
        limits=OriginLimits(idle_timeout=30),
        cache=config.Cache(memory="8MiB"),
    ) as engine:
        edges = Edges(engine)
        yield edges
        await edges.close()
        del edges


THREADS = [pytest.param(1, id="one thread"), pytest.param(3, id="three threads")]

caching = pytest.fixture(_caching, params=THREADS, name="caching")
"""Sites whose engine has a cache."""
