"""Relayed event streams through real sockets: natively, by the application, and on stock transports; the engine with one
thread and with three, the loop asyncio's and uvloop's."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

import penstock
from conftest import _forget, leave_out, until

from .ways import Way

# libuv opens a pipe for signals with its first loop and keeps it for the process: no test's descriptor.
uvloop.new_event_loop().close()

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


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(
    params=WAYS,
    ids=lambda way: f"{way[0]}, {way[1]} threads",
)
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    """One way to relay; afterwards every slab must be back, and no task of the test running."""
    name, threads = request.param
    async with penstock.Engine(memory="16MiB", threads=threads) as engine:
        way = Way(engine, name)
        yield way
        await way.close()
        del way
        _forget(request)
        await until(lambda: engine.stats().relays.draining == 0, "nothing is read on")
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        ours = asyncio.current_task()
        await until(lambda: asyncio.all_tasks() <= {ours}, "every task of the test has ended")
