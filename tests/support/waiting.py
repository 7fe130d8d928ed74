"""Waiting with a deadline, for what another thread, process or task does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds after which a wait fails. Arbitrary; far above what a busy machine needs."""


async def until(condition: Callable[[], object], what: str, *, within: float = DEADLINE) -> None:
    """Poll until `condition` holds; after `within` seconds the test fails with `what`."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {within} s: {what}")
        await asyncio.sleep(0.002)


async def in_time(awaitable: Awaitable[T], what: str = "", *, within: float = 10.0) -> T:
    """Await what would wait for ever only if something is broken; after `within` seconds the test fails with `what`."""
    try:
        async with asyncio.timeout(within) as limit:
            return await awaitable
    except TimeoutError:
        if limit.expired() and what:
            pytest.fail(f"not within {within} s: {what}")
        raise
