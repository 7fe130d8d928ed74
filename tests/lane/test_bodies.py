"""Bodies of requests: whole, under back-pressure, refused, left unread."""

import asyncio

import pytest
from aiohttp import web

import penstock
from penstock.config import Edge
from support.client import RawClient
from support.waiting import in_time, until

from .conftest import Connect, Serve

MEGABYTE = 1024 * 1024


async def chunks(client: RawClient, count: int, size: int) -> None:
    for number in range(count):
        await client.send(b"%x\r\n%b\r\n" % (size, bytes([number % 251]) * size))
    await client.send(b"0\r\n\r\n")


async def test_bodies_arrive_whole(serve: Serve, connect: Connect) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    client = await connect(await serve(echo))
    for size in (0, 1, 5000, 3 * MEGABYTE):
        await client.get("/", f"Content-Length: {size}", method="POST")
        await client.send(b"x" * size)
        assert await client.body(await client.head()) == b"x" * size
    await client.get("/", "Transfer-Encoding: chunked", method="POST")
    await chunks(client, 300, 4000)
    whole = b"".join(bytes([number % 251]) * 4000 for number in range(300))
    assert await client.body(await client.head()) == whole


@pytest.mark.parametrize("framing", ["Content-Length: 1000000000", "Transfer-Encoding: chunked"])
async def test_an_application_that_does_not_read_stops_the_client(
    engine: penstock.Engine, serve: Serve, connect: Connect, framing: str
) -> None:
    go_on = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        if request.path == "/beside":
            return web.Response(text="ok")
        await go_on.wait()
        piece = await request.content.readany()
        return web.Response(text=str(len(piece) > 0), headers={"Connection": "close"})

    served = await serve(slow, server={"lingering_time": 0})
    client, beside = await connect(served), await connect(served)
    await client.get("/", framing, method="POST")
    sent = 0

    async def send() -> None:
        nonlocal sent
        await client.send(b"3b9aca00\r\n" if "chunked" in framing else b"")
        while True:
            await client.send(bytes(64 * 1024))
            sent += 64 * 1024

    sender = asyncio.create_task(send())
    previous = -1
    while sent != previous:
        previous = sent
        # It has stopped when nothing goes while so many requests pass beside it.
        for _ in range(100):
            assert (await beside.ask("/beside")).body == b"ok"
    assert sent < 12 * MEGABYTE, "sockets, a window and aiohttp's buffer hold this much"
    assert engine.stats().pool.live_bytes < 2 * MEGABYTE
    go_on.set()
    assert await client.body(await client.head()) == b"True"
    sender.cancel()
    with pytest.raises((asyncio.CancelledError, ConnectionError)):
        await sender


async def test_expect_is_the_applications_to_answer(serve: Serve, connect: Connect) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    client = await connect(await serve(echo))
    for _ in range(2):
        await client.get("/", "Content-Length: 5", "Expect: 100-continue", method="POST")
        assert (await client.head()).status == 100
        await client.send(b"hello")
        assert await client.body(await client.head()) == b"hello"


async def test_a_refused_expectation_ends_the_connection(serve: Serve, connect: Connect) -> None:
    """The client may send its body or not: what comes next could be either."""

    async def refuse(_: web.Request) -> web.Response:
        raise web.HTTPForbidden

    async def no_body_please(request: web.Request) -> web.Response | None:
        return web.Response(status=403)

    app = web.Application()
    app.router.add_post("/", refuse, expect_handler=no_body_please)
    served = await serve(app, server={"lingering_time": 0.1})
    client = await connect(served)
    await client.get("/", "Content-Length: 5", "Expect: 100-continue", method="POST")
    assert (await client.head()).status == 403
    assert await client.rest() == b""


async def test_a_body_that_was_not_read_is_not_taken_for_a_request(serve: Serve, connect: Connect) -> None:
    async def ignore(_: web.Request) -> web.Response:
        return web.Response(text="ignored")

    served = await serve(ignore)
    client = await connect(served)
    hidden = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    await client.get("/", f"Content-Length: {len(hidden)}", method="POST")
    await client.send(hidden)
    assert await client.body(await client.head()) == b"ignored"
    assert (await client.ask("/next")).body == b"ignored"
    assert served.runner.server.requests_count == 2


async def test_a_body_that_breaks_off_is_not_whole(serve: Serve, connect: Connect) -> None:
    outcome: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    begun = asyncio.Event()

    async def read(request: web.Request) -> web.Response:
        begun.set()
        try:
            return web.Response(body=await request.read())
        except BaseException as error:
            outcome.set_result(error)
            raise

    client = await connect(await serve(read))
    await client.get("/", "Content-Length: 10", method="POST")
    await client.send(b"half")
    await in_time(begun.wait(), "the handler has begun")
    client.abort()
    assert isinstance(await outcome, ConnectionResetError)


async def test_a_body_above_the_limit_of_the_edge(serve: Serve, connect: Connect) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    served = await serve(echo, edge=Edge(max_body=1000))
    client = await connect(served)
    await client.get("/", "Content-Length: 1001", method="POST")
    assert (await client.head()).status == 413
    client = await connect(served)
    await client.get("/", "Transfer-Encoding: chunked", method="POST")
    await client.send(b"3e9\r\n" + bytes(1001) + b"\r\n")
    assert (await client.head()).status == 413


async def test_an_answer_before_the_body_lets_the_rest_be_read(serve: Serve, connect: Connect) -> None:
    async def early(_: web.Request) -> web.Response:
        return web.Response(text="early")

    served = await serve(early)
    client = await connect(served)
    await client.get("/", "Content-Length: 10", method="POST")
    assert await client.body(await client.head()) == b"early"
    assert served.counts()[1] == 0, "aiohttp reads what is left of the body"
    await client.send(b"0123456789")
    await until(lambda: served.counts()[1] == 1, "the handler is free")
    assert (await client.ask()).body == b"early"
