"""Requests that are read whole and amended before they are sent to the origin (`config.Inspection.amend`).

The engine says what is added where (`_native.Inspection.amend`); here the body is brought together.
"""

from aiohttp import web

from penstock.exceptions import make_error

from .inspection import Seen
from .upload import Pieces, RequestBody

__all__ = ["amend"]


async def amend(
    request: web.Request, body: RequestBody, length: int | None, decoded: bool, seen: Seen
) -> tuple[RequestBody, int | None, bool]:
    """The body as it is sent on, its length, and whether it was changed. What is no JSON is not read.

    Raises:
        PenstockError: it is too large (REQUEST_TOO_LARGE), or its end did not come (UPLOAD_FAILED).
        CancelledError: the client left.
    """
    coding = None if decoded else request.headers.get("Content-Encoding")
    if not body or not seen.inspection.amends(request.headers.get("Content-Type"), coding):
        return body, length, False
    too_large = make_error("REQUEST_TOO_LARGE", f"the request body exceeds {seen.max_request} bytes")
    if max(length or 0, len(body) if isinstance(body, bytes) else 0) > seen.max_request:
        raise too_large
    whole = body if isinstance(body, bytes) else await _whole(body, seen.max_request, too_large)
    amended = seen.inspection.amend(whole)
    return (whole, None, False) if amended is None else (amended, None, True)


async def _whole(pieces: Pieces, most: int, too_large: Exception) -> bytes:
    parts = []
    size = 0
    try:
        async for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size > most:
                break
    except Exception as error:
        message = f"the request body's source failed: {error!r}"
        raise make_error("UPLOAD_FAILED", message) from error
    if size > most:
        raise too_large
    return b"".join(parts)
