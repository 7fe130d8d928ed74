"""Bodies that are left to the engine: relays, and streams of any kind."""

import asyncio
import gc
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

import penstock
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, RelayEnd
from support.client import answer
from support.origins import says
from support.waiting import until

from .conftest import Connect, Serve


async def test_a_relay_is_over_for_python_when_it_is_handed_over(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    ends: asyncio.Queue[RelayEnd] = asyncio.Queue()
    body = bytes(3_000_000)
    async with ScriptedOrigin(says(answer("Content-Length: 3000000", body=body))) as origin:
        gateway = Gateway(origin.url, engine=engine)
        served = await serve(partial(gateway.relay, on_complete=ends.put_nowait))
        client = await connect(served, 4096)
        client.writer.transport.pause_reading()
        await client.get()
        await until(lambda: served.counts() == (0, 1, 1), "the handler waits for the next request")
        assert ends.empty()
        client.writer.transport.resume_reading()
        assert await client.body(await client.head()) == body
        end = await ends.get()
        assert (end.status, end.bytes, end.error) == (200, 3_000_000, None)
        assert end.timings.body > 0
    assert engine.stats().pool.bytes_copied["python_bytes"] == 0


async def test_what_is_handed_over_does_not_wait_for_the_handler(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    go_on = asyncio.Event()
    async with ScriptedOrigin(says(answer("Content-Length: 2", body=b"ok"))) as origin:
        gateway = Gateway(origin.url, engine=engine)

        async def handler(request: web.Request) -> web.StreamResponse:
            response = await gateway.relay(request)
            await go_on.wait()
            return response

        served = await serve(handler)
        client = await connect(served)
        await client.get()
        assert await client.body(await client.head()) == b"ok"
        go_on.set()
        assert (await client.ask()).body == b"ok"


async def test_the_end_is_told_once_however_it_comes(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    ends: list[RelayEnd] = []
    cases = {
        answer("Content-Length: 2", body=b"ok"): None,
        answer("Content-Length: 4", body=b"ha"): "BODY_TRUNCATED",
        b"nonsense": "BAD_HEAD",
        answer(status="204 No Content"): None,
    }
    for data, expected in cases.items():
        async with ScriptedOrigin(says(data)) as origin:
            gateway = Gateway(origin.url, engine=engine)
            served = await serve(partial(gateway.relay, on_complete=ends.append))
            client = await connect(served)
            await client.get("/", "Connection: close")
            seen = (await client.head()).status
            await client.rest()
            await until(lambda: ends, "the end is told")
            await served.runner.cleanup()
        [end] = ends
        # What the engine has answered in the origin's place is not what was relayed.
        assert (end.status, end.error and end.error.name) == (None if seen == 502 else seen, expected)
        ends.clear()


async def test_a_kept_connection_goes_on_after_a_relay(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    chunked = answer("Transfer-Encoding: chunked", body=b"3\r\none\r\n0\r\n\r\n")
    async with ScriptedOrigin(says(chunked)) as origin:
        served = await serve(Gateway(origin.url, engine=engine).relay)
        client = await connect(served)
        for _ in range(3):
            reply = await client.ask()
            assert (reply.head.one("Transfer-Encoding"), reply.body) == ("chunked", b"one")

        def at_rest() -> bool:
            waiting, idle, sending = served.counts()
            return (waiting, sending) == (0, 0) and idle > 0

        # The engine may have sent the end before the loop hears of it.
        await until(at_rest, "every handler is done, and every stream")


async def test_pipe_to_leaves_parts_to_the_engine(
    engine: penstock.Engine, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "part"
    path.write_bytes(bytes(range(256)) * 1000)
    sent: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.path == "/length":
            response.content_length = 2 * 256_000 + 6
        await response.prepare(request)
        await response.write(b"one")
        for _ in range(2):
            async with penstock.open_file(path, engine=engine) as stream:
                sent.append(await stream.pipe_to(response))
        await response.write(b"two")
        return response

    client = await connect(await serve(handler))
    for target in ("/chunks", "/length"):
        assert (await client.ask(target)).body == b"one" + path.read_bytes() * 2 + b"two"
    assert sent == [256_000] * 4
    assert engine.stats().pool.bytes_copied["python_bytes"] == 0


async def test_a_part_that_is_too_long_is_not_sent(
    engine: penstock.Engine, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "part"
    path.write_bytes(bytes(1000))
    raised: list[BaseException] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "999"})
        await response.prepare(request)
        try:
            async with penstock.open_file(path, engine=engine) as stream:
                await stream.pipe_to(response)
        except BaseException as error:
            raised.append(error)
            raise
        return response

    client = await connect(await serve(handler))
    await client.get()
    try:
        head = await client.head()
    except (ConnectionResetError, EOFError):
        head = None
    if head is not None and head.status == 200:
        with pytest.raises((ConnectionResetError, EOFError)):
            await client.body(head)
    elif head is not None:
        # The client had not been sent the head yet: it is told.
        assert (head.status, b"BAD_RESPONSE" in await client.body(head)) == (500, True)
    await until(lambda: raised, "the handler is told")
    raised.clear()
    gc.collect()


async def test_a_stream_that_fails_ends_its_handler(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    names: list[str] = []
    async with ScriptedOrigin(says(answer("Content-Length: 10", body=b"half"))) as origin:

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                async with engine.get(origin.url) as upstream:
                    await upstream.pipe_to(response)
            except penstock.PenstockError as error:
                names.append(error.name)
                raise
            return response

        client = await connect(await serve(handler))
        await client.get()
        await client.head()
        assert await client.chunk() == b"half"
        assert await client.rest() == b"", "there is no last chunk"
        await until(lambda: names == ["BODY_TRUNCATED"], "the handler is told")
