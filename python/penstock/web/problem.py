"""The answer of the gateway when the origin has given none: which status, and what the body says.

The body is application/problem+json (RFC 9457) with the stable code of the failure. It never says where the
origin is, nor repeats an error's text, which may: that goes to the log. Called before the head is sent, and
only then.
"""

import json
from http import HTTPStatus
from typing import Final

from aiohttp import web

from penstock.exceptions import PenstockError, error_codes

# Long enough for a burst to pass, short enough that nobody gives up.
_RETRY_AFTER: Final = "1"


def status_for(error: PenstockError) -> HTTPStatus:
    """The status that answers `error`.

    502 to 504 for the origin's failures; 400 to 431, 501 or 505 for what the client sent (RFC 9110, section
    15, and RFC 6585); else 500. The engine's table of codes has them.
    """
    return HTTPStatus(_ROWS[error.name].status)


def problem_response(error: PenstockError) -> web.Response:
    """The answer for `error`."""
    status = status_for(error)
    body = {
        # "about:blank": the title is the status phrase, and `code` says the rest (RFC 9457 section 4.2.1).
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": _ROWS[error.name].meaning,
        "code": f"0x{error.code:03X}",
        "name": error.name,
        "retryable": error.retryable,
    }
    headers = {"Cache-Control": "no-store"}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = _RETRY_AFTER
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/problem+json",
        headers=headers,
    )


_ROWS: Final = {row.name: row for row in error_codes()}
