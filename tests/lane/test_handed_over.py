"""Relays that the engine is given before anything is fetched, because nothing in Python looks at the response.

Each is asked for by a handler that is `Gateway.relay` itself, and by one that awaits it: what a client gets is the same.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

import penstock
from penstock.config import Cache, Caching, EventRelay, Forwarding, Inspection, Timeouts
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import Gateway
from support.client import RawClient, Reply, answer
from support.leaks import engine_under_test
from support.origins import FRESH, says, whole_stream
from support.waiting import in_time, until

from .conftest import Connect, Serve, Served

OK = answer("Content-Length: 2", body=b"ok")
ROUNDS = 8
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def awaiting(relay: Callable[..., Awaitable[web.StreamResponse]]) -> Handler:
    """A handler that could look at the response."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return await relay(request)

    return handler


def itself(relay: Handler) -> Handler:
    return relay


@pytest.fixture(params=[itself, awaiting], ids=["handed over", "awaited"])
def as_handler(request: pytest.FixtureRequest) -> Callable[[Handler], Handler]:
    """How a relay is made a handler."""
    return request.param


async def wakeups(engine: penstock.Engine, client: RawClient, *fields: str) -> list[int]:
    """Wake-ups of the loop for each request."""
    assert (await client.ask()).body == b"ok", "there are connections, and a handler"
    counts = [engine.stats().wakeups]
    for _ in range(ROUNDS):
        assert (await client.ask("/", *fields)).body == b"ok"
        counts.append(engine.stats().wakeups)
    return [after - before for before, after in pairwise(counts)]


def with_middleware(handler: Handler) -> web.Application:
    @web.middleware
    async def pass_on(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request)

    app = web.Application(middlewares=[pass_on])
    app.router.add_route("*", "/{path:.*}", handler)
    return app


async def test_the_loop_is_woken_once_by_request(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        served = await serve(Gateway(origin.url, engine=engine).relay)
        client = await connect(served)
        assert await wakeups(engine, client) == [1] * ROUNDS
        assert served.counts() == (0, 1, 0)


async def test_the_loop_is_woken_once_for_a_relay_with_arguments(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        gateway = Gateway(origin.url, engine=engine)
        headers = {"X-Key": "secret", "Cookie": None}
        relay = partial(gateway.relay, path="/other?q", headers=headers, tenant="blue")
        client = await connect(await serve(relay))
        assert await wakeups(engine, client, "Cookie: a=b") == [1] * ROUNDS
        asked = origin.requests[-1]
        assert (asked.target, asked.get("X-Key"), asked.get("Cookie")) == ("/other?q", "secret", None)


async def test_a_middleware_costs_one_more_wake_up(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        gateway = Gateway(origin.url, engine=engine)
        served = await serve(with_middleware(gateway.relay))
        # A head may come while the loop is on its way to sleep.
        assert min(await wakeups(engine, await connect(served))) == 2
        await until(lambda: served.counts() == (0, 1, 0), "what is not awaited is forgotten")


async def test_a_handler_that_awaits_costs_one_more_wake_up(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        served = await serve(awaiting(Gateway(origin.url, engine=engine).relay))
        # A head may come while the loop is on its way to sleep.
        assert min(await wakeups(engine, await connect(served))) == 2
        await until(lambda: served.counts() == (0, 1, 0), "what is not awaited is forgotten")


async def listener(app: web.Application, _: pytest.MonkeyPatch) -> None:
    async def look(_: web.Request, response: web.StreamResponse) -> None:
        assert response.status == 200

    app.on_response_prepare.append(look)


async def instrumented(_: web.Application, monkeypatch: pytest.MonkeyPatch) -> None:
    handle: Any = web.Application._handle

    async def traced(self: web.Application, request: web.Request) -> web.StreamResponse:
        response = await handle(self, request)
        assert response.status == 200
        return response

    monkeypatch.setattr(web.Application, "_handle", traced)


@pytest.mark.parametrize("looks", [listener, instrumented])
async def test_what_looks_at_the_response_has_it(
    engine: penstock.Engine,
    serve: Serve,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    looks: Callable[[web.Application, pytest.MonkeyPatch], Awaitable[None]],
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        app.router.add_get("/", Gateway(origin.url, engine=engine).relay)
        await looks(app, monkeypatch)
        client = await connect(await serve(app))
        assert min(await wakeups(engine, client)) > 1


async def test_a_gateway_of_the_applications_own_has_the_response(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    seen: list[int] = []

    class Own(Gateway):
        async def relay(self, request: web.Request, **how: Any) -> web.StreamResponse:
            response = await super().relay(request, **how)
            seen.append(response.status)
            return response

    async with ScriptedOrigin(respond(OK)) as origin:
        client = await connect(await serve(Own(origin.url, engine=engine).relay))
        await client.ask()
    assert seen == [200]


RESPONSES = {
    "length": ("GET", answer("Content-Length: 3", "Set-Cookie: a=1", "X-One: 1", body=b"one")),
    "chunks": ("GET", answer("Transfer-Encoding: chunked", body=b"3\r\none\r\n0\r\n\r\n")),
    "events": ("GET", whole_stream(b"data: one\n\n")),
    "HEAD": ("HEAD", answer("Content-Length: 3")),
    "304": ("GET", answer('ETag: "a"', status="304 Not Modified")),
    "204": ("DELETE", answer(status="204 No Content")),
    "range": (
        "GET",
        answer("Content-Range: bytes 0-2/9", "Content-Length: 3", status="206 Part", body=b"one"),
    ),
    "redirect": ("GET", answer("Location: {url}/there", "Content-Length: 0", status="302 Found")),
    "error": ("GET", answer("Content-Length: 3", status="503 Busy", body=b"one")),
}


def fields_of(fields: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """The fields that are the same in two runs."""
    return [(name, value) for name, value in fields if name.lower() not in {"host", "date", "location"}]


@pytest.mark.parametrize("case", RESPONSES)
async def test_a_client_sees_no_difference(
    engine: penstock.Engine, serve: Serve, connect: Connect, case: str
) -> None:
    method, response = RESPONSES[case]
    replies: list[Reply] = []
    asked = []
    said: list[bytes] = []

    async def script(peer: Peer) -> None:
        await respond(said[-1])(peer)

    for how in (itself, awaiting):
        async with ScriptedOrigin(script) as origin:
            said.append(response.replace(b"{url}", origin.url.encode()))
            gateway = Gateway(origin.url, engine=engine, forwarding=Forwarding(forwarded=True, via="p"))
            client = await connect(await serve(how(gateway.relay)))
            await client.ask("/here", "Range: bytes=0-2", "Cookie: a", "TE: x", method=method)
            replies.append(await client.ask("/here?q=%20", "Range: bytes=0-2", method=method))
            assert replies[-1].head.one("Location") in {None, "/there"}, "it is mapped"
            asked.append((origin.requests[-1].target, fields_of(origin.requests[-1].fields)))
    heads = [(reply.head.status, reply.head.reason, fields_of(reply.head.fields)) for reply in replies]
    assert heads[0] == heads[1]
    assert replies[0].body == replies[1].body
    assert asked[0] == asked[1]


async def test_hits_and_fills_are_the_same(
    request: pytest.FixtureRequest,
) -> None:
    async with engine_under_test(request, cache=Cache(memory="1MiB")) as cached:
        body = bytes(range(256)) * 16
        said = answer(FRESH, f"Content-Length: {len(body)}", 'ETag: "a"', body=body)
        async with ScriptedOrigin(respond(said)) as origin:
            gateway = Gateway(origin.url, engine=cached, caching=Caching())
            app = web.Application()
            app.router.add_get("/itself/{path:.*}", partial(gateway.relay, path="/film"))
            app.router.add_get("/awaited/{path:.*}", awaiting(partial(gateway.relay, path="/film")))
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = penstock.web.Site(runner, "127.0.0.1", 0, engine=cached)
            await site.start()
            client = await RawClient.connect(site.port)
            for target in ("/itself/", "/awaited/", "/itself/"):
                assert (await client.ask(target)).body == body
                part = await client.ask(target, "Range: bytes=1-3")
                assert (part.head.status, part.body) == (206, body[1:4])
                assert (await client.ask(target, 'If-None-Match: "a"')).head.status == 304
                head = await client.ask(target, method="HEAD")
                assert head.head.one("Content-Length") == str(len(body))
            assert len(origin.requests) == 1
            before = cached.stats().wakeups
            assert (await client.ask("/itself/")).body == body
            assert cached.stats().wakeups == before + 1
            client.abort()
            await runner.cleanup()


async def test_a_failure_before_the_head_is_answered_alike(
    engine: penstock.Engine,
    serve: Serve,
    connect: Connect,
    as_handler: Callable[[Handler], Handler],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="penstock.web")
    async with ScriptedOrigin(says(b"nonsense")) as origin:
        gateway = Gateway(origin.url, engine=engine)
        client = await connect(await serve(as_handler(gateway.relay)))
        for method in ("GET", "HEAD"):
            reply = await client.ask("/a?token=b", method=method)
            head = reply.head
            assert (head.status, head.reason) == (502, "Bad Gateway")
            assert head.one("Content-Type") == "application/problem+json"
            assert head.one("Cache-Control") == "no-store"
            assert head.one("Connection") is None, "another request may follow"
            if method == "GET":
                problem = json.loads(reply.body)
                assert (problem["status"], problem["name"], problem["code"]) == (502, "BAD_HEAD", "0x201")
    await until(
        lambda: [record for record in caplog.records if record.name == "penstock.web"], "it is logged"
    )
    records = [record for record in caplog.records if record.name == "penstock.web"]
    assert records[0].levelno == logging.WARNING
    assert not [record for record in caplog.records if record.name == "penstock.origins"], "it is said once"
    assert records[0].getMessage().startswith("GET /a?token=***: 0x201 BAD_HEAD: ")


@pytest.mark.parametrize(
    ("version", "field"), [("1.0", "Connection: keep-alive"), ("1.1", "Connection: close")]
)
async def test_a_failure_ends_the_connection_if_the_client_cannot_know_that_it_stays(
    engine: penstock.Engine, serve: Serve, connect: Connect, version: str, field: str
) -> None:
    async with ScriptedOrigin(says(b"nonsense")) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        reply = await client.ask("/", field, version=version)
        assert (reply.head.status, reply.head.one("Connection")) == (502, "close")
        assert await client.rest() == b""


async def test_a_target_that_cannot_be_sent_on_is_refused(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        gateway = Gateway(origin.url, engine=engine, prefix="/live")
        client = await connect(await serve(as_handler(gateway.relay)))
        for target in ("/live/../secret", "/other"):
            reply = await client.ask(target)
            assert (reply.head.status, json.loads(reply.body)["name"]) == (400, "BAD_REQUEST")
        assert (await client.ask("/live/film")).body == b"ok"
        assert [request.target for request in origin.requests] == ["/film"]


async def test_a_failure_after_the_head_cuts_the_client_off(
    engine: penstock.Engine,
    serve: Serve,
    connect: Connect,
    as_handler: Callable[[Handler], Handler],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # So much that the head has left when it is known.
    async with ScriptedOrigin(says(answer("Content-Length: 4000000", body=bytes(2_000_000)))) as origin:
        client = await connect(await serve(as_handler(Gateway(origin.url, engine=engine).relay)))
        await client.get()
        with pytest.raises((ConnectionResetError, EOFError)):
            await client.body(await client.head())
    told = "GET /: 0x10D BODY_TRUNCATED"
    await until(lambda: any(told in record.getMessage() for record in caplog.records), "it is logged")


@asynccontextmanager
async def stalled(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> AsyncIterator[tuple[Served, RawClient, Peer]]:
    """A server, a client that has asked it, and the connection of its origin, which does not answer."""
    async with ScriptedOrigin(Peer.stall) as origin:
        served = await serve(as_handler(Gateway(origin.url, engine=engine).relay))
        client = await connect(served)
        await client.get()
        yield served, client, await origin.connection()


async def test_a_client_that_leaves_before_the_head_ends_the_fetch(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    async with stalled(engine, serve, connect, as_handler) as (served, client, peer):
        await peer.request()
        client.abort()
        await peer.wait_left()
        await until(lambda: served.connections() == 0, "the connection is over")
        assert served.counts()[2] == 0


async def test_the_access_log_has_the_end(
    engine: penstock.Engine, as_handler: Callable[[Handler], Handler], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(OK if request.target == "/" else b"nonsense")

    async with ScriptedOrigin(script) as origin:
        app = web.Application()
        relay = partial(Gateway(origin.url, engine=engine).relay, tenant="blue")
        app.router.add_get("/{path:.*}", as_handler(relay))
        runner = web.AppRunner(app, access_log=logging.getLogger("tests.access"))
        await runner.setup()
        site = penstock.web.Site(runner, "127.0.0.1", 0, engine=engine)
        await site.start()
        client = await RawClient.connect(site.port)
        assert (await client.ask()).body == b"ok"
        assert (await client.ask("/wrong")).head.status == 502
        client.abort()
        await runner.cleanup()
    lines = [record.getMessage() for record in caplog.records if record.name == "tests.access"]
    rest = [line.partition('" ')[2].split() for line in lines]
    # Status, bytes, duration, route, tenant, failure.
    assert [(one[0], 'tenant="blue"' in one) for one in rest] == [("200", True), ("502", True)], lines
    assert "0x201" in lines[1], lines


async def test_a_stop_does_not_wait_for_an_origin_for_ever(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    async with stalled(engine, serve, connect, as_handler) as (served, _, peer):
        await in_time(served.runner.cleanup(), "the server has stopped")
        await peer.wait_left()


async def test_a_stop_waits_for_a_response(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await go_on.wait()
        await peer.send(OK)

    async with ScriptedOrigin(script) as origin:
        relay = as_handler(Gateway(origin.url, engine=engine).relay)
        served = await serve(relay, server={"shutdown_timeout": 30})
        client = await connect(served)
        await client.get()
        await origin.connection()
        stop = asyncio.create_task(served.runner.cleanup())
        await until(lambda: not served.site._server.sockets, "it stops")
        go_on.set()
        assert await client.body(await client.head()) == b"ok"
        await in_time(stop, "the server has stopped")


async def test_pipelined_requests_are_answered_in_order(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(answer("Content-Length: 2", body=request.target[-2:].encode()))

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serve(as_handler(Gateway(origin.url, engine=engine).relay)))
        await client.send(b"".join(b"GET /%02d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(5)))
        for number in range(5):
            assert await client.body(await client.head()) == b"%02d" % number


async def test_a_body_goes_through_python(engine: penstock.Engine, serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            body = await peer.read_body()
            await peer.send(answer(f"Content-Length: {len(body)}", body=body))

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        await client.send(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\noneGET /b HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        assert await client.body(await client.head()) == b"one"
        assert await client.body(await client.head()) == b""
        await client.get("/", "Content-Length: 0", method="POST")
        assert await client.body(await client.head()) == b""
        assert origin.requests[-1].get("Content-Length") == "0"
        await client.get("/", "Expect: 100-continue")
        while (head := await client.head()).status == 100:
            pass
        assert (head.status, await client.body(head)) == (200, b"")


async def test_an_upgrade_is_relayed(engine: penstock.Engine, serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        fields = ("Connection: Upgrade", "Upgrade: websocket", accept)
        await peer.send(answer(*fields, status="101 Switching Protocols"))
        await peer.send(await peer.read(3))

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        await client.get("/", *UPGRADE)
        assert (await client.head()).status == 101
        await client.send(b"one")
        assert await client.rest() == b"one"


async def test_events_are_treated_and_inspected_as_on_a_native_route(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    stream = b'data: {"usage": {"total_tokens": 7}}\n\n'
    async with ScriptedOrigin(respond(whole_stream(stream))) as origin:
        gateway = Gateway(origin.url, engine=engine, events=EventRelay(heartbeat=30), inspect=Inspection())
        app = web.Application()
        app.router.add_get("/chat", gateway.relay)
        client = await connect(await serve(app))
        assert (await client.ask("/chat")).body == stream
        assert origin.requests[-1].get("Accept-Encoding") == "identity"
        await until(lambda: gateway.stats()["/chat"].streams == 1, "it is counted")


async def test_limits_on_time_are_the_relays(
    engine: penstock.Engine, serve: Serve, connect: Connect, as_handler: Callable[[Handler], Handler]
) -> None:
    async with ScriptedOrigin(Peer.stall) as origin:
        relay = partial(Gateway(origin.url, engine=engine).relay, timeouts=Timeouts(first_byte=0.05))
        client = await connect(await serve(as_handler(relay)))
        reply = await client.ask()
        assert (reply.head.status, json.loads(reply.body)["retryable"]) == (504, True)
