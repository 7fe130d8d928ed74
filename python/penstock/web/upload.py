"""The request body on its way up: whole if it is here already, else piece by piece as the origin takes it.

Back-pressure is end to end: the engine asks for a piece when the origin has room, and aiohttp stops reading
from the client without demand. The invariant: when the relay is over no code reads the request's content
any more, so that aiohttp can drain what is left of it.
"""

import asyncio
from typing import Final, Self

from aiohttp import StreamReader, hdrs, web
from multidict import istr

from .disconnect import ClientLink

__all__ = ["Pieces", "RequestBody", "request_body"]

_CONTENT_LENGTH: Final = istr(hdrs.CONTENT_LENGTH)


class Pieces:
    """The pieces of a body as they arrive. One consumer, which `stop` ends."""

    def __init__(self, content: StreamReader, link: ClientLink) -> None:
        self._content = content
        self._link = link
        self._reader: asyncio.Task[object] | None = None
        self._stopped = False
        self.ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._stopped:
            raise asyncio.CancelledError
        self._reader = asyncio.current_task()
        try:
            piece = await self._content.readany()
        except Exception as error:
            if self._link.lost:
                # Ends the consumer quietly: what became of the request is the relay's business.
                raise asyncio.CancelledError from error
            raise
        finally:
            self._reader = None
        if not piece:
            self.ended = True
            raise StopAsyncIteration
        return piece

    def stop(self) -> None:
        """Cancel the consumer if it waits for a piece, and else when it asks for the next."""
        self._stopped = True
        if self._reader is not None:
            self._reader.cancel()


RequestBody = bytes | Pieces | None


def request_body(request: web.BaseRequest, link: ClientLink) -> tuple[RequestBody, int | None, bool]:
    """The body of `request`, its length if the client has said it, and whether aiohttp decodes it.

    A server that was not made with `auto_decompress=False` decodes bodies with a known Content-Encoding:
    their length is not known then, and the field must not be sent on.
    """
    if not request.body_exists:
        return (b"" if _CONTENT_LENGTH in request.headers else None), None, False
    content = request.content
    decoded = content.total_compressed_bytes is not None
    # A handler may have read it to decide, as by `await request.json()`: aiohttp keeps what `read` returned.
    read = request._read_bytes  # noqa: SLF001
    if read is not None:
        return bytes(read), None, decoded
    if content.is_eof() and content.exception() is None:
        return content.read_nowait(), None, decoded
    return Pieces(content, link), None if decoded else request.content_length, decoded
