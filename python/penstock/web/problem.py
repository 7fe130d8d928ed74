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

_STATUS_BY_KIND: Final = {
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "connection": HTTPStatus.BAD_GATEWAY,
    "protocol": HTTPStatus.BAD_GATEWAY,
    "frame": HTTPStatus.BAD_GATEWAY,
    "memory": HTTPStatus.SERVICE_UNAVAILABLE,
    "state": HTTPStatus.INTERNAL_SERVER_ERROR,
    "system": HTTPStatus.INTERNAL_SERVER_ERROR,
    "value": HTTPStatus.INTERNAL_SERVER_ERROR,
}

# Where the kind does not say who could do better: the gateway later, another gateway, or the client.
_STATUS_BY_NAME: Final = {
    "QUEUE_TIMEOUT": HTTPStatus.SERVICE_UNAVAILABLE,
    "QUEUE_FULL": HTTPStatus.SERVICE_UNAVAILABLE,
    "POOL_DEAD": HTTPStatus.SERVICE_UNAVAILABLE,
    "ENGINE_CLOSED": HTTPStatus.SERVICE_UNAVAILABLE,
    # What the origin sent can never be held in one piece here: to come again later would not help.
    "OBJECT_TOO_LARGE": HTTPStatus.BAD_GATEWAY,
    "BAD_REQUEST": HTTPStatus.BAD_REQUEST,
    "UPLOAD_FAILED": HTTPStatus.BAD_REQUEST,
    "CLIENT_GONE": HTTPStatus.BAD_REQUEST,
    "BAD_REQUEST_HEAD": HTTPStatus.BAD_REQUEST,
    "REQUEST_HEAD_TOO_LARGE": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "TARGET_TOO_LONG": HTTPStatus.REQUEST_URI_TOO_LONG,
    "BAD_HOST": HTTPStatus.BAD_REQUEST,
    "BAD_REQUEST_FRAMING": HTTPStatus.BAD_REQUEST,
    "UNSUPPORTED_CODING": HTTPStatus.NOT_IMPLEMENTED,
    "UNSUPPORTED_VERSION": HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
    "UNSUPPORTED_METHOD": HTTPStatus.NOT_IMPLEMENTED,
    "EXPECTATION_FAILED": HTTPStatus.EXPECTATION_FAILED,
    "BAD_REQUEST_BODY": HTTPStatus.BAD_REQUEST,
    "REQUEST_TRUNCATED": HTTPStatus.BAD_REQUEST,
}


def status_for(error: PenstockError) -> HTTPStatus:
    """The status that answers `error`.

    502 to 504 for the origin's failures; 400, 414, 417, 431, 501 or 505 for what the client sent (RFC 9110, section
    15, and RFC 6585); else 500.
    """
    row = _ROWS[error.name]
    return _STATUS_BY_NAME.get(row.name) or _STATUS_BY_KIND[row.kind]


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
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = _RETRY_AFTER
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/problem+json",
        headers=headers,
    )


_ROWS: Final = {row.name: row for row in error_codes()}
