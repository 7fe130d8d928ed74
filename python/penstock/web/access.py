"""The access log of `penstock serve`: one line per request, which also says how a relay failed.

aiohttp calls it when a response has ended, or when the middleware `settle_failures` says that it never will.
"""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from penstock.exceptions import PenstockError

from .failures import CLIENT_LEFT, FAILURE, note_failure, shown_target
from .gateway import TENANT
from .handover import HANDED_OVER, RelayEnd
from .problem import status_for

__all__ = ["AccessLogger"]

# The engine answers these with nothing: nobody is there, or what was begun cannot be taken back.
_UNANSWERED: Final = ("CLIENT_GONE", "REQUEST_TRUNCATED", "BAD_RESPONSE")


class AccessLogger(AbstractAccessLogger):
    """Logs `client "METHOD target HTTP/x.y" status bytes seconds`, then the tenant and the failure if any.

    Bytes are those handed to the client's connection, head and framing included. A failure is its code and
    name; its text, which may name internal addresses, is in the log of `penstock.web`.
    """

    @property
    def enabled(self) -> bool:
        """Whether lines are wanted at all: aiohttp takes no times if they are not."""
        return self.logger.isEnabledFor(20)

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Log one request; one whose body the engine is sending when that is over."""
        handover = request.get(HANDED_OVER)
        if handover is None:
            self._log(request, response.status, request.writer.output_size, time)
            return
        loop = asyncio.get_running_loop()
        started = loop.time() - time

        def log_end(end: RelayEnd) -> None:
            if isinstance(end.error, PenstockError):
                note_failure(request, end.error, end.status)
            size = request.writer.output_size + end.bytes
            self._log(request, _status(end), size, loop.time() - started)

        if handover.end is None:
            handover.when_over(log_end)
        else:
            log_end(handover.end)

    def _log(self, request: web.BaseRequest, status: int, size: int, time: float) -> None:
        version = request.version
        # What aiohttp could not decode, and quotes, must not break the line.
        target = shown_target(request).replace('"', "%22")
        tenant = request.get(TENANT)
        failure = request.get(FAILURE)
        self.logger.info(
            '%s "%s %s HTTP/%d.%d" %d %d %.6f%s%s',
            request.remote or "-",
            request.method,
            target,
            version.major,
            version.minor,
            status,
            size,
            time,
            "" if tenant is None else f" tenant={tenant!r}",
            "" if failure is None else f" failed=0x{failure.error.code:03X}/{failure.error.name}",
        )


def _status(end: RelayEnd) -> int:
    """What the engine has answered a request with whose body was left to it."""
    if end.status is not None:
        return end.status
    error = end.error
    if isinstance(error, PenstockError) and error.name not in _UNANSWERED:
        return status_for(error).value
    return CLIENT_LEFT
