"""How a process that serves starts: the loop that it runs on, and where it logs."""

import asyncio
import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable

from .names import NotFoundError

__all__ = ["log_to_stderr", "loop_factory"]


def loop_factory(uvloop: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop: uvloop, asyncio's own, or, for None, uvloop if it is installed.

    Raises:
        NotFoundError: uvloop is wanted, and not installed.
    """
    if uvloop is False:
        return None
    if importlib.util.find_spec("uvloop") is None:
        if uvloop:
            raise NotFoundError("--uvloop: uvloop is not installed: pip install uvloop")
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def log_to_stderr(level: str) -> None:
    """Log what is of `level` or above to standard error, in the form of `penstock serve`."""
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
