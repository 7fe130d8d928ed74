"""The writer of responses on a lane: it writes, and is left, as aiohttp's own, and waits where that one waits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.http_writer import StreamWriter
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from penstock.web import handler as handler_module
from penstock.web import plain_writer
from penstock.web.plain_writer import PlainWriter
from support.waiting import in_time

from .conftest import Connect, Serve

LEFT = ("length", "chunked", "buffer_size", "output_size", "_eof", "_headers_buf", "_headers_written")


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.written.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closing


class Protocol:
    def __init__(self) -> None:
        self.transport: Transport | None = Transport()
        self._paused = False
        self.drained = 0

    @property
    def writing_paused(self) -> bool:
        return self._paused

    async def _drain_helper(self) -> None:
        self.drained += 1
        self._paused = False


Step = Callable[[Any, Any], Coroutine[Any, Any, None]]


def write(chunk: Any, **options: Any) -> Step:
    async def step(writer: Any, _protocol: Any) -> None:
        await writer.write(chunk, **options)

    return step


def end(chunk: bytes = b"") -> Step:
    async def step(writer: Any, _protocol: Any) -> None:
        await writer.write_eof(chunk)

    return step


async def head(writer: Any, _protocol: Any) -> None:
    await writer.write_headers("HTTP/1.1 200 OK", CIMultiDict({"A": "b"}))


async def send_head(writer: Any, _protocol: Any) -> None:
    writer.send_headers()


async def pause(_writer: Any, protocol: Any) -> None:
    protocol._paused = True


async def close(_writer: Any, protocol: Any) -> None:
    protocol.transport.closing = True


async def lose(_writer: Any, protocol: Any) -> None:
    protocol.transport = None


async def chunk(writer: Any, _protocol: Any) -> None:
    writer.enable_chunking()


async def compress(writer: Any, _protocol: Any) -> None:
    writer.enable_compression("deflate")


async def hear(writer: Any, protocol: Any) -> None:
    writer.on_body_write = lambda size, total: protocol.transport.written.append(b"%d %d" % (size, total))


def promise(length: int | None) -> Step:
    async def step(writer: Any, _protocol: Any) -> None:
        writer.length = length

    return step


CHUNKS = st.one_of(
    st.binary(max_size=9),
    st.binary(max_size=9).map(bytearray),
    st.binary(max_size=9).map(memoryview),
    st.integers(1, 3).map(lambda count: memoryview(bytes(4 * count)).cast("I")),
    st.just(memoryview(bytes(6))[::2]),
)
STEPS = st.one_of(
    st.builds(write, CHUNKS),
    st.builds(write, CHUNKS, drain=st.booleans()),
    st.builds(write, CHUNKS, LIMIT=st.integers(0, 12)),
    st.builds(end, st.binary(max_size=4)),
    st.sampled_from((head, send_head, pause, close, lose, chunk, compress, hear)),
    st.builds(promise, st.one_of(st.none(), st.integers(0, 40))),
)


async def left(make: Callable[..., StreamWriter], steps: list[Step]) -> list[object]:
    """What was written by each step, how the writer was left by it, and what was raised."""
    protocol: Any = Protocol()
    transport = protocol.transport
    writer = make(protocol, asyncio.get_running_loop())
    seen: list[object] = []
    for step in steps:
        try:
            await step(writer, protocol)
        except Exception as error:
            seen.append((type(error), str(error)))
        seen.append((list(transport.written), protocol.drained, [getattr(writer, name) for name in LEFT]))
    return seen


@settings(deadline=None)
@given(st.one_of(st.none(), st.integers(0, 40)), st.lists(STEPS, max_size=8))
def test_a_writer_writes_and_is_left_as_aiohttps_own(length: int | None, steps: list[Step]) -> None:
    steps = [promise(length), head, send_head, *steps]
    assert asyncio.run(left(PlainWriter, steps)) == asyncio.run(left(StreamWriter, steps))


@pytest.mark.parametrize("paused", [False, True])
async def test_a_write_beyond_the_limit_waits_while_the_protocol_is_paused(paused: bool) -> None:
    protocol: Any = Protocol()
    writer = PlainWriter(protocol, asyncio.get_running_loop())
    writer.length = 10
    protocol._paused = paused
    await writer.write(b"ab", LIMIT=1)
    assert (protocol.drained, writer.buffer_size) == (paused, 0)


async def test_what_is_awaited_may_be_awaited_by_many_and_in_another_loop() -> None:
    async def wait() -> None:
        for _ in range(3):
            await plain_writer._OVER

    await asyncio.gather(wait(), wait())
    await asyncio.to_thread(asyncio.run, wait())


@pytest.mark.parametrize("name", ["write", "write_headers"])
async def test_a_tool_that_replaced_a_method_of_the_writer_is_called(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    called = []
    original = getattr(StreamWriter, name)

    async def replaced(self: StreamWriter, *arguments: Any, **options: Any) -> None:
        called.append(name)
        await original(self, *arguments, **options)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1"})
        await response.prepare(request)
        await response.write(b"a")
        return response

    monkeypatch.setattr(handler_module, "_KNOWN_RELEASE", aiohttp.__version__)
    monkeypatch.setattr(StreamWriter, name, replaced)
    client = await connect(await serve(answer))
    await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    head = await in_time(client.reader.readuntil(b"\r\n\r\n"), "the head")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert await in_time(client.reader.readexactly(1), "the body") == b"a"
    assert called == [name]
