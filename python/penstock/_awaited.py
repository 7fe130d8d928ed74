"""Tasks that a server waits for before it accepts connections: keys that are being fetched (`penstock.tokens`)."""

import asyncio
import weakref
from typing import Any, Final

__all__ = ["await_at_start", "awaited_at_start"]

_tasks: "Final[weakref.WeakSet[asyncio.Task[Any]]]" = weakref.WeakSet()


def await_at_start(task: "asyncio.Task[Any]") -> None:
    """Have servers on the loop of `task` wait for it, if they start before it ends. The caller keeps the task."""
    _tasks.add(task)


async def awaited_at_start(loop: asyncio.AbstractEventLoop) -> None:
    """Wait for the tasks of `loop` that have not ended, or for their failure."""
    tasks = [task for task in _tasks if task.get_loop() is loop and not task.done()]
    if tasks:
        await asyncio.wait(tasks)
