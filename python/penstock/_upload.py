"""Request bodies: how what a caller passes as `body=` reaches the engine.

A small buffer goes along with the request and can be sent again; everything else is fed piece by piece while the
window of the upload has room, by a task that belongs to the request.
"""

import reprlib
from collections.abc import AsyncIterable, Mapping
from typing import Final

from . import _native
from .exceptions import StateError, make_error

__all__ = ["REPLAYABLE", "Body", "check_body", "pump"]

Body = bytes | bytearray | memoryview | AsyncIterable[bytes | bytearray | memoryview]

REPLAYABLE: Final = 64 * 1024
"""Up to so many bytes are kept until the response begins, so that a request whose kept-alive connection turned out
to be dead can be sent again."""

PIECE: Final = 64 * 1024
"""Bytes passed on at a time: one slab."""


def check_body(body: object) -> None:
    """Refuse what makes no body.

    Raises:
        RequestError: it is not a body, with what to write.
    """
    if body is None or isinstance(body, bytes | bytearray | memoryview | AsyncIterable):
        return
    rule = "bytes, a buffer, or an asynchronous iterable of them"
    if isinstance(body, str):
        rule = f"{rule}: write body={reprlib.repr(body)}.encode()"
    elif isinstance(body, Mapping | list | tuple):
        rule = f"{rule}: write body=json.dumps(...).encode()"
    else:
        try:
            memoryview(body).release()  # type: ignore[arg-type]  # (that is the question)
        except TypeError:
            pass
        else:
            return
    raise make_error("BAD_REQUEST", f"body is {reprlib.repr(body)}; it must be {rule}")


async def pump(upload: _native.Upload, body: Body) -> None:
    """Feed `body` into `upload` and end it well, or badly if its iterator fails.

    Returns quietly when the engine wants no more of it: the response says why.
    """
    try:
        if isinstance(body, AsyncIterable):
            async for chunk in body:
                await _write(upload, memoryview(chunk).cast("B"))
        else:
            await _write(upload, memoryview(body).cast("B"))
    except StateError:
        return
    except BaseException as error:
        upload.fail(f"the request body's source failed: {error!r}")
        raise
    upload.finish()


async def _write(upload: _native.Upload, data: memoryview) -> None:
    for offset in range(0, len(data), PIECE):
        length = min(PIECE, len(data) - offset)
        await upload.room(length)
        upload.write(data, offset, length)
