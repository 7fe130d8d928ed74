"""What every test is held to: real sockets, and nothing left behind - no slab, descriptor or task."""

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import penstock
import penstock.config

DEADLINE = 30.0

# A shell has what it starts in the background ignore SIGINT, and nohup has it ignore SIGHUP. The programs under test
# would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# The first engine of a process opens the signal pipe that tokio keeps for good; it is no test's.
penstock.Engine(memory="1MiB").close()


def leave_out(items: list[pytest.Item], fixture: str, pairs: set[tuple[object, str]]) -> None:
    """Leaves out tests where a parameter of `fixture` meets a loop with which it proves nothing that others do not."""

    def is_needless(item: pytest.Item) -> bool:
        call = getattr(item, "callspec", None)
        if call is None or fixture not in call.params:
            return False
        return any((call.params[fixture], loop) in pairs for loop in call.id.split("-"))

    items[:] = [item for item in items if not is_needless(item)]


async def until(condition: Callable[[], object], what: str) -> None:
    """Waits for a condition that another thread or process brings about."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {DEADLINE} s: {what}")
        await asyncio.sleep(0.002)


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
    return found


def _forget(request: pytest.FixtureRequest) -> None:
    # pytest keeps what fixtures gave until the whole test is over.
    request.node.funcargs.clear()
    gc.collect()


@pytest.fixture(autouse=True)
def logs_keep_the_text_of_errors_alone() -> Iterator[None]:
    """pytest keeps log records; one with a traceback would keep its frames alive, and they the engine."""
    make = logging.getLogRecordFactory()

    def record(*args: Any, **named: Any) -> logging.LogRecord:
        record = make(*args, **named)
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if any(isinstance(value, BaseException) for value in record.args or ()):
            record.msg, record.args = record.getMessage(), ()
        return record

    logging.setLogRecordFactory(record)
    yield
    logging.setLogRecordFactory(make)


@pytest.fixture(autouse=True)
def no_descriptor_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    gc.collect()
    # What exists before a test is not its garbage, and most of it is for good: to look through all of it behind each
    # test, with what pytest keeps of those before it, took half of the time.
    gc.freeze()
    before = _descriptors()
    yield
    _forget(request)
    end = time.monotonic() + DEADLINE
    while len(after := _descriptors()) > len(before):
        if time.monotonic() > end:
            pytest.fail(f"descriptors left open: { {k: v for k, v in after.items() if k not in before} }")
        time.sleep(0.002)


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[penstock.Engine]:
    """A small engine; afterwards every slab must be back and no task of the test running.

    A connection is taken with the head of a request, so that tests can step through its body: tests/overload have the
    default.
    """
    limits = penstock.config.OriginLimits(upload_part=0)
    async with penstock.Engine(memory="16MiB", limits=limits) as engine:
        yield engine
        _forget(request)
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        await until(lambda: engine.stats().streams == 0, "every stream has ended")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if not task.done()], "a task was left running"
