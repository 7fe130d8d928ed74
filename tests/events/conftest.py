"""Relayed event streams through real sockets: natively, by the application, and on stock transports; the engine with one
thread and with three, the loop asyncio's and uvloop's."""

from collections.abc import AsyncIterator

import pytest

from support.leaks import engine_under_test
from support.loops import both_loops, leave_out

from .ways import Way

WAYS = [(name, threads) for name in ("native", "app") for threads in (1, 3)]
# The clients there are on the loop's own sockets.
WAYS += [("stock route", 1), ("stock relay", 1)]
# An edge, and a worker behind it.
WAYS += [("workers", 1)]


# On the engine's sockets the loop serves the test's clients alone, or is woken alike by one thread and by three; and to
# a route on stock transports it is what it is to a relay.
NEEDLESS = {
    *((("native", threads), "uvloop") for threads in (1, 3)),
    (("app", 1), "uvloop"),
    (("app", 3), "asyncio"),
    (("stock route", 1), "uvloop"),
    (("workers", 1), "uvloop"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items, "way", NEEDLESS)


pytest_asyncio_loop_factories = both_loops


@pytest.fixture(
    params=WAYS,
    ids=lambda way: f"{way[0]}, {way[1]} threads",
)
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    """One way to relay; afterwards every slab must be back, and no task of the test running."""
    name, threads = request.param
    async with engine_under_test(request, threads=threads) as engine:
        way = Way(engine, name)
        yield way
        await way.close()
        del way
