"""A client of which every byte is known: what it sends is what the test wrote, what it returns is what
came."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from support.waiting import DEADLINE, in_time


@dataclass(frozen=True)
class Head:
    version: str
    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known.lower() == name.lower()]

    def one(self, name: str) -> str | None:
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None


@dataclass(frozen=True)
class Reply:
    head: Head
    body: bytes


def answer(*fields: str, status: str = "200 OK", body: bytes = b"") -> bytes:
    """A response, byte by byte."""
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode("latin-1") + body


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, receive_buffer: int | None = None, source: str | None = None) -> Self:
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            connection.bind((source, 0))
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except OSError:
            connection.close()
            raise
        return await cls.adopt(connection)

    @classmethod
    async def adopt(cls, connection: socket.socket) -> Self:
        """A client on a connection that there is."""
        # A limit of one byte over a line: nothing is read ahead of what a test asks for, but for one read.
        return cls(*await asyncio.open_connection(sock=connection, limit=64 * 1024))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def get(self, target: str = "/", *fields: str, method: str = "GET", version: str = "1.1") -> None:
        lines = (f"{method} {target} HTTP/{version}", "Host: gateway.test", *fields)
        await self.send("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def head(self) -> Head:
        head = await in_time(self.reader.readuntil(b"\r\n\r\n"), "the head of a response", within=DEADLINE)
        line, *lines = head[:-4].decode("latin-1").split("\r\n")
        version, status, reason = line.split(" ", 2)
        pairs = (field.partition(": ") for field in lines)
        return Head(version, int(status), reason, tuple((name, value) for name, _, value in pairs))

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
        data = await self.reader.readexactly(size + 2)
        assert data[size:] == b"\r\n"
        return data[:size]

    async def body(self, head: Head, method: str = "GET") -> bytes:
        """The whole body of a response; raises EOFError or ConnectionError if it does not end well."""
        if method == "HEAD" or head.status in {204, 304}:
            return b""
        if head.one("Transfer-Encoding") is not None:
            parts = []
            while part := await self.chunk():
                parts.append(part)
            return b"".join(parts)
        length = head.one("Content-Length")
        return await self.reader.read() if length is None else await self.reader.readexactly(int(length))

    async def ask(self, target: str = "/", *fields: str, method: str = "GET", version: str = "1.1") -> Reply:
        await self.get(target, *fields, method=method, version=version)
        head = await self.head()
        return Reply(head, await self.body(head, method))

    async def rest(self) -> bytes:
        """Everything up to the end of the connection; raises ConnectionResetError on a reset."""
        return await self.reader.read()

    def reset(self) -> None:
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def abort(self) -> None:
        self.writer.transport.abort()


async def drained(client: RawClient) -> bytes:
    """What still comes, up to a clean end. The client ends its side first."""
    client.writer.write_eof()
    return await client.rest()


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(port)
    try:
        yield client
    finally:
        client.abort()
