"""A hub behind sites of the engine's, with one engine thread and with three."""

from collections.abc import AsyncIterator

import pytest

from edge.conftest import THREADS, _edges
from edge.serving import Edges

from .subscribers import Topics

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""


@pytest.fixture
async def topics(edge: Edges) -> AsyncIterator[Topics]:
    """Hubs of the test's own, which are closed when it ends."""
    topics = Topics(edge)
    yield topics
    topics.close()
