"""The body on its way down: frames from the engine's memory to the client's transport, without a copy of ours.

A body that needs no framing of its own (Content-Length, or the end of the connection) goes to the transport
directly, with the head and as many frames as are ready in one vectored write: for a 64 KiB segment that is one
system call in place of three, which cost about 15 µs each. Chunked bodies pass aiohttp's writer, which frames them.
Only the transport holds a frame for longer than its write.
"""

import asyncio
import sys
from typing import Final

from aiohttp import ClientConnectionResetError
from aiohttp.abc import AbstractStreamWriter

from penstock.exceptions import WindowHeldError
from penstock.stream import Frame, FrameStream

from .cutoff import flush

__all__ = ["copy_body"]

_MOST: Final = 64
"""Frames of one write: far fewer than the 1024 pieces that one system call takes."""

# Before these, asyncio's own transports joined what writelines got, and did not pause the writer
# (CVE-2024-12254).
_ASYNCIO_IS_VECTORED: Final = sys.version_info >= (3, 13, 2) or (3, 12, 9) <= sys.version_info < (3, 13)


async def copy_body(stream: FrameStream, writer: AbstractStreamWriter, transport: asyncio.Transport) -> None:
    """Send the head that `writer` holds back, and then every frame.

    Raises:
        PenstockError: the source failed; what the client has is not the whole.
        ConnectionResetError: the client left.
    """
    direct = not getattr(writer, "chunked", True) and _is_vectored(transport)
    send = _Direct(writer, transport).send if direct else _Framed(writer).send
    await send(stream._take(_MOST))  # noqa: SLF001
    if stream._done():  # noqa: SLF001
        # Nearly always so where a body is short: it came while its head was looked at.
        return
    batch = stream._batch(_MOST)  # noqa: SLF001
    limits: tuple[int, int] | None = None
    try:
        while True:
            try:
                await send(await batch)
            except StopAsyncIteration:
                return
            except WindowHeldError:
                # A slow client: all that the window allows waits in the transport.
                if not transport.get_write_buffer_size():
                    raise
                limits = limits or transport.get_write_buffer_limits()
                await flush(transport, writer)
    finally:
        if limits is not None and not transport.is_closing():
            transport.set_write_buffer_limits(limits[1], limits[0])


def _is_vectored(transport: asyncio.Transport) -> bool:
    return _ASYNCIO_IS_VECTORED or not type(transport).__module__.startswith("asyncio.")


class _Framed:
    """Sends through aiohttp's writer."""

    __slots__ = ("_writer",)

    def __init__(self, writer: AbstractStreamWriter) -> None:
        self._writer = writer

    async def send(self, frames: list[Frame]) -> None:
        if not frames:
            self._writer.send_headers()
        for frame in frames:
            await self._writer.write(memoryview(frame))


class _Direct:
    """Sends to the transport."""

    __slots__ = ("_head", "_transport", "_writer")

    def __init__(self, writer: AbstractStreamWriter, transport: asyncio.Transport) -> None:
        self._writer = writer
        self._transport = transport
        self._head = _held_head(writer)

    async def send(self, frames: list[Frame]) -> None:
        transport, writer = self._transport, self._writer
        pieces: list[bytes | memoryview] = [memoryview(frame) for frame in frames]
        if self._head is not None:
            pieces.insert(0, self._head)
            self._head = None
        if transport.is_closing():
            message = "the client left"
            raise ClientConnectionResetError(message)
        writer.output_size += sum(map(len, pieces))
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif pieces:
            transport.writelines(pieces)
        del pieces, frames
        await writer.drain()


def _held_head(writer: AbstractStreamWriter) -> bytes | None:
    """The head that `writer` would send with the first piece of the body; sent at once if it cannot be had."""
    head = getattr(writer, "_headers_buf", None)
    if isinstance(head, bytes) and hasattr(writer, "_headers_written"):
        writer._headers_buf = None  # type: ignore[attr-defined] # noqa: SLF001
        writer._headers_written = True  # noqa: SLF001
        return head
    writer.send_headers()
    return None
