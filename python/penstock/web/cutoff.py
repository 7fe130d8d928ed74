"""Ending a client's connection so that it cannot take what it has for the whole response.

A response framed by chunks or a Content-Length is cut off by closing: its end is missing. One that ends with
the connection (to an HTTP/1.0 client) must end in a reset. A Unix socket has no reset, so an HTTP/1.0
client there cannot be told; put nothing older than HTTP/1.1 on one.
"""

import asyncio
import socket
import struct
from typing import Final

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from .handover import engines

__all__ = ["cut_off", "flush"]

_RESET: Final = struct.pack("ii", 1, 0)  # struct linger: on, for no time

# For what was relayed before the failure, such as the last events of a stream, to reach a client that reads.
_FLUSH_SECONDS: Final = 2.0


def cut_off(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """End the connection of `request` in the middle of `response`, whose head has been sent."""
    transport = request.transport
    if transport is None:
        return
    if engines(transport) is not None:
        # The engine knows how to end what has no end yet.
        transport.abort()
        return
    if hdrs.TRANSFER_ENCODING not in response.headers and hdrs.CONTENT_LENGTH not in response.headers:
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    elif transport.get_write_buffer_size():
        transport.close()
        asyncio.get_running_loop().call_later(_FLUSH_SECONDS, transport.abort)
    else:
        transport.abort()


async def flush(transport: asyncio.Transport, writer: AbstractStreamWriter) -> None:
    """Wait until the kernel has taken everything, and let nothing wait in `transport` from now on.

    With a limit of 0 any waiting byte pauses the writer, and only an empty buffer resumes it.

    Raises:
        ConnectionResetError: the connection is closing, and the rest cannot be sent.
    """
    transport.set_write_buffer_limits(high=0)
    while transport.get_write_buffer_size():
        if transport.is_closing():
            raise ConnectionResetError("the connection is closing")
        await writer.drain()
