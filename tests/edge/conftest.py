"""The edge through real sockets: raw clients in front, scripted origins behind, with one engine thread and with three.

Where the meaning must not depend on who serves a route, a stock aiohttp runner is a third way.
"""

from collections.abc import AsyncIterator

import pytest

from penstock.config import OriginLimits
from support.leaks import engine_under_test

from .serving import Edges


async def _edges(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    stock = request.param == "stock"
    threads = 1 if stock else request.param
    # No origin's connection outlives its use by more than that, so that what is left is seen. It is taken with the head
    # of a request, so that tests can step through its body; tests/overload have the default.
    limits = OriginLimits(idle_timeout=30, upload_part=0)
    async with engine_under_test(request, threads=threads, limits=limits) as engine:
        edges = Edges(engine, stock=stock)
        yield edges
        await edges.close()
        del edges


THREADS = [pytest.param(1, id="one thread"), pytest.param(3, id="three threads")]

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""

anywhere = pytest.fixture(_edges, params=[*THREADS, pytest.param("stock", id="stock")], name="anywhere")
"""The same, and a stock runner that serves the same routes."""
