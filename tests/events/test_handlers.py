"""Handlers that look at events: some are dropped, replaced or put in, and the rest is left to the engine."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

import penstock
from penstock import encode_event
from penstock.framing import Events
from penstock.testing import ScriptedOrigin
from support.origins import ChunkSteps
from support.waiting import until
from support.ways import Way

EDITED = {
    b"data: keep\n\n": b"data: keep\n\n",
    b"data: drop\n\n": b"",
    b"data: replace\n\n": b"event: edited\ndata: replaced\n\n",
    b": heartbeat\n": b": heartbeat\n",
    b"id: 1\r\ndata: behind\r\n\r\n": b"data: before\n\nid: 1\r\ndata: behind\r\n\r\n",
}
REST = [b"data: drop\n\n", b": and comments\n", b"data: all\n\n", b"data: \xff\n\n"]


def edited(event: penstock.Frame) -> list[bytes | memoryview]:
    if event.data is None:
        return [memoryview(event)]
    match bytes(event.data):
        case b"drop":
            return []
        case b"replace":
            return [encode_event("replaced", event="edited")]
        case b"behind":
            return [encode_event("before"), memoryview(event)]
        case _:
            return [memoryview(event)]


async def one_by_one(stream: penstock.FrameStream, response: web.StreamResponse) -> None:
    seen = 0
    async for event in stream:
        for part in edited(event):
            await response.write(part)
        seen += 1
        if seen == len(EDITED) + 1:
            return


async def in_batches(stream: penstock.FrameStream, response: web.StreamResponse) -> None:
    seen = 0
    async for batch in stream.batches(most=1):
        for event in batch:
            for part in edited(event):
                await response.write(part)
            seen += 1
        if seen == len(EDITED) + 1:
            return


Look = Callable[[penstock.FrameStream, web.StreamResponse], Awaitable[None]]


@pytest.mark.parametrize("look", [one_by_one, in_batches])
async def test_a_handler_edits_events_and_leaves_the_rest_to_the_engine(way: Way, look: Look) -> None:
    origin = ChunkSteps()
    sent: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        async with way.engine.get(served.url) as upstream:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            stream = upstream.frames(Events(blocks=True))
            await look(stream, response)
            sent.append(await stream.pipe_to(response))
        return response

    async with ScriptedOrigin(origin) as served:
        app = web.Application()
        app.router.add_get("/", handler)
        client = await (await way.serve(app)).ask()
        await client.head()
        for event, expected in EDITED.items():
            origin.put(event)
            if expected:
                assert await client.reader.readuntil(expected[-12:])
        # The blank line after a comment is a block of its own.
        origin.put(b"\n")
        for event in REST:
            origin.put(event)
            # Each leaves before the next is there: in lock step.
            assert (await client.reader.readuntil(event)).endswith(event)
        origin.end()
        assert await client.reader.readuntil(b"0\r\n\r\n")
        await until(lambda: sent, "the rest was sent")
    assert sent == [sum(map(len, REST))]


@pytest.mark.parametrize("behind", [False, True], ids=["while it looks", "behind it"])
async def test_a_handler_whose_client_leaves_cancels_the_origin(way: Way, behind: bool) -> None:
    origin = ChunkSteps(b"data: 1\n\n")
    ended = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            async with way.engine.get(served.url) as upstream:
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                stream = upstream.frames(Events(blocks=True))
                if not behind:
                    async for event in stream:
                        await response.write(memoryview(event))
                await stream.pipe_to(response)
            return response
        finally:
            ended.set()

    async with ScriptedOrigin(origin) as served:
        app = web.Application()
        app.router.add_get("/", handler)
        client = await (await way.serve(app)).ask()
        await client.reader.readuntil(b"data: 1\n\n")
        client.reset()
        for number in range(100):
            # Stock aiohttp notices at a write.
            if not ended.is_set():
                origin.put(b"data: %d\n\n" % number)
                await asyncio.sleep(0)
        await asyncio.wait_for(ended.wait(), 10)
        await (await served.connection()).wait_left()
