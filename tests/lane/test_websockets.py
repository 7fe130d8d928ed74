"""WebSockets of an application: bytes both ways behind the 101, and none before it."""

import asyncio

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from support.waiting import until

from .conftest import Connect, Serve

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
# "hi" as a client sends it, masked with zeros; and as a server does.
FROM_CLIENT = b"\x81\x82\0\0\0\0hi"
FROM_SERVER = b"\x81\x02hi"


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data)
        else:
            await socket.send_bytes(message.data)
    return socket


async def test_messages_both_ways(serve: Serve) -> None:
    served = await serve(echo)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{served.port}/") as socket,
    ):
        for size in (1, 70_000, 2_000_000):
            await socket.send_bytes(bytes(size))
            assert await socket.receive_bytes() == bytes(size)
        await socket.send_str("text")
        assert await socket.receive_str() == "text"
        await socket.close()
        assert socket.close_code == WSCloseCode.OK
    await until(lambda: not served.runner.server.connections, "the handler is gone and not used again")
    assert served.counts() == (0, 0, 0)


async def test_bytes_after_the_offer_wait_for_the_101(serve: Serve, connect: Connect) -> None:
    go_on = asyncio.Event()

    async def late(request: web.Request) -> web.WebSocketResponse:
        await go_on.wait()
        return await echo(request)

    client = await connect(await serve(late))
    await client.get("/", *UPGRADE)
    await client.send(FROM_CLIENT)
    go_on.set()
    assert (await client.head()).status == 101
    assert await client.reader.readexactly(len(FROM_SERVER)) == FROM_SERVER
    await client.send(FROM_CLIENT)
    assert await client.reader.readexactly(len(FROM_SERVER)) == FROM_SERVER


async def test_bytes_after_a_refused_offer_are_a_request(serve: Serve, connect: Connect) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    client = await connect(await serve(refuse))
    await client.get("/first", *UPGRADE)
    await client.get("/second")
    assert await client.body(await client.head()) == b"/first"
    assert await client.body(await client.head()) == b"/second"


async def test_a_client_that_leaves_ends_the_handler(serve: Serve, connect: Connect) -> None:
    closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        closed.set_result(socket.close_code)
        return socket

    client = await connect(await serve(handler))
    await client.get("/", *UPGRADE)
    assert (await client.head()).status == 101
    client.abort()
    assert await closed == WSCloseCode.ABNORMAL_CLOSURE


async def test_an_application_that_closes_is_heard(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(timeout=0.05)
        await socket.prepare(request)
        await socket.close(code=WSCloseCode.GOING_AWAY)
        return socket

    client = await connect(await serve(handler))
    await client.get("/", *UPGRADE)
    assert (await client.head()).status == 101
    assert await client.rest() == b"\x88\x02\x03\xe9", "the close frame, and then the end"
