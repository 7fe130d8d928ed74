"""A client of HTTP/2 of which every frame is known: hyper-h2 speaks for it, unless a test writes frames itself."""

import asyncio
import socket
import ssl
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.settings
import trustme
from hyperframe.frame import Frame

from support.certificates import trust
from support.waiting import in_time

Fields = tuple[tuple[str, str], ...]
_GOAWAY = 7
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def one(fields: Fields, name: str) -> str | None:
    """The value of the field `name`, of which there is one at most."""
    values = [value for known, value in fields if known == name]
    assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
    return values[0] if values else None


@dataclass
class Answer:
    """What has come on one stream."""

    interim: list[Fields] = field(default_factory=list)
    fields: Fields = ()
    body: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    trailers: Fields = ()
    ended: bool = False
    reset: int | None = None

    def one(self, name: str) -> str | None:
        return one(self.fields, name)

    @property
    def status(self) -> int:
        return int(self.one(":status") or 0)


class Http2Client:
    """One connection. What comes is read by `until`, and by nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        # What tests send on purpose is not what a client should.
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(config)
        self.answers: defaultdict[int, Answer] = defaultdict(Answer)
        self.order: list[int] = []
        """The stream of each piece of a body, in the order in which they came."""
        self.reads = True
        """Whether what comes is acknowledged, so that more may come."""
        self.step: int | None = None
        """Bytes of each update of a window; by default hyper-h2 decides."""
        self.goodbye: int | None = None
        """The error code with which the server has said that it ends the connection."""
        self.last: int | None = None
        self.acknowledged = 0
        self.settled = False
        self.closed = False
        self._pending = bytearray()
        self._unknown: set[int] = set()
        """The streams that hyper-h2 has not begun."""

    @classmethod
    async def connect(
        cls,
        port: int,
        authority: trustme.CA,
        *,
        window: int | None = None,
        context: ssl.SSLContext | None = None,
        begins: bool = True,
        receive_buffer: int | None = None,
        step: int | None = None,
    ) -> Self:
        context = context or trust(authority)
        context.set_alpn_protocols(["h2"])
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(
            sock=connection, ssl=context, server_hostname="localhost"
        )
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        client = cls(reader, writer)
        client.step = step
        if begins:
            client.h2.initiate_connection()
            await client.flush()
            await client.until(lambda: client.settled, "our settings are known")
            if window is not None:
                client.settled = False
                client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
                await client.flush()
                await client.until(lambda: client.settled, "the window is known")
        return client

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        """Send bytes past hyper-h2."""
        self.writer.write(data)
        await self.writer.drain()

    async def frames(self, *frames: Frame) -> None:
        """Send frames past hyper-h2. What comes on a stream that hyper-h2 has not begun is read and dropped."""
        begun = self.h2.highest_outbound_stream_id
        self._unknown.update(frame.stream_id for frame in frames if frame.stream_id > begun)
        await self.raw(b"".join(frame.serialize() for frame in frames))

    async def request(
        self,
        path: str = "/",
        *fields: tuple[str, str],
        method: str = "GET",
        body: bytes | None = None,
        ends: bool = True,
    ) -> int:
        """Begin a stream; with `body` all of it is sent as the windows allow."""
        stream = self.begin(path, *fields, method=method, ends=body is None and ends)
        await self.flush()
        if body is not None:
            await self.send(stream, body, ends=ends)
        return stream

    def begin(self, path: str, *fields: tuple[str, str], method: str = "GET", ends: bool = True) -> int:
        """Begin a stream with the next flush."""
        stream: int = self.h2.get_next_available_stream_id()
        head = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
            *fields,
        ]
        self.h2.send_headers(stream, head, end_stream=ends)
        return stream

    async def send(self, stream: int, body: bytes, *, ends: bool = True) -> None:
        view = memoryview(body)
        while view and self.answers[stream].reset is None:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(view))
            if room <= 0:
                before = self.h2.local_flow_control_window(stream)
                await self.until(
                    lambda before=before: (
                        self.answers[stream].reset is not None
                        or self.h2.local_flow_control_window(stream) > before
                    ),
                    "the window is opened",
                )
                continue
            self.h2.send_data(stream, bytes(view[:room]))
            view = view[room:]
            await self.flush()
        if ends and self.answers[stream].reset is None:
            self.h2.end_stream(stream)
            await self.flush()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Read until `condition`, or fail."""

        async def read() -> None:
            while not condition():
                data = await self.reader.read(65_536)
                if not data:
                    self.closed = True
                    assert condition(), f"the server has closed the connection before {what}"
                    return
                self._pending += data
                for frame in self._whole_frames():
                    self._receive(frame)
                await self.flush()

        await in_time(read(), what)

    def _whole_frames(self) -> Iterator[bytes]:
        while len(self._pending) >= 9:
            size = 9 + int.from_bytes(self._pending[:3], "big")
            if len(self._pending) < size:
                return
            yield bytes(self._pending[:size])
            del self._pending[:size]

    def _receive(self, frame: bytes) -> None:
        if frame[3] == _GOAWAY:
            # hyper-h2 takes nothing after it, but what was begun goes on.
            self.last, self.goodbye = struct.unpack(">II", frame[9:17])
            return
        if int.from_bytes(frame[5:9], "big") in self._unknown:
            return
        with suppress(h2.exceptions.StreamClosedError):
            for event in self.h2.receive_data(frame):
                self._take(event)

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.InformationalResponseReceived():
                self.answers[event.stream_id].interim.append(tuple(event.headers))
            case h2.events.ResponseReceived():
                self.answers[event.stream_id].fields = tuple(event.headers)
            case h2.events.DataReceived():
                answer = self.answers[event.stream_id]
                answer.body += event.data
                answer.pieces += 1
                self.order.append(event.stream_id)
                length = event.flow_controlled_length
                if self.reads and length and self.step is None:
                    self.h2.acknowledge_received_data(length, event.stream_id)
                elif self.reads and self.step is not None:
                    self._open(event.stream_id, length, self.step)
            case h2.events.TrailersReceived():
                self.answers[event.stream_id].trailers = tuple(event.headers)
            case h2.events.StreamEnded():
                self.answers[event.stream_id].ended = True
            case h2.events.StreamReset():
                self.answers[event.stream_id].reset = int(event.error_code)
            case h2.events.SettingsAcknowledged():
                self.settled = True
            case h2.events.PingAckReceived():
                self.acknowledged += 1

    def _open(self, stream: int, length: int, step: int) -> None:
        for start in range(0, length, step):
            size = min(step, length - start)
            self.h2.increment_flow_control_window(size)
            # At its end it is closed.
            with suppress(h2.exceptions.StreamClosedError):
                self.h2.increment_flow_control_window(size, stream)

    async def answer(self, stream: int) -> Answer:
        """What a stream has brought at its end."""
        answer = self.answers[stream]
        await self.until(lambda: answer.ended or answer.reset is not None, f"stream {stream} ends")
        return answer

    async def ask(
        self, path: str = "/", *fields: tuple[str, str], method: str = "GET", body: bytes | None = None
    ) -> Answer:
        return await self.answer(await self.request(path, *fields, method=method, body=body))

    async def ping(self) -> None:
        """What was sent before has been read when this ends."""
        before = self.acknowledged
        self.h2.ping(b"12345678")
        await self.flush()
        await self.until(lambda: self.acknowledged > before, "a PING is answered")

    async def end(self) -> None:
        """Read to the end of the connection."""
        try:
            await self.until(lambda: False, "the end of the connection")
        except (ConnectionError, AssertionError):
            self.closed = True

    async def close(self) -> None:
        self.writer.transport.abort()
