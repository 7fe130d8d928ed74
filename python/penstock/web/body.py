"""The body on its way down: frames from the engine's memory to the client's transport, without a copy of ours.

Frames go to the transport directly: the head and all frames that are ready in one vectored write. For a 64 KiB
segment that is one system call in place of three, which cost about 15 µs each. Where a body is chunked, what is
ready together is one chunk. Only the transport holds a frame for longer than its write. Where a transport would
copy what it is given at once, or the application has asked for compression, frames pass aiohttp's writer instead.
"""

import asyncio
import sys
from traceback import clear_frames
from typing import Final

from aiohttp import ClientConnectionResetError
from aiohttp.abc import AbstractStreamWriter

from penstock import _native
from penstock.exceptions import WindowHeldError
from penstock.stream import Frame, FrameStream

from .cutoff import flush

__all__ = ["Payload", "copy_body"]

_MOST: Final = 64
"""Frames of one write: far fewer than the 1024 pieces that one system call takes."""

# Before these, asyncio's own transports joined what writelines got, and did not pause the writer
# (CVE-2024-12254).
_ASYNCIO_IS_VECTORED: Final = sys.version_info >= (3, 13, 2) or (3, 12, 9) <= sys.version_info < (3, 13)


class Payload:
    """Counts what has been sent of a body, without its framing, on the account of a permit's tenant."""

    __slots__ = ("_counted", "_permit", "bytes")

    def __init__(self, permit: _native.Permit | None = None) -> None:
        self.bytes = 0
        self._permit = permit
        self._counted = 0

    async def settle(self) -> None:
        """Wait until more may be sent.

        Raises:
            PenstockError: no more may be (TENANT_EXHAUSTED).
        """
        if self._permit is not None:
            sent, self._counted = self.bytes - self._counted, self.bytes
            seconds = self._permit.sent(sent) if sent else 0
            if seconds:
                await asyncio.sleep(seconds)


async def copy_body(
    stream: FrameStream, writer: AbstractStreamWriter, transport: asyncio.Transport, payload: Payload
) -> None:
    """Send the head that `writer` holds back, and then every frame; `payload` counts them.

    Raises:
        PenstockError: the source failed; what the client has is not the whole.
        ConnectionResetError: the client left.
    """
    plain = getattr(writer, "_compress", writer) is None
    make = _Direct if plain and _is_vectored(transport) else _Framed
    send = make(writer, transport, payload).send
    limits: tuple[int, int] | None = None
    try:
        await send(_native.take_ready(stream, _MOST))
        await payload.settle()
        if _native.is_done(stream):
            # Nearly always so where a body is short: it came while its head was looked at.
            return
        batch = _native.next_batch(stream, _MOST)
        while True:
            try:
                await send(await batch)
                await payload.settle()
            except StopAsyncIteration:
                return
            except WindowHeldError:
                # A slow client: all that the window allows waits in the transport.
                if not transport.get_write_buffer_size():
                    raise
                limits = limits or transport.get_write_buffer_limits()
                await flush(transport, writer)
    except BaseException as error:
        # An error that is kept, as by a log or a debugger, would keep the memory of what was being sent.
        clear_frames(error.__traceback__)
        raise
    finally:
        if limits is not None and not transport.is_closing():
            transport.set_write_buffer_limits(limits[1], limits[0])


def _is_vectored(transport: asyncio.Transport) -> bool:
    return _ASYNCIO_IS_VECTORED or not type(transport).__module__.startswith("asyncio.")


class _Framed:
    """Sends through aiohttp's writer."""

    __slots__ = ("_payload", "_writer")

    def __init__(self, writer: AbstractStreamWriter, _transport: asyncio.Transport, payload: Payload) -> None:
        self._writer = writer
        self._payload = payload

    async def send(self, frames: list[Frame]) -> None:
        if not frames:
            self._writer.send_headers()
        for frame in frames:
            size = len(frame)
            await self._writer.write(memoryview(frame))
            self._payload.bytes += size


class _Direct:
    """Sends to the transport."""

    __slots__ = ("_chunked", "_head", "_payload", "_transport", "_writer")

    def __init__(self, writer: AbstractStreamWriter, transport: asyncio.Transport, payload: Payload) -> None:
        self._writer = writer
        self._payload = payload
        self._transport = transport
        # The head that the writer would send with the first piece of the body; sent at once if it cannot be had.
        self._head: bytes | None = None
        head = getattr(writer, "_headers_buf", None)
        if isinstance(head, bytes) and hasattr(writer, "_headers_written"):
            writer._headers_buf = None  # type: ignore[attr-defined] # noqa: SLF001
            writer._headers_written = True  # noqa: SLF001
            self._head = head
        else:
            writer.send_headers()
        self._chunked = getattr(writer, "chunked", False)

    async def send(self, frames: list[Frame]) -> None:
        transport, writer = self._transport, self._writer
        pieces: list[bytes | memoryview] = [memoryview(frame) for frame in frames]
        size = sum(map(len, pieces))
        payload = size
        before = self._head
        if size and self._chunked:
            # The last chunk is the writer's, when aiohttp ends the response (RFC 9112 section 7.1).
            before = b"%b%x\r\n" % (before or b"", size)
            pieces.append(b"\r\n")
            size += 2
        if before is not None:
            pieces.insert(0, before)
            size += len(before)
            self._head = None
        if transport.is_closing():
            message = "the client left"
            raise ClientConnectionResetError(message)
        writer.output_size += size
        self._payload.bytes += payload
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif pieces:
            transport.writelines(pieces)
        del pieces, frames
        await writer.drain()
