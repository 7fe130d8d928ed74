"""The leak check: after every test no descriptor and no directory of the sockets of workers is left, and an engine under
test has every slab and stream back."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.workers.directory import remove_left

from .waiting import DEADLINE, until

TASKS_END = 5.0
"""Seconds in which the tasks of a test must have ended once its servers are closed. Arbitrary."""


def forget(request: pytest.FixtureRequest) -> None:
    """Drop the fixtures' values, which pytest keeps until the whole test has ended, and collect what they kept alive."""
    request.node.funcargs.clear()
    gc.collect()


@asynccontextmanager
async def engine_under_test(
    request: pytest.FixtureRequest, *, memory: str = "16MiB", **settings: Any
) -> AsyncIterator[penstock.Engine]:
    """An engine of a test. After the block it must have no stream and no slab left, and the loop no task of the test.

    The block closes what uses the engine, and deletes its own references to it.
    """
    async with penstock.Engine(memory=memory, **settings) as engine:
        yield engine
        await nothing_is_left(request, engine)


async def nothing_is_left(request: pytest.FixtureRequest, engine: penstock.Engine) -> None:
    """Check an engine whose users are closed."""
    forget(request)
    await until(lambda: engine.stats().relays.draining == 0, "no body is drained any more")
    await until(lambda: engine.stats().streams == 0, "every stream has ended")
    if engine.cache is not None:
        engine.cache.clear()
    await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
    if engine.cache is not None:
        stats = engine.cache.stats()
        assert (stats.keys, stats.objects, stats.used) == (0, 0, 0), "the cache is empty once it is cleared"
    ours = asyncio.current_task()
    await until(
        lambda: all(task is ours or task.done() for task in asyncio.all_tasks()),
        lambda: (
            f"every task of the test has ended: {[task for task in asyncio.all_tasks() if task is not ours]}"
        ),
        within=TASKS_END,
    )


@contextmanager
def no_directory_is_left(where: Path) -> Iterator[None]:
    """Fails if a parent of workers has left the directory of their sockets. A test that kills one calls `killed`."""
    yield
    left = remove_left(where)
    assert not left, f"directories of the sockets of workers are left: {left}"


@contextmanager
def no_descriptor_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails if more descriptors are open after the block than before it."""
    gc.collect()
    # What exists before a test is not its garbage, and most of it is for good: to look through all of it after each
    # test, with what pytest keeps of those before it, took half of the time.
    gc.freeze()
    before = descriptors()
    yield
    forget(request)
    end = time.monotonic() + DEADLINE
    while len(after := descriptors()) > len(before):
        if time.monotonic() > end:
            pytest.fail(f"descriptors left open: { {k: v for k, v in after.items() if k not in before} }")
        time.sleep(0.002)


def killed() -> None:
    """Remove what a process that a test has killed could not."""
    remove_left(Path(os.environ["TMPDIR"]))


def descriptors() -> dict[str, str]:
    """The open descriptors of this process, and what each refers to."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
    return found
