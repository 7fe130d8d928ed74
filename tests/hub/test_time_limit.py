"""The limits on a log's answers count the time in which the event loop has run, on asyncio and on uvloop."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import pytest

from penstock.log.time_limit import loop_time, time_limit
from support.loops import both_loops

LIMIT = 0.1


async def nothing_comes() -> None:
    with pytest.raises(TimeoutError):
        async with time_limit(LIMIT):
            await asyncio.Event().wait()


async def a_limit_inside_is_its_own() -> None:
    async with time_limit(30.0):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()


async def what_came_while_the_loop_was_held_up_is_read() -> None:
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    with far:
        async with time_limit(LIMIT):
            for _ in range(3):
                waiting = asyncio.create_task(reader.readexactly(2))
                await asyncio.sleep(0)
                far.sendall(b"ab")
                time.sleep(2 * LIMIT)
                assert await waiting == b"ab"
        writer.close()
        await writer.wait_closed()


async def a_loop_that_is_always_late_ends_it() -> None:
    async def hold_up() -> None:
        while True:
            time.sleep(LIMIT / 4)
            await asyncio.sleep(0)

    holding = asyncio.create_task(hold_up())
    await loop_time(LIMIT)
    holding.cancel()


@pytest.mark.parametrize("loop", both_loops().values(), ids=both_loops())
@pytest.mark.parametrize(
    "case",
    [
        nothing_comes,
        a_limit_inside_is_its_own,
        what_came_while_the_loop_was_held_up_is_read,
        a_loop_that_is_always_late_ends_it,
    ],
)
def test_a_limit_counts_the_time_in_which_the_loop_has_run(
    loop: Callable[[], asyncio.AbstractEventLoop], case: Callable[[], Awaitable[None]]
) -> None:
    async def run() -> None:
        await case()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
