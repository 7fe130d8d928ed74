"""WebSockets that a handler relays, on every server: the handshake is the origin's to accept, and then bytes pass both
ways until a side has ended."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from penstock.config import Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import Head, RawClient, answer
from support.waiting import until
from support.websocket import ACCEPTING, echoes, moves_both_ways

from .conftest import Connect
from .server import Served, Serving

OFFER = (
    *("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: chat"),
)
ACCEPT = answer(
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: chat"),
    ACCEPTING,
    status="101 Switching Protocols",
)

echo = echoes(ACCEPT)


async def offered(connect: Connect, served: Served) -> tuple[RawClient, Head]:
    client = await connect(served)
    await client.get("/socket", *OFFER)
    return client, await client.head()


async def test_bytes_pass_both_ways(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(echo) as origin:
        served = await serving.gateway(origin.url)
        client, head = await offered(connect, served)
        assert (head.status, head.reason) == (101, "Switching Protocols")
        assert (head.one("Upgrade"), head.one("Connection")) == ("websocket", "Upgrade")
        assert head.one("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert head.one("Sec-WebSocket-Protocol") == "chat"
        for name in ("Content-Length", "Transfer-Encoding", "Content-Type"):
            assert head.one(name) is None
        (request,) = origin.requests
        assert ((request.get("Upgrade") or "").lower(), request.get("Connection")) == ("websocket", "Upgrade")
        assert request.get("X-Forwarded-For") == "127.0.0.1"
        for word in (b"hello", b"again", b"x" * 5000):
            await client.send(word)
            assert await client.reader.readexactly(len(word)) == word.upper()
        client.abort()
        await (await origin.connection()).wait_left()
        end = await served.ends.get()
        assert end.error is not None
        assert (end.status, end.error.name, end.bytes) == (101, "CLIENT_GONE", 5010)


async def test_much_passes_at_the_same_time(serving: Serving, connect: Connect) -> None:
    size = 3_000_000

    async with ScriptedOrigin(moves_both_ways(ACCEPT, size)) as origin:
        served = await serving.gateway(origin.url)
        client, _ = await offered(connect, served)
        sending = asyncio.ensure_future(client.send(b"u" * size))
        assert await client.reader.readexactly(size + 1) == b"d" * size + b"!"
        await sending
        assert origin.connections[0].body_received == size
        assert await client.rest() == b""
        end = await served.ends.get()
        assert (end.status, end.bytes, end.error) == (101, size + 1, None)


async def test_a_client_that_sends_is_slowed_down_by_an_origin_that_does_not_read(
    serving: Serving, connect: Connect
) -> None:
    async def reads_nothing(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        await peer.stall()

    async with ScriptedOrigin(reads_nothing) as origin:
        client, _ = await offered(connect, await serving.gateway(origin.url))
        client.writer.write(bytes(64_000_000))
        before, looks = 0, 0

        def is_stuck() -> bool:
            nonlocal before, looks
            left = client.writer.transport.get_write_buffer_size()
            looks = looks + 1 if left == before else 0
            before = left
            return looks >= 50

        await until(is_stuck, "nothing more is taken of the client")
        assert before > 40_000_000
        assert serving.engine.stats().pool.live_bytes < 8_000_000


async def test_bytes_after_the_offer_and_after_the_101_pass(serving: Serving, connect: Connect) -> None:
    async def eager(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT + b"first")
        await peer.send((await peer.read(5)).upper())

    async with ScriptedOrigin(eager) as origin:
        client = await connect(await serving.gateway(origin.url))
        lines = ("GET /socket HTTP/1.1", "Host: gateway.test", *OFFER, "", "early")
        await client.send("\r\n".join(lines).encode())
        assert (await client.head()).status == 101
        assert await client.rest() == b"firstEARLY"


async def test_a_refusal_ends_the_connection(serving: Serving, connect: Connect) -> None:
    """Bytes of the other protocol may have been sent already: none of them is taken for a request."""

    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 2", status="403 Forbidden", body=b"no"))

    async with ScriptedOrigin(refuse) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get("/socket", *OFFER)
        head = await client.head()
        assert (head.status, head.one("Connection"), await client.body(head)) == (403, "close", b"no")
        assert await client.rest() == b""
        assert [request.target for request in origin.requests] == ["/socket"]


async def test_a_false_answer_is_a_failure(serving: Serving, connect: Connect) -> None:
    async def lies(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT.replace(b"s3p", b"s3q") + b"hidden")

    async with ScriptedOrigin(lies) as origin:
        client, head = await offered(connect, await serving.gateway(origin.url))
        assert (head.status, json.loads(await client.body(head))["name"]) == (502, "UNEXPECTED_UPGRADE")


async def test_the_origin_resets_the_tunnel(serving: Serving, connect: Connect) -> None:
    async def rude(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        await peer.read(1)
        peer.reset()

    async with ScriptedOrigin(rude) as origin:
        client, _ = await offered(connect, await serving.gateway(origin.url))
        await client.send(b"x")
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_silent_tunnel_ends_with_its_limit(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(echo) as origin:
        client, _ = await offered(connect, await serving.gateway(origin.url, timeouts=Timeouts(tunnel=0.1)))
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_an_incomplete_offer_is_a_request_without_one(serving: Serving, connect: Connect) -> None:
    async def plain(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 2", body=b"ok"))

    async with ScriptedOrigin(plain) as origin:
        client = await connect(await serving.gateway(origin.url))
        assert (await client.ask("/", *OFFER[:3])).body == b"ok"
        (request,) = origin.requests
        assert (request.get("Upgrade"), request.get("Connection")) == (None, None)


async def test_aiohttps_client_and_server_talk_through_a_gateway(serving: Serving) -> None:
    async def upstream(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data[::-1])
        return socket

    origin = web.Application()
    origin.router.add_get("/{path:.*}", upstream)
    runner = web.AppRunner(origin, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        served = await serving.gateway(f"http://127.0.0.1:{runner.addresses[0][1]}")
        url = f"http://127.0.0.1:{served.port}/socket"
        async with aiohttp.ClientSession() as session, session.ws_connect(url, protocols=("chat",)) as socket:
            for text in ("hello", "x" * 200_000):
                await socket.send_str(text)
                assert await socket.receive_str() == text[::-1]
            assert await socket.close()
            assert (socket.protocol, socket.close_code) == ("chat", aiohttp.WSCloseCode.OK)
    finally:
        await runner.cleanup()
