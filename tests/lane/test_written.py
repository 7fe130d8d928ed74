"""What `write()` took is what the client gets, whatever the application does with its buffer afterwards."""

import array
import asyncio
import ctypes
import gc
import mmap
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

import penstock
from support.waiting import in_time, until

from .conftest import Connect, Serve

SIZE = 32 * 1024
COUNT = 300

Filled = tuple[Any, Callable[[int], None]]
"""What is written again and again, and what fills it with another byte."""


def _of(memory: Any) -> Filled:
    whole = memoryview(memory).cast("B")

    def fill(byte: int) -> None:
        whole[:] = bytes([byte]) * len(whole)

    return memoryview(memory).toreadonly(), fill


def _numpy() -> Filled:
    owner = np.zeros(SIZE, np.uint8)
    shown = owner.view()
    shown.flags.writeable = False
    return memoryview(shown), owner.fill


def _strange_bytes() -> Filled:
    """Bytes whose buffer is another object's: since Python 3.12 any class may say what its buffer is."""
    memory = bytearray(SIZE)

    class Strange(bytes):
        __slots__ = ()

        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(memory).toreadonly()

    return memoryview(Strange(bytes(SIZE))), _of(memory)[1]


CHANGING: dict[str, Callable[[], Filled]] = {
    "a bytearray": lambda: ((memory := bytearray(SIZE)), _of(memory)[1]),
    "a read-only view of a bytearray": lambda: _of(bytearray(SIZE)),
    "a part of a read-only view": lambda: (
        (filled := _of(bytearray(2 * SIZE)))[0][SIZE // 2 : SIZE // 2 + SIZE],
        filled[1],
    ),
    "a read-only view of a map": lambda: _of(mmap.mmap(-1, SIZE)),
    "a read-only view of an array": lambda: _of(array.array("Q", bytes(SIZE))),
    "a read-only view of a structure": lambda: _of((ctypes.c_uint8 * SIZE)()),
    "a read-only array of NumPy": _numpy,
}
if sys.version_info >= (3, 12):
    CHANGING["bytes with a buffer of their own"] = _strange_bytes


@pytest.mark.parametrize("kind", CHANGING)
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "in chunks"])
async def test_a_buffer_that_is_filled_again_is_sent_as_it_was(
    serve: Serve, connect: Connect, kind: str, *, chunked: bool
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        data, fill = CHANGING[kind]()
        response = web.StreamResponse(headers={} if chunked else {"Content-Length": str(SIZE * COUNT)})
        await response.prepare(request)
        for number in range(COUNT):
            fill(number % 251)
            await response.write(data)
        fill(255)
        return response

    client = await connect(await serve(handler), 4096)
    body = (await client.ask()).body
    assert len(body) == SIZE * COUNT
    wrong = [
        number
        for number in range(COUNT)
        if body[number * SIZE : (number + 1) * SIZE] != bytes([number % 251]) * SIZE
    ]
    assert not wrong, f"{len(wrong)} of {COUNT} writes arrived changed"


@pytest.mark.parametrize("form", ["whole", "view", "part", "numbers"])
async def test_bytes_are_lent_and_come_back(serve: Serve, connect: Connect, form: str) -> None:
    """They cannot be changed, so they are not copied. They are released once the kernel has them."""
    size = 8 * 1024 * 1024
    body = bytes(range(256)) * (size // 256)
    held: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        view = memoryview(body)
        data: Any = {"whole": body, "view": view, "part": view[1:-1], "numbers": view.cast("I")}[form]
        response = web.StreamResponse(headers={"Content-Length": str(memoryview(data).nbytes)})
        await response.prepare(request)
        del view
        before = sys.getrefcount(body)
        request.transport.write(data)
        held.append(sys.getrefcount(body) - before)
        return response

    before = sys.getrefcount(body)
    client = await connect(await serve(handler), 4096)
    answer = await client.ask()
    assert answer.body == (body[1:-1] if form == "part" else body)
    assert held == [1]

    def references() -> int:
        gc.collect()
        return sys.getrefcount(body)

    await until(lambda: references() <= before, "the bytes are released")


async def test_a_paused_protocol_that_writes_more_is_resumed(serve: Serve, connect: Connect) -> None:
    """The engine says once that few bytes are left to send; by then the protocol may have written more."""
    size, head, tail = 16 * 1024 * 1024, [bytes(15 * 1024)] * 5, bytes(64 * 1024)
    total = sum(map(len, head)) + len(tail) + 2 * size

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(total)})
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        # One turn may write four times the limit. What it has written stays until the loop's next turn: the protocol is
        # paused for certain. The last write sends all.
        transport.set_write_buffer_limits(high=16 * 1024)
        for piece in head:
            transport.write(piece)
        assert request.protocol._paused
        transport.write(tail)
        deadline = time.monotonic() + 30
        while transport.get_write_buffer_size():
            assert time.monotonic() < deadline, "the kernel takes 139 KiB"
        await asyncio.wait_for(response.write(bytes(size)), 30)
        await response.write(bytes(size))
        return response

    client = await connect(await serve(handler))
    assert len((await client.ask()).body) == total


async def test_frames_are_lent_and_come_back(
    engine: penstock.Engine, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    """A frame that was written is not copied, and cannot be released before the kernel has it."""
    size = 1024 * 1024
    path = tmp_path / "media"
    path.write_bytes(bytes(range(256)) * (size // 256))
    frames: list[penstock.Frame] = []
    ended = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(16 * size + 100)})
        await response.prepare(request)
        # What fills the sockets, so that the frame waits.
        request.transport.write(bytes(15 * size))
        async with penstock.open_file(path, engine=engine, framing=penstock.framing.Fixed(size)) as stream:
            frame = await anext(stream)
            request.transport.write(memoryview(frame).toreadonly())
            request.transport.write(memoryview(frame[:1000])[100:200])
            gc.collect()
            assert frame.exports == 1, "100 bytes are copied"
            with pytest.raises(BufferError):
                frame.release()
            frames.append(frame)
        ended.set()
        return response

    client = await connect(await serve(handler), 4096)
    await client.get()
    head = await client.head()
    await in_time(ended.wait(), "the handler has ended")
    (frame,) = frames
    body = await client.body(head)
    assert body[15 * size :] == path.read_bytes() + path.read_bytes()[100:200]
    await until(lambda: frame.exports == 0, "the kernel has the frame")
    assert not any(engine.stats().pool.bytes_copied.values())
    frame.release()
    frames.clear()


async def test_a_released_view_is_refused(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        view = memoryview(bytes(SIZE))
        view.release()
        with pytest.raises(ValueError, match="released"):
            request.transport.write(view)
        with pytest.raises(BufferError, match="contiguous"):
            request.transport.write(memoryview(bytes(2 * SIZE))[::2])
        return web.Response(text="well")

    assert (await (await connect(await serve(handler))).ask()).body == b"well"
