"""A thread for work in bulk that requests come before."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

__all__ = ["background"]

# A third of the weight of a thread that serves, where they share a core; all of a core that is idle.
_NICE: Final = 5


def background() -> ThreadPoolExecutor:
    """One thread that has less of a processor than others get that want it. To be closed; its work then is over."""
    return ThreadPoolExecutor(1, "penstock-background", _yield)


def _yield() -> None:
    # Linux has it of a thread (setpriority(2), "C library/kernel differences"), other systems of the process, which
    # could not take it back.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
