"""The answer of the gateway when the origin has given none: which status, and what the body says.

The body is application/problem+json (RFC 9457) with the stable code of the failure. It never says where the
origin is, nor repeats an error's text, which may: that goes to the log. Called before the head is sent, and
only then.
"""

import json
from http import HTTPStatus
from typing import Final

from aiohttp import web

from penstock.exceptions import PenstockError, code_of

# Long enough for a burst to pass, short enough that no client gives up.
_RETRY_AFTER: Final = "1"


def status_for(error: PenstockError) -> HTTPStatus:
    """The status that answers `error`.

    502 to 504 for the origin's failures; 400 to 431, 501 or 505 for what the client sent (RFC 9110, section
    15, and RFC 6585); else 500. The engine's table of codes has them.
    """
    return HTTPStatus(code_of(error.name).status)


def problem_response(
    error: PenstockError,
    status: int | None = None,
    detail: str | None = None,
    challenge: str | None = None,
) -> web.Response:
    """The answer for `error`; `status`, `detail` and `challenge` are what was decided in place of the table's."""
    status = status_for(error) if status is None else status
    known = status in HTTPStatus._value2member_map_
    body = {
        # "about:blank": the title is the status phrase, and `code` says the rest (RFC 9457 section 4.2.1).
        "type": "about:blank",
        "title": HTTPStatus(status).phrase if known else "Refused",
        "status": int(status),
        "detail": detail or code_of(error.name).meaning,
        "code": f"0x{error.code:03X}",
        "name": error.name,
        "retryable": error.retryable,
    }
    headers = {"Cache-Control": "no-store"}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = _RETRY_AFTER
    if challenge is not None:
        headers["WWW-Authenticate"] = challenge
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/problem+json",
        headers=headers,
    )
