"""What ends a stream early: the origin, the client, the handler, and the end of the server."""

import asyncio

import pytest
from aiohttp import web

from penstock.config import Http2
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import EVENTS, chunk
from support.waiting import in_time

from .conftest import BODY, Serve

INTERNAL_ERROR, CANCEL, NO_ERROR = 2, 8, 0


@pytest.mark.parametrize("fields", ["Content-Length: 100", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("way", ["/native/a", "/relay/a", "/cached/a"])
async def test_a_truncated_body_does_not_look_whole(serve: Serve, fields: str, way: str) -> None:
    begun = asyncio.Event()

    async def say(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(fields, body=b"a\r\n0123456789\r\n" if "chunked" in fields else b"0123456789"))
        await begun.wait()

    async with ScriptedOrigin(say) as origin:
        client = await (await serve(origin.url)).connect()
        stream = await client.request(way)
        await client.until(lambda: bool(client.answers[stream].body), "the response has begun")
        begun.set()
        got = await client.answer(stream)
        assert (got.ended, got.reset) == (False, INTERNAL_ERROR)
        assert (await client.ask("/describe")).status == 200


async def test_a_handler_that_fails_is_told_of_or_resets_its_stream(serve: Serve) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"some")
        raise RuntimeError("on purpose")

    client = await (await serve(routes=[web.get("/broken", broken)])).connect()
    assert (await client.ask("/fail")).status == 500
    got = await client.answer(await client.request("/broken"))
    assert (got.ended, got.reset) == (False, INTERNAL_ERROR)
    assert (await client.ask("/describe")).status == 200


async def test_a_client_that_cancels_a_stream_keeps_the_others(serve: Serve) -> None:
    async def say(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(EVENTS + chunk(b"data: 1\n\n"))
        if request.target.endswith("/cancelled"):
            await in_time(peer.wait_left(), "the origin's connection is given up")
            return
        await peer.send(chunk(b"data: 2\n\n") + b"0\r\n\r\n")
        await peer.stall()

    async with ScriptedOrigin(say) as origin:
        client = await (await serve(origin.url)).connect()
        stream = await client.request("/native/cancelled")
        got = client.answers[stream]
        await client.until(lambda: bool(got.body), "the first event")
        client.h2.reset_stream(stream, CANCEL)
        await client.flush()
        assert (await client.ask("/native/other")).body == b"data: 1\n\ndata: 2\n\n"
        await in_time((await origin.connection()).wait_left(), "the origin's connection is given up")


async def test_an_upload_that_is_answered_early_is_told_to_stop(serve: Serve) -> None:
    async def early(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 6", body=b"enough"))
        await peer.stall()

    async with ScriptedOrigin(early) as origin:
        client = await (await serve(origin.url)).connect()
        stream = await client.request("/native/a", ("content-length", "200000"), method="POST", ends=False)
        await client.send(stream, BODY[:150_000], ends=False)
        got = client.answers[stream]
        await client.until(lambda: got.ended, "the answer")
        assert bytes(got.body) == b"enough"
        await client.until(lambda: got.reset is not None, "the stream is over")
        assert got.reset == NO_ERROR


async def test_a_drain_ends_the_connection_after_its_streams(serve: Serve) -> None:
    gate = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response(text="whole")

    served = await serve(routes=[web.get("/slow", slow)])
    client = await served.connect()
    stream = await client.request("/slow")
    await client.ping()
    stopping = asyncio.create_task(served.site.stop())
    await client.until(lambda: client.goodbye is not None, "GOAWAY")
    assert client.goodbye == NO_ERROR
    gate.set()
    assert (await client.answer(stream)).body == b"whole"
    await client.end()
    assert client.last == stream
    await stopping


@pytest.mark.parametrize("limits", [Http2(requests=3), Http2(age=0.3)], ids=["requests", "age"])
async def test_a_connection_is_left_after_its_requests_or_its_time(serve: Serve, limits: Http2) -> None:
    served = await serve(http2=limits)
    client = await served.connect()
    for _ in range(3 if limits.requests == 3 else 1):
        assert (await client.ask("/describe")).status == 200
    await client.until(lambda: client.goodbye is not None, "GOAWAY")
    assert client.goodbye == NO_ERROR
    other = await served.connect()
    assert (await other.ask("/describe")).status == 200


async def test_an_idle_connection_is_closed_and_a_ping_does_not_keep_it(serve: Serve) -> None:
    served = await serve(idle_timeout=0.3)
    client = await served.connect()
    assert (await client.ask("/describe")).status == 200

    async def pings() -> None:
        while not client.closed and client.goodbye is None:
            client.h2.ping(b"12345678")
            await client.flush()
            await asyncio.sleep(0.05)

    pinging = asyncio.create_task(pings())
    await client.until(lambda: client.goodbye is not None, "GOAWAY")
    await pinging
