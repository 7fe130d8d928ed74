"""Limits on the time that a log may take to answer. They count only time in which the event loop has run.

If a handler computes for too long, it holds up the loop. An answer that came meanwhile has not been read: this
process is late then, and not the log.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["loop_time", "time_limit"]

# A limit is counted in so many steps. Arbitrary: to be held up for less than a tenth of the limit makes no difference.
_STEPS: Final = 10


@contextlib.asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Cancel the block when the event loop has run for `seconds`.

    A step that ends late by more than its own length does not count. At most ten steps are left out, so that a loop
    that is always late does not extend the limit without end.

    Raises:
        TimeoutError: the time is over, and the block has been cancelled.
    """
    loop = asyncio.get_running_loop()
    step = seconds / _STEPS
    on_time = late = 0
    due = loop.time() + step
    timer: asyncio.TimerHandle

    def count() -> None:
        nonlocal on_time, late, due, timer
        if loop.time() - due > step and late < _STEPS:
            late += 1
        else:
            on_time += 1
        if on_time == _STEPS:
            limit.reschedule(loop.time())
            return
        due = loop.time() + step
        timer = loop.call_at(due, count)

    timer = loop.call_at(due, count)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    finally:
        timer.cancel()


async def loop_time(seconds: float) -> None:
    """Wait until the event loop has run for `seconds`, counted as in `time_limit`."""
    with contextlib.suppress(TimeoutError):
        async with time_limit(seconds):
            await asyncio.get_running_loop().create_future()
