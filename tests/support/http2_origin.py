"""An origin of HTTP/2 of which every frame is known: hyper-h2 speaks for it, and a test says what it answers."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from support.http2 import Fields, one
from support.waiting import in_time, until


@dataclass
class Asked:
    """A request, and the means to answer it."""

    connection: "Http2Connection"
    stream: int
    fields: Fields
    body: bytearray = field(default_factory=bytearray)
    trailers: Fields = ()
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    reset: int | None = None
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def one(self, name: str) -> str | None:
        return one(self.fields, name)

    async def whole(self) -> bytes:
        """The body, once all of it has come."""
        await in_time(self.ended.wait(), "the end of a request")
        return bytes(self.body)

    async def head(self, *fields: tuple[str, str], status: int = 200, ends: bool = False) -> None:
        self.connection.h2.send_headers(self.stream, ((":status", str(status)), *fields), end_stream=ends)
        await self.connection.flush()

    async def send(self, body: bytes, *, ends: bool = False) -> None:
        """Send as the windows allow."""
        protocol = self.connection.h2
        view = memoryview(body)
        while view and self.reset is None:
            room = min(protocol.local_flow_control_window(self.stream), protocol.max_outbound_frame_size)
            if room == 0:
                self.connection.moved.clear()
                await in_time(self.connection.moved.wait(), "a window is opened")
                continue
            protocol.send_data(self.stream, bytes(view[:room]), end_stream=ends and room >= len(view))
            view = view[room:]
            await self.connection.flush()
        if ends and not body:
            protocol.end_stream(self.stream)
            await self.connection.flush()

    async def trail(self, *fields: tuple[str, str]) -> None:
        self.connection.h2.send_headers(self.stream, fields, end_stream=True)
        await self.connection.flush()

    async def answer(self, body: bytes = b"ok", *fields: tuple[str, str], status: int = 200) -> None:
        await self.head(*fields, status=status, ends=not body)
        if body:
            await self.send(body, ends=True)

    async def break_off(self, code: h2.errors.ErrorCodes = h2.errors.ErrorCodes.INTERNAL_ERROR) -> None:
        self.connection.h2.reset_stream(self.stream, code)
        await self.connection.flush()


Script = Callable[[Asked], Awaitable[None]]


class Http2Connection:
    """One connection from the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: "Http2Origin"
    ) -> None:
        self.reader, self.writer, self.origin = reader, writer, origin
        config = h2.config.H2Configuration(
            client_side=False, header_encoding="utf-8", validate_outbound_headers=False
        )
        self.h2 = h2.connection.H2Connection(config)
        self.asked: dict[int, Asked] = {}
        self.moved = asyncio.Event()
        self.most = 0
        """The most streams that were open at a time."""
        self.ended = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def flush(self) -> None:
        with suppress(ConnectionError):
            self.writer.write(self.h2.data_to_send())
            await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        """Send bytes past hyper-h2."""
        self.writer.write(data)
        await self.writer.drain()

    async def goodbye(self, last: int) -> None:
        """Say that no stream after `last` is taken. hyper-h2 would take nothing of the others either."""
        await self.raw(b"\0\0\x08\7\0\0\0\0\0" + last.to_bytes(4, "big") + bytes(4))

    async def run(self) -> None:
        self.h2.initiate_connection()
        if self.origin.settings:
            self.h2.update_settings(self.origin.settings)
        await self.flush()
        try:
            while data := await self.reader.read(65_536):
                with suppress(h2.exceptions.StreamClosedError):
                    for event in self.h2.receive_data(data):
                        self._take(event)
                await self.flush()
        except (ConnectionError, h2.exceptions.ProtocolError) as error:
            self.origin.errors.append(error)
        finally:
            for task in self._tasks:
                task.cancel()
            self.writer.close()
            self.ended = True

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                asked = Asked(self, event.stream_id, tuple(event.headers))
                self.asked[event.stream_id] = asked
                self.most = max(self.most, self.h2.open_inbound_streams)
                self.origin.asked.append(asked)
                task = asyncio.create_task(self.origin.perform(asked))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case h2.events.DataReceived():
                asked = self.asked[event.stream_id]
                asked.body += event.data
                asked.came.set()
                if event.flow_controlled_length and self.origin.reads:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self.asked[event.stream_id].trailers = tuple(event.headers)
            case h2.events.StreamEnded():
                self.asked[event.stream_id].ended.set()
            case h2.events.StreamReset():
                self.asked[event.stream_id].reset = int(event.error_code)
                self.moved.set()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self.moved.set()


class Http2Origin:
    """Answers each request by a script, over connections that it keeps."""

    def __init__(
        self,
        script: Script,
        *,
        context: ssl.SSLContext | None = None,
        settings: dict[h2.settings.SettingCodes, int] | None = None,
        reads: bool = True,
    ) -> None:
        self._script = script
        self._context = context
        self.settings = settings or {}
        self.reads = reads
        """Whether what comes is acknowledged, so that more may come."""
        self.asked: list[Asked] = []
        self.connections: list[Http2Connection] = []
        self.errors: list[Exception] = []
        self.url = ""

    async def perform(self, asked: Asked) -> None:
        # The gateway may have left.
        with suppress(h2.exceptions.StreamClosedError, ConnectionError):
            await self._script(asked)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Http2Connection(reader, writer, self)
        self.connections.append(connection)
        await connection.run()

    async def count(self, asked: int) -> None:
        """Wait until so many requests have come."""
        await until(lambda: len(self.asked) >= asked, f"{asked} requests")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Http2Origin"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        scheme = "http" if self._context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            await self.close()

    async def close(self) -> None:
        """Break off all connections."""
        for connection in self.connections:
            connection.writer.transport.abort()
        await until(lambda: all(connection.ended for connection in self.connections), "connections end")
