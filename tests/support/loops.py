"""The event loops that a test package runs on."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

# libuv opens a pipe for signals with its first loop and keeps it for the process: no test's descriptor.
uvloop.new_event_loop().close()


def both_loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """For a conftest's `pytest_asyncio_loop_factories`: every test runs on asyncio's loop and on uvloop's."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def leave_out(items: list[pytest.Item], fixture: str, pairs: set[tuple[object, str]]) -> None:
    """Leave out tests where a parameter of `fixture` meets a loop with which it proves nothing that others do not."""

    def is_needless(item: pytest.Item) -> bool:
        call = getattr(item, "callspec", None)
        if call is None or fixture not in call.params:
            return False
        return any((call.params[fixture], loop) in pairs for loop in call.id.split("-"))

    items[:] = [item for item in items if not is_needless(item)]
