"""The access log of a `Site`: a line for each response, which the engine writes at its end, on either lane.

The engine puts all lines into one queue, in the order in which the responses end, and a thread of this module hands them
to a `logging.Logger`: neither the engine nor the event loop waits for its handlers.
"""

import atexit
import logging
import threading
from typing import Any, ClassVar, Final

from aiohttp import web, web_log
from aiohttp.log import access_logger

from penstock import _native

__all__ = ["TENANT", "AccessFile", "AccessLines", "OwnAccessLogger", "lines_of", "note"]

TENANT: Final = web.RequestKey("tenant", str)
"""Where `relay` leaves its `tenant` on the request, for access logs and middlewares."""

_log: Final = logging.getLogger("penstock.web")

# Seconds that a stop waits for the handlers of a logger, or for a file (arbitrary): one that hangs must not keep the
# process.
_PATIENCE: Final = 5.0


class OwnAccessLogger(web_log.AccessLogger):
    """aiohttp's lines, for who has asked for them."""


class AccessFile:
    """The file, or the standard error, of one site's lines.

    Raises:
        SystemFailureError: the file cannot be opened (FILE_FAILED).
    """

    def __init__(self, path: str) -> None:
        self.native: Final = _native.AccessLog(path)
        self._path = path

    def leave(self) -> None:
        """The site has ended. Its lines are written: the engine would write the last in 100 ms, and may end before."""
        if not self.native.close(_PATIENCE):
            _log.warning("the access log %r has not taken all lines within %g s", self._path, _PATIENCE)


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


def lines_of(server: web.Server) -> tuple[logging.Logger | None, bool]:
    """Where the runner of `server` wants requests to be logged, and whether by a class or a format of its own.

    The logger is None where it wants none, or takes no lines: that is looked at when a site starts.
    """
    told: dict[str, Any] = server._kwargs  # noqa: SLF001 (it is public on the runner's side alone)
    logger: logging.Logger | None = told.get("access_log", access_logger)
    if not logger:
        return None, False
    own = told.get("access_log_class", web_log.AccessLogger) is not web_log.AccessLogger
    format_ = told.get("access_log_format", web_log.AccessLogger.LOG_FORMAT)
    own = own or format_ != web_log.AccessLogger.LOG_FORMAT
    return logger if logger.isEnabledFor(logging.INFO) else None, own


def note(request: web.BaseRequest, *, tenant: str | None = None, failure: int | None = None) -> None:
    """Have the line of `request` say on whose account it is, and by which code it has failed."""
    transport: object = request.transport
    if isinstance(transport, _native.Transport):
        transport.note(tenant, failure)
