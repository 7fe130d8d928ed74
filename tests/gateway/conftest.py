"""The gateway through real sockets: raw clients in front, scripted origins behind, on asyncio and on
uvloop."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

import penstock
from support.client import RawClient
from support.loops import both_loops, leave_out

from .server import Served, Serving

Connect = Callable[[Served], Awaitable[RawClient]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # How the engine's sockets get on with uvloop, tests/lane shows.
    leave_out(items, "transport", {("site", "uvloop"), ("workers", "uvloop")})


pytest_asyncio_loop_factories = both_loops


@pytest.fixture(params=["stock", "site", "workers"])
def transport(request: pytest.FixtureRequest) -> str:
    """Whose sockets the clients are connected to: the event loop's, the engine's, or those of an edge before workers."""
    return request.param


@pytest.fixture
async def serving(engine: penstock.Engine, transport: str) -> AsyncIterator[Serving]:
    """Serves applications and single handlers on ports of their own, until the test ends."""
    serving = Serving(engine, transport)
    yield serving
    await serving.close()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens raw connections, which are closed when the test ends."""
    clients: list[RawClient] = []

    async def connect(served: Served) -> RawClient:
        clients.append(await RawClient.connect(served.port))
        return clients[-1]

    yield connect
    for client in clients:
        client.abort()
