"""Routes that ask who may, with one engine thread and with three, and on stock transports."""

import pytest

from edge.conftest import THREADS, _edges

edge = pytest.fixture(_edges, params=THREADS, name="edge")
"""Sites whose sockets the engine owns."""

anywhere = pytest.fixture(_edges, params=[*THREADS, pytest.param("stock", id="stock")], name="anywhere")
"""The same, and a stock runner that serves the same routes."""
