"""What an application writes, and what a client must never take it for."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import penstock
from support.waiting import settled, until

from .conftest import Connect, Serve


async def test_pieces_leave_as_they_are_written(serve: Serve, connect: Connect) -> None:
    steps = asyncio.Queue[bytes]()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while piece := await steps.get():
            await response.write(piece)
        return response

    served = await serve(stream)
    client = await connect(served)
    for _ in range(2):
        await client.get()
        head = await client.head()
        assert head.one("Transfer-Encoding") == "chunked"
        for piece in (b"one", b"x" * 100_000, b"three"):
            steps.put_nowait(piece)
            assert await client.chunk() == piece
        steps.put_nowait(b"")
        assert await client.chunk() == b""
    assert served.counts() == (0, 1, 0)


@pytest.mark.parametrize("size", [1, 15_000, 16_384, 5_000_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bodies_of_any_size_and_kind(
    serve: Serve, connect: Connect, size: int, kind: Callable[[bytes], object]
) -> None:
    body = bytes(range(256)) * (size // 256 + 1)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(size)})
        await response.prepare(request)
        piece = kind(body[:size])
        await response.write(piece)
        if isinstance(piece, bytearray):
            # What can be changed is copied when it is written.
            piece[:] = b"!" * size
        return response

    client = await connect(await serve(handler))
    assert (await client.ask()).body == body[:size]


async def test_a_client_that_does_not_read_stops_the_application(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(50_000))
            written += 50_000

    client = await connect(await serve(endless, server={"handler_cancellation": True}), 4096)
    client.writer.transport.pause_reading()
    await client.get()
    await until(lambda: written, "the handler writes")
    await settled(lambda: written, "the handler has stopped")
    assert written < 12_000_000, "sockets and the transport's buffer hold this much"
    client.abort()


WRONG = {
    "fewer bytes": (b"Content-Length: 10", b"half", "6 bytes of the body are missing"),
    "more bytes": (b"Content-Length: 3", b"three HTTP/1.1 200 OK", "after the end"),
    "no last chunk": (b"Transfer-Encoding: chunked", b"4\r\nhalf\r\n", "the last chunk is missing"),
    "no chunks": (b"Transfer-Encoding: chunked", b"plain", "chunk size"),
    "both framings": (b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"0\r\n\r\n", "both"),
    "a bad length": (b"Content-Length: three", b"abc", "Content-Length"),
    "a bad name": (b"No Name: x\r\nContent-Length: 0", b"", "field name"),
    "a bare line feed": (b"A: b\nC: d\r\nContent-Length: 0", b"", "LF"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_response_of_another_length_never_shifts_the_next(
    serve: Serve, connect: Connect, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    fields, body, why = WRONG[case]

    class Raw(web.StreamResponse):
        """Writes what aiohttp would not."""

        async def prepare(self, request):
            self._req = request
            self._payload_writer = request._payload_writer
            request.transport.write(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + body)
            self._keep_alive = True
            return self._payload_writer

        async def write_eof(self, _data: bytes = b"") -> None:
            self._eof_sent = True

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/wrong":
            return Raw()
        return web.Response(text="next")

    served = await serve(handler)
    client = await connect(served)
    await client.send(b"GET /wrong HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        await client.rest()
        pytest.fail("the connection has not been reset")
    await until(lambda: caplog.records, "the operator is told")
    assert "GET /wrong" in caplog.text
    assert why in caplog.text
    assert (await (await connect(served)).ask("/next")).body == b"next", "others do not notice"


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_handler_that_fails_within_its_body_has_no_clean_end(
    serve: Serve, connect: Connect, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise RuntimeError("on purpose")

    client = await connect(await serve(handler))
    await client.get(version=version)
    head = await client.head()
    if version == "1.1":
        assert await client.chunk() == b"half"
        assert await client.rest() == b"", "there is no last chunk"
    else:
        assert await client.reader.readexactly(4) == b"half"
        with pytest.raises(ConnectionResetError):
            await client.rest()
    assert head.status == 200
    assert "on purpose" in caplog.text


async def test_a_response_that_says_the_client_has_left_is_none(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(web.Response):
        async def prepare(self, _request: web.BaseRequest) -> Any:
            raise ConnectionResetError

    async def handler(request: web.Request) -> web.Response:
        return Gone() if request.path == "/gone" else web.Response(text="next")

    served = await serve(handler)
    client = await connect(served)
    await client.get("/gone")
    assert await client.rest() == b""
    assert caplog.text == "", "aiohttp takes it for the client's doing, and so does the engine"
    assert (await (await connect(served)).ask("/next")).body == b"next"


async def test_a_connection_error_of_the_handler_s_own_is_answered(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.Response:
        raise ConnectionRefusedError("on purpose")

    served = await serve(handler)
    reply = await (await connect(served)).ask()
    assert reply.head.status == 500
    assert b"500 Internal Server Error" in reply.body
    assert "on purpose" in caplog.text
    await until(lambda: served.connections() == 0, "aiohttp closes behind an error")


async def test_a_handler_that_fails_before_its_head_is_answered(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise RuntimeError("on purpose")

    assert (await (await connect(await serve(handler))).ask()).head.status == 500
    assert "on purpose" in caplog.text


async def test_interim_responses_pass(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        request.transport.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")
        return web.Response(text="ok")

    client = await connect(await serve(handler))
    await client.get()
    hints = await client.head()
    assert (hints.status, hints.one("Link")) == (103, "</a>; rel=preload")
    assert await client.body(await client.head()) == b"ok"


async def test_the_access_log_is_on_aiohttps_logger(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    caplog.set_level("INFO")
    served = await serve(handler, server={"access_log": logging.getLogger("aiohttp.access")})
    await (await connect(served)).ask("/logged")
    await until(lambda: "/logged" in caplog.text, "the line is written")
    assert "127.0.0.1" in caplog.text
    assert '"GET /logged HTTP/1.1" 200' in caplog.text


async def _write(request: web.Request) -> web.StreamResponse:
    """The handler of GET, which writes a body whatever it is asked for, as aiohttp-sse's do."""
    kind = request.path[1:]
    fields = {"Content-Length": "5000000"} if kind == "length" else {}
    response = web.StreamResponse(headers=fields, status=int(kind) if kind.isdigit() else 200)
    if kind == "until-close":
        response.force_close()
    await response.prepare(request)
    for _ in range(50):
        await response.write(bytes(100_000))
    return response


@pytest.mark.parametrize(
    ("method", "kind"),
    [("HEAD", "chunks"), ("HEAD", "length"), ("HEAD", "until-close"), ("GET", "204"), ("GET", "304")],
)
async def test_a_body_where_there_is_none_is_not_sent(
    serve: Serve, connect: Connect, method: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(await serve(_write))
    for _ in range(3):
        reply = await client.ask("/" + kind, method=method)
        assert reply.head.status == (int(kind) if kind.isdigit() else 200)
        if kind == "until-close":
            assert await client.rest() == b""
            break
        if kind == "length":
            assert reply.head.one("Content-Length") == "5000000"
    assert not caplog.records


async def test_a_file_or_a_stream_that_answers_head_is_not_sent(
    engine: penstock.Engine, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "media"
    path.write_bytes(bytes(1_000_000))
    sent: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000000"})
        await response.prepare(request)
        if request.path == "/stream":
            async with penstock.open_file(path, engine=engine) as stream:
                sent.append(await stream.pipe_to(response))
        else:
            with path.open("rb") as file:
                loop = asyncio.get_running_loop()
                sent.append(await loop.sendfile(request.transport, file, 0, 1_000_000))
        return response

    client = await connect(await serve(handler))
    for _ in range(2):
        for target in ("/stream", "/file"):
            reply = await client.ask(target, method="HEAD")
            assert reply.head.one("Content-Length") == "1000000"
    await until(lambda: sent == [0] * 4, "every handler has been told that nothing was sent")
