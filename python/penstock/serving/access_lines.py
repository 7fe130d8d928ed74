"""Where the lines of an access log go: a file, which the engine writes, or a `logging.Logger`.

The engine puts all lines into one queue, in the order in which the responses end. A thread of this module hands them to
a logger: neither the engine nor the event loop waits for its handlers.
"""

import atexit
import logging
import threading
from typing import ClassVar, Final

from penstock import _native
from penstock.config import AccessLog

__all__ = ["AccessFile", "AccessLines", "reopen_files"]

_log: Final = logging.getLogger("penstock.web")

# Seconds that a stop waits for the handlers of a logger, or for a file (arbitrary): one that hangs must not keep the
# process.
_PATIENCE: Final = 5.0


# Of sites that serve.
_files: Final[set["AccessFile"]] = set()


class AccessFile:
    """The file, or the standard error, of one site's lines.

    Raises:
        SystemFailureError: the file cannot be opened (FILE_FAILED).
    """

    def __init__(self, settings: AccessLog) -> None:
        self._path = str(settings.path)
        self.native: Final = _native.AccessLog(self._path, settings.parts)
        _files.add(self)

    def leave(self) -> None:
        """The site has ended. Its lines are written: the engine would write the last in 100 ms, and may end before."""
        _files.discard(self)
        if not self.native.close(_PATIENCE):
            _log.warning("the access log %r has not taken all lines within %g s", self._path, _PATIENCE)


def reopen_files() -> None:
    """Open the files of all access logs anew, which SIGUSR1 asks for: a program has moved them away."""
    for file in list(_files):
        file.native.reopen()


class AccessLines:
    """What hands lines to a logger: one for all sites that log to it, so that they are in one order."""

    _open: ClassVar[dict[logging.Logger, "AccessLines"]] = {}

    def __init__(self, logger: logging.Logger) -> None:
        self.native: Final = _native.AccessLog()
        self._logger = logger
        self._users = 0
        self._thread = threading.Thread(target=self._run, name="penstock-access-log", daemon=True)

    @classmethod
    def join(cls, logger: logging.Logger) -> "AccessLines":
        """That of `logger`, until `leave` is called."""
        lines = cls._open.get(logger)
        if lines is None:
            lines = cls._open[logger] = cls(logger)
            lines._thread.start()
            # Before the interpreter ends: a thread that comes back to it then cannot go on.
            atexit.register(lines._end)
        lines._users += 1
        return lines

    def leave(self) -> None:
        """A site has ended. With the last one all lines are handed over."""
        self._users -= 1
        if self._users == 0:
            del self._open[self._logger]
            atexit.unregister(self._end)
            self._end()

    def _end(self) -> None:
        self.native.close(0)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            _log.warning("the handlers of the logger %r have not taken all lines", self._logger.name)

    def _run(self) -> None:
        while (taken := self.native.take()) is not None:
            lines, dropped = taken
            for line in lines:
                # The line is no format.
                self._logger.info("%s", line)
            if dropped:
                self._logger.warning("%d lines were dropped, the log is slow", dropped)
