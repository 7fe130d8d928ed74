"""Requests whose heads aiohttp's parser does not read: they are what it would have made, and are handled as its own."""

import asyncio
import string
from typing import Any

import aiohttp
import pytest
from aiohttp import hdrs, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import istr

from penstock.web import handler as handler_module
from penstock.web.request_head import plain_request

from .conftest import Connect, Serve

PARTS = (
    "method",
    "path",
    "version",
    "headers",
    "raw_headers",
    "should_close",
    "compression",
    "upgrade",
    "chunked",
    "url",
)
TOKEN = string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"
KNOWN = sorted(str(name) for name in vars(hdrs).values() if isinstance(name, istr))
NAMES = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from(KNOWN).map(str.upper),
    st.text(TOKEN, min_size=1, max_size=12),
)
VALUES = st.one_of(
    st.sampled_from(
        ("close", "keep-alive", "Keep-Alive", "close, TE", "gzip", "0", "websocket", "100-continue")
    ),
    st.text("".join(chr(code) for code in range(0x21, 0x7F)) + " \té", max_size=20).map(
        lambda text: text.strip(" \t")
    ),
)
METHODS = st.sampled_from(("GET", "HEAD", "POST", "OPTIONS", "DELETE", "PUT", "PATCH", "PROPFIND", "TRACE"))
TARGETS = st.text(TOKEN + "/?=&:@;,", max_size=30).map(lambda text: "/" + text.replace("#", ""))


def parsed(head: bytes) -> RawRequestMessage:
    """What aiohttp's parser makes of a head. It raises if it refuses the head."""
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 65536, max_line_size=8190, max_field_size=8190)
        messages, _, _ = parser.feed_data(head)
    finally:
        loop.close()
    ((message, _),) = messages
    return message


def written(method: str, target: str, minor: int, fields: list[tuple[str, str]]) -> bytes:
    """A head as the engine writes one: Host is first."""
    lines = [f"{method} {target} HTTP/1.{minor}", "Host: a", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join((*lines, "", "")).encode()


@pytest.fixture(autouse=True)
def this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer releases are tried as well: these tests say whether they may be named in `handler`."""
    monkeypatch.setattr(handler_module, "_KNOWN_RELEASE", aiohttp.__version__)


@given(METHODS, TARGETS, st.sampled_from((0, 1)), st.lists(st.tuples(NAMES, VALUES), max_size=6))
@example("GET", "//a:b@c?d", 1, [])
@example("GET", "/?a?b", 0, [("connection", "Keep-Alive")])
@example("GET", "/", 1, [("Connection", "close"), ("X", "")])
@example("GET", "/", 1, [("user-agent", "a"), ("User-Agent", "b")])
@example("GET", "/", 1, [("X-Forwarded-For", "a"), ("x-forwarded-for", "b")])
def test_a_plain_head_is_read_as_by_the_parser(
    method: str, target: str, minor: int, fields: list[tuple[str, str]]
) -> None:
    head = written(method, target, minor, fields)
    read = plain_request(head)
    if read is not None:
        expected = parsed(head)
        assert type(read) is type(expected)
        for part in PARTS:
            assert getattr(read, part) == getattr(expected, part), part
        assert list(read.headers) == list(expected.headers), "names in the case that aiohttp knows them in"


@pytest.mark.parametrize(
    "fields",
    [
        [("Upgrade", "websocket"), ("Connection", "Upgrade")],
        [("Connection", "close, TE")],
        [("Content-Encoding", "gzip")],
        [("Content-Length", "0")],
        [("Proxy-Connection", "close")],
        [("X", "é")],
        [("X", "a" * 4096)],
        [("X", "a")] * 65,
        [("Host", "b")],
    ],
    ids=lambda fields: fields[0][0],
)
def test_the_parser_reads_what_is_not_plain(fields: list[tuple[str, str]]) -> None:
    assert plain_request(written("GET", "/", 1, [("Accept", "*/*")])) is not None
    assert plain_request(written("GET", "/", 1, fields)) is None


async def test_the_parser_reads_the_heads_of_requests_with_bodies_alone(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: list[bytes] = []

    def plain_and_noted(head: bytes) -> RawRequestMessage | None:
        plain.append(head)
        return plain_request(head)

    monkeypatch.setattr(handler_module, "plain_request", plain_and_noted)

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    client = await connect(await serve(handler))
    # The task of a new protocol has not begun yet, so the parser gets its first request.
    assert (await client.ask("/")).head.status == 200
    plain.clear()
    for body, heads in ((b"", 1), (b"ab", 1), (b"", 2), (b"", 3), (b"c", 3)):
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\n%s\r\n%s" % (length, body))
        assert (await client.body(await client.head()), len(plain)) == (body, heads)


async def test_a_tool_sees_the_data_of_a_method_that_it_has_replaced(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[bytes] = []
    receive = RequestHandler.data_received

    def data_received(self: RequestHandler, data: bytes) -> None:
        heads.append(data)
        receive(self, data)

    monkeypatch.setattr(RequestHandler, "data_received", data_received)

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    client = await connect(await serve(handler))
    for count in (1, 2, 3):
        assert (await client.ask("/")).body == b"ok"
        assert len(heads) == count


async def test_the_timer_of_idle_connections_spares_one_that_is_answered(
    serve: Serve, connect: Connect
) -> None:
    async def handler(request: web.Request) -> web.Response:
        protocol: Any = request.protocol
        protocol._next_keepalive_close_time = 0
        protocol._process_keepalive()
        assert request.transport is not None
        return web.Response(text=str(request.transport.is_closing()))

    client = await connect(await serve(handler))
    for _ in range(3):
        assert (await client.ask("/")).body == b"False"


async def test_the_task_of_a_request_is_its_own_and_can_be_cancelled(serve: Serve, connect: Connect) -> None:
    tasks = []

    async def handler(request: web.Request) -> web.Response:
        tasks.append(request.task)
        if request.path == "/cancelled":
            request.task.cancel()
            await asyncio.Event().wait()
        return web.Response(text="ok")

    served = await serve(handler)
    client = await connect(served)
    for _ in range(2):
        assert (await client.ask("/")).body == b"ok"
    await client.send(b"GET /cancelled HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await client.reader.read() == b"", "the connection is closed, as on aiohttp's own server"
    other = await connect(served)
    assert (await other.ask("/")).body == b"ok"
    assert tasks[-2].cancelled()


async def test_a_protocol_that_is_closed_meanwhile_closes_after_its_response(
    serve: Serve, connect: Connect
) -> None:
    async def handler(request: web.Request) -> web.Response:
        request.protocol.close()
        return web.Response(text="ok")

    served = await serve(handler)
    client = await connect(served)
    assert (await client.ask("/")).body == b"ok"
    other = await connect(served)
    assert (await other.ask("/")).body == b"ok"
