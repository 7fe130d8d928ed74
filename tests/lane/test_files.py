"""Files through the engine's sendfile, whatever the event loop."""

import asyncio
import fcntl
import os
import struct
import termios
from pathlib import Path

import pytest
from aiohttp import web

from support.client import RawClient
from support.waiting import until

from .conftest import Connect, Serve


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "media.bin"
    path.write_bytes(os.urandom(3_000_000))
    return path


async def test_files_and_parts_of_them(serve: Serve, connect: Connect, file: Path) -> None:
    async def handler(_: web.Request) -> web.FileResponse:
        return web.FileResponse(file)

    served = await serve(handler)
    client = await connect(served)
    whole = file.read_bytes()
    for _ in range(2):
        assert (await client.ask()).body == whole
    reply = await client.ask("/", "Range: bytes=1000000-1999999")
    assert (reply.head.status, reply.body) == (206, whole[1_000_000:2_000_000])
    assert (await client.ask("/", method="HEAD")).head.one("Content-Length") == "3000000"
    await until(lambda: served.counts()[1] == 1, "one handler has served them all")
    assert (await client.ask("/", version="1.0")).body == whole


async def test_it_is_sendfile(serve: Serve, connect: Connect, file: Path) -> None:
    """Not aiohttp's fallback, which reads the file in a thread and writes it."""
    read = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "3000000"})
        await response.prepare(request)
        response._payload_writer.send_headers()
        with file.open("rb") as opened:
            nonlocal read
            read = await asyncio.get_running_loop().sendfile(request.transport, opened)
            assert opened.tell() == read
        return response

    client = await connect(await serve(handler))
    assert (await client.ask()).body == file.read_bytes()
    await until(lambda: read == 3_000_000, "the handler is told how much was sent")


async def test_the_loop_is_left_as_it_was(serve: Serve, file: Path) -> None:
    async def handler(_: web.Request) -> web.FileResponse:
        return web.FileResponse(file)

    loop = asyncio.get_running_loop()
    original = loop.sendfile
    first, second = await serve(handler), await serve(handler)
    await first.runner.cleanup()
    assert loop.sendfile != original
    await second.runner.cleanup()
    assert loop.sendfile == original


def waiting(client: RawClient) -> int:
    """Bytes that the kernel has for a client that has not read them."""
    connection = client.writer.get_extra_info("socket")
    (count,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(4)))
    return int(count)


async def test_a_client_that_does_not_read_gets_the_file_later(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(40_000_000)

    async def handler(_: web.Request) -> web.FileResponse:
        return web.FileResponse(path)

    client = await connect(await serve(handler), 4096)
    client.writer.transport.pause_reading()
    await client.get()
    await until(lambda: waiting(client), "what the client does not read has been sent")
    client.writer.transport.resume_reading()
    assert len(await client.body(await client.head())) == 40_000_000


async def test_a_file_that_shrinks_is_not_taken_for_whole(
    serve: Serve, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shrinking.bin"
    with path.open("wb") as file:
        file.truncate(40_000_000)

    async def handler(_: web.Request) -> web.FileResponse:
        return web.FileResponse(path)

    client = await connect(await serve(handler), 4096)
    await client.get()
    await client.head()
    os.truncate(path, 20_000_000)
    with pytest.raises((ConnectionResetError, EOFError)):
        await client.reader.readexactly(40_000_000)
    await until(lambda: "are missing" in caplog.text, "the operator is told")


async def test_a_cancelled_file_is_not_taken_for_whole(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(40_000_000)
    tasks: list[asyncio.Task[object]] = []

    async def handler(request: web.Request) -> web.FileResponse:
        tasks.append(request.task)
        return web.FileResponse(path)

    client = await connect(await serve(handler), 4096)
    await client.get()
    await client.head()
    tasks[0].cancel()
    with pytest.raises((ConnectionResetError, EOFError)):
        await client.reader.readexactly(40_000_000)


async def test_a_client_that_leaves_ends_the_sending(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(40_000_000)

    async def handler(_: web.Request) -> web.FileResponse:
        return web.FileResponse(path)

    served = await serve(handler)
    client = await connect(served, 4096)
    await client.get()
    await client.head()
    client.abort()
    await until(lambda: not served.connections(), "the connection has ended")
    await until(lambda: not served.runner.server.connections, "the handler has ended")
