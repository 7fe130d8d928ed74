"""Small whole responses that are sent in one step: a client gets what aiohttp sends, and they are left as by aiohttp."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from penstock.web import handler as handler_module
from penstock.web.plain_response import send_plain
from support.client import RawClient
from support.waiting import in_time

from .conftest import Serve

LEFT = (
    "status",
    "reason",
    "keep_alive",
    "prepared",
    "body_length",
    "content_length",
    "chunked",
    "_eof_sent",
    "_req",
)


@asynccontextmanager
async def aiohttps_own(app: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def cookie() -> web.Response:
    response = web.Response(text="a")
    response.set_cookie("a", "b")
    return response


def chunked() -> web.Response:
    response = web.Response(body=b"a")
    response.enable_chunked_encoding()
    return response


def compressed() -> web.Response:
    response = web.Response(body=b"a" * 100)
    response.enable_compression(web.ContentCoding.deflate)
    return response


def forced() -> web.Response:
    response = web.Response(text="a")
    response.force_close()
    return response


PLAIN: tuple[Callable[[], web.Response], ...] = (
    lambda: web.Response(text="ok"),
    web.Response,
    lambda: web.Response(body=b"a"),
    lambda: web.Response(body=b"a" * 16384),
    lambda: web.Response(status=404, reason="Nothing here", text="no"),
    lambda: web.Response(headers={"Date": "now", "Server": "x", "Connection": "close"}, text="a"),
    lambda: web.json_response({"é": 1}),
    forced,
)
OTHER: tuple[Callable[[], web.Response], ...] = (
    cookie,
    chunked,
    compressed,
    lambda: web.Response(status=204),
    lambda: web.Response(status=304),
    lambda: web.Response(body=b"a" * 16385),
    lambda: web.Response(headers={"Content-Length": "1"}, body=b"a"),
    lambda: web.Response(body=bytearray(b"abc")),
    lambda: web.Response(text="a", headers={"X": "é"}),
)


@pytest.fixture(autouse=True)
def this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer releases are tried as well: these tests say whether they may be named in `handler`."""
    monkeypatch.setattr(handler_module, "_KNOWN_RELEASE", aiohttp.__version__)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("closes", [False, True], ids=["kept alive", "closing"])
async def test_a_response_is_as_aiohttps_own(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, method: str, version: str, closes: bool
) -> None:
    was_plain: list[bool] = []
    monkeypatch.setattr(
        handler_module, "send_plain", lambda *args: was_plain.append(send_plain(*args)) or was_plain[-1]
    )
    # HTTP/1.0 has no chunks.
    made = [make for make in (*PLAIN, *OTHER) if version == "1.1" or make is not chunked]
    left: list[web.Response] = []

    async def handler(request: web.Request) -> web.Response:
        left.append(made[int(request.path[1:])]())
        return left[-1]

    fields = "Host: a\r\nConnection: close\r\n" if closes else "Host: a\r\n"
    served = await serve(app_of(handler))
    async with aiohttps_own(app_of(handler)) as port:
        for number, make in enumerate(made):
            asks = f"{method} /{number} HTTP/{version}\r\n{fields}\r\n"
            replies = [await ask(at, asks) for at in (served.port, port)]
            assert replies[0] == replies[1], number
            ours, theirs = left[-2:]
            assert seen(ours) == seen(theirs), number
            is_plain = method == "GET" and version == "1.1" and (make in PLAIN or make is OTHER[-1])
            assert was_plain[number] == is_plain, number


def app_of(handler: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/{number:.*}", handler)
    return app


def seen(response: web.Response) -> dict[str, Any]:
    """What code of the application may look at after the response."""
    fields = [(name, value) for name, value in response.headers.items() if name != "Date" or value == "now"]
    return {"fields": fields} | {name: getattr(response, name) for name in LEFT}


async def ask(port: int, request: str) -> bytes:
    """All that a server answers, without the time."""
    client = await RawClient.connect(port)
    await client.send(request.encode())
    head = await in_time(client.reader.readuntil(b"\r\n\r\n"), "the head")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    body = b""
    if not request.startswith("HEAD") and length:
        body = await client.reader.readexactly(int(length[1]))
    client.abort()
    return re.sub(rb"Date: \w+, [^\r]*", b"Date: ", head) + body


async def test_a_listener_sees_a_response_before_it_is_sent(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def add(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X"] = "added"

    app = app_of(handler)
    app.on_response_prepare.append(add)
    served = await serve(app)
    assert b"X: added\r\n" in await ask(served.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")


async def test_a_field_cannot_end_a_head(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok", headers={"X": "a\r\nY: b"})

    served = await serve(app_of(handler))
    async with aiohttps_own(app_of(handler)) as port:
        for at in (served.port, port):
            client = await RawClient.connect(at)
            await client.get()
            assert await in_time(client.reader.read(), "the end of the connection") == b""
            client.abort()


@pytest.mark.parametrize("release", ["3.14.0", "3.15.0"])
async def test_another_release_sends_its_own_responses(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    def refused(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(handler_module, "__version__", release)
    monkeypatch.setattr(handler_module, "send_plain", refused)
    monkeypatch.setattr(handler_module, "plain_request", refused)

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    served = await serve(app_of(handler))
    for _ in range(2):
        assert (await ask(served.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")).endswith(b"ok")


async def test_a_response_of_a_method_that_a_tool_has_replaced_is_made_by_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[web.StreamResponse] = []
    prepare = web.StreamResponse.prepare

    async def noted(self: web.StreamResponse, request: web.BaseRequest) -> Any:
        prepared.append(self)
        return await prepare(self, request)

    monkeypatch.setattr(web.StreamResponse, "prepare", noted)

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    served = await serve(app_of(handler))
    assert (await ask(served.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")).endswith(b"ok")
    assert len(prepared) == 1
