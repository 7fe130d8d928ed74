"""An origin in one thread: small answers, large ones for as long as they are taken, and bodies of requests to their end.

`python -m adversary.origin` prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import socket
import sys

_SMALL = b"x" * 1024
_LARGE = 16 << 20
_STORED = 1 << 20
_PIECE = b"x" * 65536
_TYPE = b"Content-Type: application/octet-stream\r\n"


class _Exchange(asyncio.Protocol):
    """One connection. A request is over with its body, of which nothing is kept."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.head = b""
        self.body = 0
        self.chunked = False
        self.rest = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        one = transport.get_extra_info("socket")
        # What waits here is no concern of the run.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=1, low=0)

    def data_received(self, data: bytes) -> None:
        self.head += data
        while True:
            if self.chunked:
                end = self.head.find(b"0\r\n\r\n")
                if end < 0:
                    self.head = self.head[-4:]
                    return
                self.head, self.chunked = self.head[end + 5 :], False
                self._write(self._answer(b""))
            elif self.body:
                taken = min(self.body, len(self.head))
                self.head, self.body = self.head[taken:], self.body - taken
                if self.body:
                    return
                self._write(self._answer(b""))
            elif not self._request():
                return

    def _request(self) -> bool:
        head, found, rest = self.head.partition(b"\r\n\r\n")
        if not found:
            return False
        self.head = rest
        lowered = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lowered:
            self.chunked = True
        elif b"\r\ncontent-length: " in lowered:
            self.body = int(lowered.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
            if not self.body:
                self._write(self._answer(b""))
        elif head.startswith(b"GET /large"):
            self.rest = _LARGE
            self._write(b"HTTP/1.1 200 OK\r\n" + _TYPE + b"Content-Length: %d\r\n\r\n" % _LARGE)
            self.resume_writing()
        elif head.startswith(b"GET /stored"):
            self.rest = _STORED
            fields = _TYPE + b"Cache-Control: max-age=600\r\nContent-Length: %d\r\n\r\n" % _STORED
            self._write(b"HTTP/1.1 200 OK\r\n" + fields)
            self.resume_writing()
        elif head.startswith(b"GET /vary"):
            self._write(self._answer(b"Vary: Origin\r\nCache-Control: max-age=600\r\n"))
        else:
            self._write(self._answer(b"Cache-Control: no-store\r\n"))
        return True

    def _answer(self, fields: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\n" + _TYPE + fields + b"Content-Length: 1024\r\n\r\n" + _SMALL

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def resume_writing(self) -> None:
        transport = self.transport
        # One that was reset has no buffer either, and complains of each piece.
        while (
            self.rest and transport and not transport.is_closing() and not transport.get_write_buffer_size()
        ):
            piece = _PIECE[: self.rest]
            self.rest -= len(piece)
            transport.write(piece)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.transport = None


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Exchange, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
