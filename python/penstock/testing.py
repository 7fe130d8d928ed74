r"""A real origin whose misbehaviour is a script, for tests of penstock and of what is built on it.

`ScriptedOrigin` listens on a port of the system's choice (or a Unix socket, or with TLS) and runs a script, a
plain coroutine function, for each connection. The script says what happens on the wire, byte by byte::

    async def truncated(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        peer.reset()

    async with ScriptedOrigin(truncated) as origin:
        response = await engine.get(origin.url + "/")

Nothing here is mocked and nothing waits for a time: a script stalls until its peer leaves or an event of the
test's is set, and what a test waits for (a connection, the peer's end) is awaitable.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from ._field_docs import document

__all__ = ["Peer", "RecordedRequest", "Script", "ScriptedOrigin", "respond"]

_RESET: Final = struct.pack("ii", 1, 0)  # struct linger: on, for no time
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The head of a request as it stood on the wire."""

    method: str
    """Such as `GET`."""
    target: str
    """Path and query, as they were sent."""
    version: str
    """`HTTP/1.1` or `HTTP/1.0`."""
    fields: tuple[tuple[str, str], ...]
    """Names and values in order; latin-1, so that every byte is kept."""

    def get_all(self, name: str) -> list[str]:
        """The values of all fields called `name`, without regard to case."""
        return [value for known, value in self.fields if known.lower() == name.lower()]

    def get(self, name: str) -> str | None:
        """The value of the only field called `name`, or None without such a field.

        Raises:
            AssertionError: there are several.
        """
        values = self.get_all(name)
        if len(values) > 1:
            raise AssertionError(f"{name} was sent {len(values)} times: {values}")
        return values[0] if values else None


class _Wire(asyncio.StreamReaderProtocol):
    """Tells at once that the peer has left, also while no task reads."""

    def __init__(self, reader: asyncio.StreamReader, left: asyncio.Event, accept: "_Accept") -> None:
        super().__init__(reader, accept)
        self._left = left
        self.is_lost = False

    def eof_received(self) -> bool | None:
        self._left.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._left.set()
        self.is_lost = True
        super().connection_lost(exc)
        # Scripts do not wait for their connections to close: asyncio would log that nothing has asked how, and the log
        # would keep the loop alive.
        closed: asyncio.Future[None] = self._closed  # type: ignore[attr-defined]
        if not closed.cancelled():
            closed.exception()


_Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class Peer:
    """One connection to a scripted origin: what a script acts on, and what it has seen."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: asyncio.Event
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._left = left
        self._wire = writer.transport.get_protocol()
        self.requests: list[RecordedRequest] = []
        """The heads that `request` has read."""
        self.body_received = 0
        """Bytes of request bodies that `read` and `read_body` have read, without the framing."""
        self.sent = 0
        """Bytes that the kernel has taken; over TLS, the encrypted bytes."""
        # Nothing waits in user space: `sent` is what the kernel took, and `send` waits as a blocking write
        # would. TLS transports pause at their limit, others above it: with 0 they pause for no byte at all.
        tls = writer.get_extra_info("ssl_object") is not None
        writer.transport.set_write_buffer_limits(high=1 if tls else 0, low=0)

    @property
    def left(self) -> bool:
        """Whether the peer has closed or reset the connection, or shut down its side of it."""
        return self._left.is_set()

    async def wait_left(self) -> None:
        """Wait until the peer has left. A peer that is not read from can hide that behind 64 KiB of data."""
        await self._left.wait()

    async def stall(self) -> None:
        """Say nothing until the peer leaves."""
        await self._left.wait()

    async def request(self) -> RecordedRequest:
        """Read the next request head.

        Raises:
            EOFError: the peer left first; the end of a script that serves one request after the other.
        """
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except ConnectionError as error:
            raise EOFError("the peer has reset the connection") from error
        line, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        pairs = (field.partition(":") for field in lines)
        fields = tuple((name, value.strip(" \t")) for name, _, value in pairs)
        self.requests.append(RecordedRequest(method, target, version, fields))
        return self.requests[-1]

    async def read(self, count: int) -> bytes:
        """Read `count` bytes of a body.

        Raises:
            EOFError: the peer left first.
        """
        data = await self._reader.readexactly(count)
        self.body_received += count
        return data

    async def read_body(self) -> bytes:
        """Read the body of the last request to its end, by Content-Length or chunks."""
        request = self.requests[-1]
        if request.get("Transfer-Encoding") != "chunked":
            return await self.read(int(request.get("Content-Length") or 0))
        parts: list[bytes] = []
        while size := int(await self._line(), 16):
            parts.append(await self.read(size))
            await self._line()
        while await self._line():
            pass
        return b"".join(parts)

    async def _line(self) -> bytes:
        return (await self._reader.readuntil(b"\r\n"))[:-2]

    async def send(self, data: bytes | memoryview) -> None:
        """Send `data`, waiting while the peer does not read.

        Raises:
            ConnectionError: the peer has reset the connection.
        """
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            self._writer.write(piece)
            await self._writer.drain()
            self.sent += len(piece)

    def half_close(self) -> None:
        """Send FIN and go on reading. Not over TLS."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Send RST; what the peer has not read is lost. On a Unix socket this is a close."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()

    def close(self) -> None:
        """Close, in both directions, after what was sent."""
        self._writer.close()

    def abort(self) -> None:
        """Close at once, whatever waits to be sent."""
        # Where something was to be sent when it was closed, the transport of Python 3.11 fails once that is sent.
        if not (isinstance(self._wire, _Wire) and self._wire.is_lost):
            self._writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]
"""What happens on one connection; it is closed when the script returns."""


def respond(response: bytes) -> Script:
    """A script that answers every request of a connection with the same bytes, reading its body first."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.read_body()
            await peer.send(response)

    return script


class ScriptedOrigin:
    """A server on a real socket. Use it in `async with`.

    Args:
        scripts: for the first connection, the second and so on; the last one serves all further connections.
        unix: listen on a Unix socket at this path, and not on 127.0.0.1.
        tls: speak TLS with this context.

    At the end of the block connections are closed, scripts that still run are cancelled, and the first
    failure of a script is raised. Leaving early is no failure: EOFError and ConnectionError end a script
    quietly.
    """

    def __init__(self, *scripts: Script, unix: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        if not scripts:
            raise ValueError("an origin needs a script")
        self._scripts = scripts
        self._unix = unix
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._arrived = asyncio.Event()
        self._is_closing = False
        self.connections: list[Peer] = []
        """Every connection so far, in the order of arrival."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._unix is None:
            self._server = await loop.create_server(self._wire, "127.0.0.1", 0, ssl=self._tls, backlog=1024)
            # It is asked for after the end as well, when there is no socket.
            self._port: int = self._server.sockets[0].getsockname()[1]
        else:
            self._server = await loop.create_unix_server(self._wire, self._unix, ssl=self._tls, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_closing = True
        # A connection comes here up to three turns of the loop after asyncio has accepted it. One that is on its way
        # when the server closes is lost, and its socket stays open (CPython issue 109564).
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for peer in self.connections:
            peer.abort()
        await self._server.wait_closed()
        # Before Python 3.12 that waits for no connection, and an aborted one closes in the next turn.
        await asyncio.sleep(0)
        if self._failures and kind is None:
            raise self._failures[0]

    @property
    def port(self) -> int:
        """The port listened on.

        Raises:
            ValueError: this origin is on a Unix socket.
        """
        if self._unix is not None:
            raise ValueError("this origin is on a Unix socket")
        return self._port

    @property
    def url(self) -> str:
        """`scheme://host:port`; for a Unix socket a URL without a port, to be used with its path."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://localhost" if self._unix is not None else f"{scheme}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """The heads read on all connections, connection by connection."""
        return [request for peer in self.connections for request in peer.requests]

    async def connection(self, index: int = 0) -> Peer:
        """Wait for the connection with this number, counted from 0."""
        while len(self.connections) <= index:
            self._arrived.clear()
            await self._arrived.wait()
        return self.connections[index]

    def _wire(self) -> _Wire:
        reader = asyncio.StreamReader()
        left = asyncio.Event()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_closing:
                writer.transport.abort()
                return
            peer = Peer(reader, writer, left)
            script = self._scripts[min(len(self.connections), len(self._scripts) - 1)]
            self.connections.append(peer)
            self._arrived.set()
            task = asyncio.get_running_loop().create_task(self._serve(peer, script))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return _Wire(reader, left, accept)

    async def _serve(self, peer: Peer, script: Script) -> None:
        try:
            await script(peer)
        except (EOFError, ConnectionError):
            pass
        except Exception as failure:  # noqa: BLE001 (it is raised at the end of the block)
            self._failures.append(failure)
        finally:
            peer.close()


document(globals()[name] for name in __all__)
