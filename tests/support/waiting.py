"""Waiting with a deadline, for what another thread, process or task does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds after which a wait fails. Arbitrary; far above what a busy machine needs."""


async def until(
    condition: Callable[[], object], what: str | Callable[[], str], *, within: float = DEADLINE
) -> None:
    """Poll until `condition` holds; after `within` seconds the test fails with `what`, or what that returns then."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {within} s: {what() if callable(what) else what}")
        await asyncio.sleep(0.002)


async def in_time(awaitable: Awaitable[T], what: str = "", *, within: float = DEADLINE) -> T:
    """Await what would wait for ever only if something is broken; after `within` seconds the test fails with `what`.

    The default of `what` is the name of the coroutine.
    """
    limit = asyncio.timeout(within)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if not limit.expired():
            raise
    pytest.fail(f"not within {within} s: {what or getattr(awaitable, '__qualname__', repr(awaitable))}")


async def settled(value: Callable[[], T], what: str, *, quiet: float = 0.2) -> T:
    """Poll until `value` has not changed for `quiet` seconds, and return it.

    For what has no event of its own: that a sender whose buffers are full has stopped.
    """
    last, since, end = value(), time.monotonic(), time.monotonic() + DEADLINE
    while time.monotonic() < since + quiet:
        if time.monotonic() > end:
            pytest.fail(f"not within {DEADLINE} s: {what}")
        await asyncio.sleep(quiet / 10)
        if (now := value()) != last:
            last, since = now, time.monotonic()
    return last


def until_blocking(condition: Callable[[], object], what: str) -> None:
    """The same as `until` while the event loop stands still: for what the engine does without Python."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {DEADLINE} s: {what}")
        time.sleep(0.002)
