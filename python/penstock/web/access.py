"""The access log of a `Site`: a line for each response, which the engine writes at its end, on either lane.

Here is what a runner was told of it, and what a handler adds to a line. Where the lines go is in `serving.access_lines`.
"""

import logging
from typing import Any, Final

from aiohttp import web, web_log
from aiohttp.log import access_logger

from penstock import _native

__all__ = ["TENANT", "OwnAccessLogger", "lines_of", "note"]

TENANT: Final = web.RequestKey("tenant", str)
"""Where `relay` leaves its `tenant` on the request, for access logs and middlewares."""


class OwnAccessLogger(web_log.AccessLogger):
    """aiohttp's lines, for who has asked for them."""


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
