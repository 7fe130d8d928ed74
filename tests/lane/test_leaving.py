"""Clients that leave, applications that stall, servers that stop."""

import asyncio
import contextlib
import os
import re
import select
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from aiohttp import web

import penstock
from penstock.config import Edge
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, RelayEnd
from support.client import RawClient, answer
from support.origins import says
from support.waiting import in_time, until, until_blocking

from .conftest import Connect, Serve


async def ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


@pytest.mark.parametrize("how", [RawClient.abort, RawClient.reset], ids=["closing", "resetting"])
async def test_handlers_hear_of_it_as_on_aiohttps_own(serve: Serve, connect: Connect, how) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            assert request.transport is None
            ended.set()
        return web.Response()

    served = await serve(wait, server={"handler_cancellation": True})
    client = await connect(served)
    await client.get()
    await in_time(begun.wait(), "the handler has begun")
    how(client)
    await in_time(ended.wait(), "the handler has ended")
    await until(lambda: not served.runner.server.connections, "the handler is gone")
    assert served.counts() == (0, 0, 0), "it is not used again"


async def test_without_cancellation_a_handler_goes_on(serve: Serve, connect: Connect) -> None:
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        begun.set()
        await go_on.wait()
        ended.set()
        return web.Response(text="for no client")

    served = await serve(wait)
    client = await connect(served)
    await client.get()
    await in_time(begun.wait(), "the handler has begun")
    client.abort()
    await until(lambda: not served.connections(), "the engine has seen it")
    go_on.set()
    await in_time(ended.wait(), "the handler has ended")


@pytest.mark.parametrize("closes", [False, True], ids=["kept alive", "closing"])
async def test_the_rest_of_a_body_is_not_waited_for_if_its_client_left(
    serve: Serve, connect: Connect, closes: bool
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=413, headers={"Connection": "close"} if closes else {})

    served = await serve(refuse, server={"lingering_time": 1000})
    ours = asyncio.all_tasks()
    client = await connect(served)
    await client.get("/", "Content-Length: 2", method="POST")
    await client.send(b"a")
    assert (await client.head()).status == 413
    client.abort()
    await until(lambda: asyncio.all_tasks() <= ours, "no task waits for the body")


async def test_a_request_whose_client_left_is_not_handled(serve: Serve, connect: Connect) -> None:
    handled: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        handled.append(request.path)
        return web.Response()

    served = await serve(handler)
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"GET /left HTTP/1.1\r\nHost: a\r\n\r\n")
        # Nothing of Python's runs meanwhile: the engine takes the request, and then takes it back.
        until_blocking(lambda: served.counts()[0] == 1, "the request waits for the application")
    until_blocking(lambda: served.counts()[0] == 0, "it is taken back")
    await (await connect(served)).ask("/stayed")
    assert handled == ["/stayed"]


def answered(sockets: list[int]) -> list[int]:
    """The sockets that there is something to read from."""
    return select.select(sockets, [], [], 0)[0]


async def test_a_stalled_application_is_waited_for_by_so_many(serve: Serve, connect: Connect) -> None:
    served = await serve(ok, edge=Edge(app_waiting=2))
    clients = [await connect(served) for _ in range(4)]
    for client in clients:
        await client.ask()
    sockets = [client.writer.get_extra_info("socket").fileno() for client in clients]
    for connection in sockets:
        os.write(connection, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    until_blocking(lambda: len(answered(sockets)) == 2, "two are refused")
    statuses = []
    for client in clients:
        head = await client.head()
        statuses.append(head.status)
        if head.status == 503:
            assert head.one("Retry-After") == "1"
            assert b"APP_BUSY" in await client.body(head)
        else:
            assert await client.body(head) == b"ok"
    assert sorted(statuses) == [200, 200, 503, 503]


async def test_a_stalled_application_is_waited_for_so_long(serve: Serve, connect: Connect) -> None:
    handled = 0

    async def ok(_: web.Request) -> web.Response:
        nonlocal handled
        handled += 1
        return web.Response(text="ok")

    served = await serve(ok, edge=Edge(app_wait=0.1))
    client = await connect(served)
    connection = client.writer.get_extra_info("socket").fileno()
    os.write(connection, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    until_blocking(lambda: answered([connection]), "the request is refused")
    assert (await client.head()).status == 503
    assert not handled


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionError:
        return True
    return False


async def test_cleanup_lets_requests_finish(serve: Serve, connect: Connect) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        begun.set()
        await go_on.wait()
        return web.Response(text="finished")

    served = await serve(wait, server={"shutdown_timeout": 5})
    idle, busy = await connect(served), await connect(served)
    await busy.get()
    await in_time(begun.wait(), "the handler has begun")
    cleanup = asyncio.create_task(served.runner.cleanup())
    assert await idle.rest() == b"", "one that is idle is closed at once"
    await until(lambda: refuses(served.port), "the port refuses")
    assert not cleanup.done()
    go_on.set()
    assert await busy.body(await busy.head()) == b"finished"
    assert await busy.rest() == b""
    await cleanup
    assert served.counts() == (0, 0, 0)


async def test_a_request_is_not_given_to_a_protocol_that_closes(serve: Serve, connect: Connect) -> None:
    served = await serve(ok)
    client = await connect(served)
    await client.ask()
    (protocol,) = served.runner.server.connections
    os.write(client.writer.get_extra_info("socket").fileno(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    # In one turn of the loop: it closes, as by aiohttp's timer, and the request is taken.
    protocol._next_keepalive_close_time = 0
    asyncio.get_running_loop().call_soon(protocol._process_keepalive)
    until_blocking(lambda: served.counts()[0] == 1, "the request waits for the application")
    assert await client.body(await client.head()) == b"ok"


async def test_a_protocol_that_was_idle_for_too_long_gets_no_request(serve: Serve, connect: Connect) -> None:
    served = await serve(ok)
    await (await connect(served)).ask()
    (protocol,) = served.runner.server.connections
    # As the timer of aiohttp's, after `keepalive_timeout`.
    protocol._next_keepalive_close_time = 0
    protocol._process_keepalive()
    await until(lambda: served.counts() == (0, 0, 0), "it has left")
    assert (await (await connect(served)).ask()).body == b"ok"


async def test_what_comes_after_aiohttp_closes_idle_protocols_is_answered(
    serve: Serve, connect: Connect
) -> None:
    served = await serve(ok)
    client = await connect(served)
    await client.ask()
    served.runner.server.pre_shutdown()
    for _ in range(2):
        assert (await client.ask()).body == b"ok"
    assert served.counts() == (0, 0, 0), "no protocol waits for a second request: shutdown would wait for it"


async def test_a_request_that_is_under_way_then_does_not_cost_its_connection(
    serve: Serve, connect: Connect
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        begun.set()
        await go_on.wait()
        return web.Response(body=await request.read())

    served = await serve(wait)
    client = await connect(served)
    await client.get("/", "Content-Length: 4", method="POST")
    await client.send(b"ha")
    await in_time(begun.wait(), "the handler has begun")
    served.runner.server.pre_shutdown()
    go_on.set()
    await client.send(b"lf")
    assert await client.body(await client.head()) == b"half"
    await client.get("/", "Content-Length: 4", method="POST")
    await client.send(b"more")
    assert await client.body(await client.head()) == b"more"


async def test_shutdown_does_not_wait_for_a_protocol_that_has_answered_since(
    serve: Serve, connect: Connect
) -> None:
    served = await serve(ok)
    client = await connect(served)
    server = served.runner.server
    server.pre_shutdown()
    await client.ask()
    await in_time(server.shutdown(3600), "the server is shut down")


async def test_cleanup_cuts_off_what_does_not_finish(serve: Serve, connect: Connect) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.sleep(60)
        return response

    served = await serve(endless, server={"shutdown_timeout": 0.1})
    client = await connect(served)
    await client.get()
    await client.head()
    assert await client.chunk() == b"half"
    await served.runner.cleanup()
    with contextlib.suppress(ConnectionResetError):
        assert await client.rest() == b"", "there is no last chunk"


def in_halves(go_on: asyncio.Event) -> Callable[[Peer], Awaitable[None]]:
    """The second half comes when it may."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 8", body=b"half"))
        await go_on.wait()
        await peer.send(b"half")
        await peer.stall()

    return script


async def test_cleanup_waits_for_what_was_handed_over(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    go_on = asyncio.Event()

    async with ScriptedOrigin(in_halves(go_on)) as origin:
        served = await serve(Gateway(origin.url, engine=engine).relay, server={"shutdown_timeout": 5})
        client = await connect(served)
        await client.get()
        head = await client.head()
        assert await client.reader.readexactly(4) == b"half"
        await until(lambda: served.counts() == (0, 1, 0), "the handler is done")
        cleanup = asyncio.create_task(served.runner.cleanup())
        await until(lambda: not served.runner.sites, "the site is stopped")
        go_on.set()
        assert (head.status, await client.rest()) == (200, b"half")
        await cleanup


async def test_a_site_that_stops_is_told_of_the_last_response_and_does_not_look(
    engine: penstock.Engine, serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    slept: list[float] = []
    really_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        await really_sleep(seconds)

    async with ScriptedOrigin(in_halves(go_on)) as origin:
        served = await serve(Gateway(origin.url, engine=engine).relay, server={"shutdown_timeout": 15})
        client = await connect(served)
        await client.get()
        head = await client.head()
        await until(lambda: served.counts() == (0, 1, 0), "the handler is done")
        with monkeypatch.context() as patch:
            # What polls has no other way to wait between two looks.
            patch.setattr(asyncio, "sleep", sleep)
            cleanup = asyncio.create_task(served.runner.cleanup())
            assert await client.reader.readexactly(4) == b"half"
            go_on.set()
            assert (head.status, await client.rest()) == (200, b"half")
            await cleanup
        assert slept == []


async def test_events_end_whole_when_the_server_stops(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    events = (
        answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked") + b"d\r\ndata: whole\n\n\r\n"
    )
    async with ScriptedOrigin(says(events + b"9\r\ndata: hal\r\n", then="stall")) as origin:
        ends: list[RelayEnd] = []
        gateway = Gateway(origin.url, engine=engine)
        served = await serve(partial(gateway.relay, on_complete=ends.append))
        client = await connect(served)
        await client.get()
        await client.head()
        assert await client.chunk() == b"data: whole\n\n"
        await served.runner.cleanup()
        retry = await client.chunk()
        assert re.fullmatch(rb"retry: \d+\n\n", retry), "when to come back"
        assert await client.chunk() == b"", "it ends well, behind a whole event"
        assert [(end.status, end.bytes, end.error) for end in ends] == [(200, 13 + len(retry), None)]
