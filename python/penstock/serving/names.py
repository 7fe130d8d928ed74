"""What is wrong with a name that a command was given: of an application, or of what is to be installed."""

import importlib
import traceback
from pathlib import Path
from typing import Final

__all__ = ["FailedError", "NotFoundError"]

_PACKAGE: Final = str(Path(__file__).parent.parent)


class NotFoundError(Exception):
    """What was named is not there, or is no application; the text says what to write."""


class FailedError(Exception):
    """The application's own code has failed, which is the cause. The text has its traceback, from its own code on."""

    def __init__(self, what: str, cause: Exception) -> None:
        shown = traceback.TracebackException.from_exception(cause)
        # Neither how one gets there nor how Python imports is of use to who wrote it.
        others = (_PACKAGE, importlib.__file__, "<frozen importlib")
        own = [frame for frame in shown.stack if not frame.filename.startswith(others)]
        shown.stack = traceback.StackSummary.from_list(own)
        super().__init__(f"{''.join(shown.format())}{what}")
