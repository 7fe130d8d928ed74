"""What became of a relay that did not end well, for logs.

`relay` notes the failure on the request. A handler that raises after its head is logged by aiohttp with a
traceback and without a line in the access log; `settle_failures` is the middleware for servers that want it
the other way.
"""

import asyncio
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from penstock import _native
from penstock.exceptions import PenstockError, make_error

from .access import note

__all__ = [
    "CLIENT_LEFT",
    "FAILURE",
    "Failure",
    "client_gone",
    "note_failure",
    "settle_failures",
    "shown_target",
]


class Failure(NamedTuple):
    """Why a relay did not end well.

    Attributes:
        error: what happened.
        status: the status that was relayed, or None if the failure came before.
    """

    error: PenstockError
    status: int | None


FAILURE: Final = web.RequestKey("failure", Failure)
"""Where `Gateway.relay` leaves the failure of a request."""

CLIENT_LEFT: Final = 499
"""nginx's status in logs for a client that left before the head. No client receives it."""


def note_failure(request: web.BaseRequest, error: PenstockError, status: int | None) -> None:
    """Leave `error` on `request`, and have its line in the access log say it."""
    note(request, failure=error.code)
    request[FAILURE] = Failure(error, status)


def client_gone(request: web.BaseRequest, status: int | None) -> PenstockError:
    """The failure of a relay whose client has left, which is left on `request`."""
    error = make_error("CLIENT_GONE", f"{request.method} {shown_target(request)}: the client left")
    note_failure(request, error, status)
    return error


def shown_target(request: web.BaseRequest) -> str:
    """The target of `request` as logs may show it, without the values of tokens."""
    return _native.shown(request.raw_path.encode("ascii", "backslashreplace").decode())


@web.middleware
async def settle_failures(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give a relay that was cut off its line in the access log, in place of aiohttp's traceback.

    The outermost middleware of a server of aiohttp's whose access log tells of `FAILURE`, or of one that should not
    log the traceback, such as `penstock serve`. Nothing is sent: the connection has been ended, and the response
    returned here is for the log.
    """
    try:
        return await handler(request)
    except (PenstockError, asyncio.CancelledError):
        failure = request.get(FAILURE)
        transport = request.transport
        if failure is None or not (transport is None or transport.is_closing()):
            raise
        return web.Response(status=failure.status or CLIENT_LEFT)
