"""The access log of a `Site`: one line for each response, at its end, on either lane."""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web, web_log

import penstock
from penstock.config import Edge, History, Subscriptions
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, Site
from support.client import answer
from support.origins import says
from support.waiting import in_time, until

from .conftest import Connect, Serve, Served

LINE = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.1 "(?P<request>[^"]*)" (?P<rest>\d+ \d+) \d+\.\d{6}(?P<more>.*)'
)
NAME = "tests.access"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> logging.Logger:
    caplog.set_level("INFO")
    return logging.getLogger(NAME)


class Lines:
    """What the logger of the tests was told."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def raw(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records if record.name == NAME]

    async def first(self, count: int) -> list[str]:
        """The first lines, without time and duration."""
        await until(lambda: len(self.raw()) >= count, f"{count} lines are written")
        assert len(self.raw()) == count, self.raw()
        found = [LINE.fullmatch(line) for line in self.raw()]
        assert all(found), self.raw()
        return [f"{line['request']} {line['rest']}{line['more']}" for line in found if line]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, log: logging.Logger) -> Lines:
    return Lines(caplog)


async def origin(peer: Peer) -> None:
    """Answers /whole with 5 bytes."""
    await peer.request()
    await peer.send(answer("Content-Length: 5", body=b"whole"))


class Cut:
    """An origin as that, which sends 4 bytes of 9 of anything else, and closes when it is told to."""

    def __init__(self) -> None:
        self.now = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        if "whole" in request.target:
            await peer.send(answer("Content-Length: 5", body=b"whole"))
        else:
            await peer.send(answer("Content-Length: 9", body=b"half"))
            await self.now.wait()


async def test_each_response_of_either_lane_has_a_line_with_its_bytes_and_its_failure(
    engine: penstock.Engine, serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    cut = Cut()
    async with ScriptedOrigin(cut) as scripted:
        gateway = Gateway(scripted.url, engine=engine)
        away = Gateway("http://127.0.0.1:1", engine=engine)

        async def plain(_: web.Request) -> web.Response:
            return web.Response(text="hello")

        async def chunks(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"abc")
            return response

        async def silent(request: web.Request) -> web.Response:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        async def relayed(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, tenant='a "b"\n')

        async def failed(request: web.Request) -> web.StreamResponse:
            return await away.relay(request)

        app = web.Application()
        app.router.add_get("/app", plain)
        app.router.add_get("/chunks", chunks)
        app.router.add_get("/silent", silent)
        app.router.add_get("/relay/{what}", relayed)
        app.router.add_get("/away", failed)
        app.add_routes([gateway.native("/native/", name="films")])
        served = await serve(app, server={"access_log": log})
        expected = []
        for target, said in (
            ("/app", "200 5"),
            # As nginx's $body_bytes_sent: with the framing of the chunks.
            ("/chunks", "200 13"),
            ("/native/whole", "200 5 route=films"),
            ("/relay/whole", '200 5 tenant="a \\"b\\"\\n"'),
            ("/nowhere?token=SECRET", "404 14"),
        ):
            client = await connect(served)
            await client.ask(target)
            expected.append(f"GET {target.replace('SECRET', '***')} HTTP/1.1 {said}")
            assert await lines.first(len(expected)) == expected
        reply = await (await connect(served)).ask("/away")
        expected.append(f"GET /away HTTP/1.1 502 {len(reply.body)} failed=0x104/CONNECT_FAILED")
        assert await lines.first(len(expected)) == expected
        for target, said in (
            ("/native/half", "200 4 route=films failed=0x10D/BODY_TRUNCATED"),
            ("/relay/half", '200 4 tenant="a \\"b\\"\\n" failed=0x10D/BODY_TRUNCATED'),
        ):
            client = await connect(served)
            await client.get(target)
            await client.reader.readuntil(b"half")
            cut.now.set()
            with contextlib.suppress(ConnectionResetError):
                await client.rest()
            cut.now.clear()
            expected.append(f"GET {target} HTTP/1.1 {said}")
            assert await lines.first(len(expected)) == expected
        client = await connect(served)
        await client.get("/silent")
        await client.rest()
        expected.append("GET /silent HTTP/1.1 444 0")
        assert await lines.first(len(expected)) == expected


async def test_requests_that_are_refused_have_a_line_with_what_was_sent(
    serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    async def never(_: web.Request) -> web.Response:
        raise AssertionError

    served = await serve(never, server={"access_log": log}, edge=Edge(head_timeout=0.2))
    expected = []
    for data, status, name in (
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", 431, "0x603/HEAD_TOO_LARGE"),
        (b"GET / HTTP/1.1\r\nHost:", 408, "0x602/HEAD_TIMEOUT"),
    ):
        client = await connect(served)
        await client.send(data)
        head = await client.head()
        assert head.status == status
        body = await client.body(head)
        expected.append(f"- {status} {len(body)}")
        found = await lines.first(len(expected))
        assert [line.partition(" failed=")[0] for line in found] == expected
        assert " failed=0x" in found[-1], name


HALF = says(answer("Content-Length: 9", body=b"half"), then="stall")


def on_each_lane(
    gateway: Gateway, waits: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.Application:
    """`waits`, a handler that relays, and a native route."""
    app = web.Application()
    app.router.add_get("/waits", waits)
    app.router.add_get("/relay", gateway.relay)
    app.add_routes([gateway.native("/native/", name="films")])
    return app


async def test_a_client_that_leaves_has_a_line_with_what_it_got(
    engine: penstock.Engine, serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    asked = asyncio.Event()

    async def waits(_: web.Request) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedOrigin(HALF) as scripted:
        app = on_each_lane(Gateway(scripted.url, engine=engine), waits)
        served = await serve(app, server={"access_log": log, "handler_cancellation": True})
        client = await connect(served)
        await client.get("/waits")
        await in_time(asked.wait(), "the origin is asked")
        client.reset()
        found = await lines.first(1)
        code = found[0].rpartition("failed=")[2]
        assert code.endswith("/CLIENT_GONE")
        expected = [f"GET /waits HTTP/1.1 499 0 failed={code}"]
        for target, route in (("/relay", ""), ("/native/a", " route=films")):
            client = await connect(served)
            await client.get(target)
            await client.reader.readuntil(b"half")
            client.reset()
            expected.append(f"GET {target} HTTP/1.1 200 4{route} failed={code}")
            assert await lines.first(len(expected)) == expected


async def test_what_the_engine_cuts_off_when_it_is_closed_has_one_line_with_what_was_sent(
    engine: penstock.Engine, serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    async def waits(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "9"})
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedOrigin(HALF) as scripted:
        app = on_each_lane(Gateway(scripted.url, engine=engine), waits)
        served = await serve(app, server={"access_log": log, "handler_cancellation": True})
        for target in ("/native/a", "/relay", "/waits"):
            client = await connect(served)
            await client.get(target)
            await client.reader.readuntil(b"half")
        await engine.aclose()
        assert sorted(await lines.first(3)) == [
            "GET /native/a HTTP/1.1 200 4 route=films failed=0x501/ENGINE_CLOSED",
            "GET /relay HTTP/1.1 200 4 failed=0x501/ENGINE_CLOSED",
            "GET /waits HTTP/1.1 200 4 failed=0x501/ENGINE_CLOSED",
        ]
        await served.runner.cleanup()
        assert len(lines.raw()) == 3


async def test_lines_stand_in_the_order_of_the_ends(
    engine: penstock.Engine, serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    """The first to begin is the last to end: a subscription, before it an application's stream, before that a relay."""
    go_on = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "2"})
        await response.prepare(request)
        await response.write(b"a")
        await go_on.wait()
        await response.write(b"b")
        return response

    async with ScriptedOrigin(origin) as scripted:
        gateway = Gateway(scripted.url, engine=engine)
        hub = penstock.Hub(history=History(memory="1MiB"), engine=engine)
        app = web.Application()
        app.router.add_get("/stream", stream)
        app.add_routes(
            [
                hub.native("/events/", subscriptions=Subscriptions(), name="live"),
                gateway.native("/native/", name="films"),
            ]
        )
        served = await serve(app, server={"access_log": log})
        subscriber, client, last = [await connect(served) for _ in range(3)]
        await subscriber.get("/events/news")
        assert (await subscriber.head()).status == 200
        await client.get("/stream")
        head = await client.head()
        await last.ask("/native/whole")
        expected = ["GET /native/whole HTTP/1.1 200 5 route=films"]
        assert await lines.first(1) == expected
        go_on.set()
        assert await client.body(head) == b"ab"
        expected.append("GET /stream HTTP/1.1 200 2")
        assert await lines.first(2) == expected
        await hub.publish("news", "a")
        await hub.finish("news")
        size = len(b"0\r\n\r\n")
        while block := await subscriber.chunk():
            size += len(block) + len(f"{len(block):x}\r\n\r\n")
        expected.append(f"GET /events/news HTTP/1.1 200 {size} route=live")
        assert await lines.first(3) == expected
        hub.close()


async def test_a_tunnel_has_one_line_at_its_end(
    serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    served = await serve(echo, server={"access_log": log})
    client = await connect(served)
    await client.get(
        "/socket",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    assert (await client.head()).status == 101
    await client.send(b"\x81\x82\0\0\0\0hi")
    assert await client.reader.readexactly(4) == b"\x81\x02hi"
    assert lines.raw() == []
    await client.send(b"\x88\x80\0\0\0\0")
    rest = await client.rest()
    assert await lines.first(1) == [f"GET /socket HTTP/1.1 101 {4 + len(rest)}"]


async def test_without_a_log_there_are_no_lines(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def ok(_: web.Request) -> web.Response:
        return web.Response()

    caplog.set_level("INFO")
    served = await serve(ok, server={"access_log": None})
    assert (await (await connect(served)).ask()).head.status == 200
    await served.runner.cleanup()
    assert not [record for record in caplog.records if '"GET' in record.getMessage()]


@pytest.mark.parametrize("own", ["class", "format"])
async def test_a_class_or_a_format_of_its_own_has_the_applications_lines(
    engine: penstock.Engine, serve: Serve, connect: Connect, log: logging.Logger, lines: Lines, own: str
) -> None:
    class Mine(web_log.AccessLogger):
        def log(self, request: Any, *_: Any) -> None:
            self.logger.info("mine %s", request.path)

    async def ok(_: web.Request) -> web.Response:
        return web.Response()

    told: dict[str, Any] = {"access_log_class": Mine} if own == "class" else {"access_log_format": "mine %s"}
    async with ScriptedOrigin(origin) as scripted:
        app = web.Application()
        app.router.add_get("/app", ok)
        app.add_routes([Gateway(scripted.url, engine=engine).native("/native/", name="films")])
        served = await serve(app, server={"access_log": log, **told})
        await (await connect(served)).ask("/app")
        await (await connect(served)).ask("/native/whole")
        await until(lambda: len(lines.raw()) == 2, "both lines are written")
    assert lines.raw()[0] == ("mine /app" if own == "class" else "mine 200")
    found = LINE.fullmatch(lines.raw()[1])
    assert found is not None
    assert found["request"] == "GET /native/whole HTTP/1.1"


async def test_a_file_has_the_lines_of_both_lanes_and_the_logger_none(
    engine: penstock.Engine, connect: Connect, log: logging.Logger, lines: Lines, tmp_path: Path
) -> None:
    async def ok(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async with ScriptedOrigin(origin) as scripted:
        app = web.Application()
        app.router.add_get("/app", ok)
        app.add_routes([Gateway(scripted.url, engine=engine).native("/native/", name="films")])
        runner = web.AppRunner(app, access_log=log)
        await runner.setup()
        site = Site(runner, "127.0.0.1", 0, engine=engine, access_log=tmp_path / "access.log")
        await site.start()
        served = Served(runner, site)
        client = await connect(served)
        await client.ask("/native/whole")
        await client.ask("/app")
        client.abort()
        await runner.cleanup()
        # `site` is still there: the last lines do not wait until it goes.
        written = (tmp_path / "access.log").read_text()
    found = [LINE.fullmatch(line) for line in written.splitlines()]
    assert [line and line["request"] for line in found] == ["GET /native/whole HTTP/1.1", "GET /app HTTP/1.1"]
    assert lines.raw() == []


async def test_sites_of_one_logger_share_one_order_and_all_lines_are_there_when_they_have_ended(
    serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    async def ok(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    served = [await serve(ok, server={"access_log": log}) for _ in range(2)]
    clients = [await connect(each) for each in served]
    for number in range(50):
        await clients[number % 2].ask(f"/{number}")
    for client, each in zip(clients, served, strict=True):
        client.abort()
        await each.runner.cleanup()
    assert len(lines.raw()) == 50, "nothing is waited for after the end"
    assert await lines.first(50) == [f"GET /{number} HTTP/1.1 200 2" for number in range(50)]


async def test_a_handler_that_hangs_keeps_no_response(
    serve: Serve, connect: Connect, log: logging.Logger, lines: Lines
) -> None:
    stuck, go_on = threading.Event(), threading.Event()

    class Stuck(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            stuck.set()
            go_on.wait(20)

    async def ok(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    handler = Stuck()
    log.addHandler(handler)
    try:
        client = await connect(await serve(ok, server={"access_log": log}))
        await client.ask("/0")
        await until(stuck.is_set, "the handler hangs")
        for number in range(1, 20):
            assert (await client.ask(f"/{number}")).head.status == 200
    finally:
        go_on.set()
        log.removeHandler(handler)
    assert len(await lines.first(20)) == 20
