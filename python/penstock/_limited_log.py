"""Log lines that clients can cause: one for each cause at once, and then one in each interval, which counts the others.

The same rule as for origins that fail (`penstock.origins`, in the engine): a flood of requests that fail alike costs
the log no more than a few of them. For all of the package; what is counted is an event loop's, and only its thread
writes there.
"""

import asyncio
import logging
import weakref
from collections.abc import Hashable
from typing import Final

__all__ = ["LimitedLog"]

# Seconds between two lines of a cause: as `config.OriginLimits.log_interval` is by default, for the same reason.
_INTERVAL: Final = 10.0
# Causes that are told apart, for each loop (arbitrary). More are not logged until others have been quiet.
_MOST_CAUSES: Final = 1024

_Line = tuple[int, str, tuple[object, ...]]


class _Cause:
    """One that has had a line."""

    __slots__ = ("latest", "left_out", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        """On the loop's clock: it has no other line before."""
        self.latest: _Line | None = None
        """The latest that had none, which stands for all of them."""
        self.left_out = 0
        """How many there were besides the latest."""


class LimitedLog:
    """Writes to `logger`.

    Lines of one cause are those of equal `cause`: choose what no client can make up, such as the name of a route and
    the class of an exception. A line that is written while no loop runs has no limit.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._causes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Cause]] = (
            weakref.WeakKeyDictionary()
        )

    def log(
        self,
        level: int,
        cause: Hashable,
        message: str,
        *arguments: object,
        error: BaseException | None = None,
    ) -> None:
        """Log `message` with its arguments, which are kept until the interval is over.

        The first line of a cause has the traceback of `error`, and later ones its text.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._logger.log(level, message, *arguments, exc_info=error)
            return
        causes = self._causes.setdefault(loop, {})
        now = loop.time()
        known = causes.get(cause)
        if known is None or (known.until <= now and known.latest is None):
            if known is None and not _make_room(causes, now):
                return
            causes[cause] = _Cause(now + _INTERVAL)
            self._logger.log(level, message, *arguments, exc_info=error)
            return
        if error is not None:
            message, arguments = f"{message}: %s", (*arguments, repr(error))
        if known.latest is None:
            loop.call_at(known.until, self._write, causes, cause)
        else:
            known.left_out += 1
        known.latest = (level, message, arguments)

    def _write(self, causes: dict[Hashable, _Cause], cause: Hashable) -> None:
        """Write the latest line of a cause at the end of the interval, and begin another interval."""
        known = causes[cause]
        assert known.latest is not None  # noqa: S101 (only this takes it)
        level, message, arguments = known.latest
        if known.left_out:
            message, arguments = f"{message}; %d more since the line before", (*arguments, known.left_out)
        causes[cause] = _Cause(asyncio.get_running_loop().time() + _INTERVAL)
        self._logger.log(level, message, *arguments)


def _make_room(causes: dict[Hashable, _Cause], now: float) -> bool:
    """Forget causes that have been quiet, if there are too many. False: there still are."""
    if len(causes) >= _MOST_CAUSES:
        for cause in [each for each, known in causes.items() if known.until <= now and known.latest is None]:
            del causes[cause]
    return len(causes) < _MOST_CAUSES
