"""Topics that a stream of an origin feeds: one request, any number of readers, and an end that is told as it was."""

import asyncio
import json

import pytest
from aiohttp import web

import penstock
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.origins import Model
from support.waiting import in_time, until

from .applications import Handler, Served

EVENTS = answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked")


def resumable(served: Served, origin: ScriptedOrigin) -> Handler:
    gateway = served.gateway(origin.url)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await gateway.relay(request, topic=request.match_info["topic"], hub=served.hub)

    return handler


async def test_tabs_of_one_stream_get_the_transcript_and_then_what_comes(served: Served) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        port = await served.serve(resumable(served, origin))
        first = await served.subscribe(port)
        assert (first.head.status, first.head.one("Content-Type")) == (200, "text/event-stream")
        model.send(": comment\n\ndata: a\n\nid: own\nevent: kind\ndata: b\ndata: c\n\n")
        one, two = await first.event(), await first.event()
        assert one is not None
        assert two is not None
        assert (one.type, one.data) == ("message", "a")
        assert (two.id, two.type, two.data) == ("own", "kind", "b\nc")
        second = await served.subscribe(port)
        assert [await second.event(), await second.event()] == [one, two]
        back = await served.subscribe(port, "Last-Event-ID: own")
        assert back.head.one("Penstock-Resume") == "full"
        model.send("data: d")
        model.send("\n\n")
        for reader in (first, second, back):
            assert await reader.data(1) == ["d"]
        # No client subscribes, and it goes on.
        for reader in (first, second, back):
            reader.client.abort()
        await until(lambda: served.hub.stats().subscribers == 0, "all have left")
        model.send("data: [DONE]\n\n")
        model.end()
        await until(lambda: (topic := served.hub.topic_stats("news")) and topic.finished, "it is finished")
        late = await served.subscribe(port)
        assert await late.data(4) == ["a", "b\nc", "d", "[DONE]"]
        end = await late.event()
        assert end is not None
        assert end.type == "penstock-end"
        assert await late.event() is None
        over = await served.subscribe(port, f"Last-Event-ID: {end.id}")
        assert over.head.status == 204
        assert model.requests == 1


async def test_requests_that_come_at_once_have_the_origin_asked_once(served: Served) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        port = await served.serve(resumable(served, origin))
        readers = await asyncio.gather(*(served.subscribe(port) for _ in range(6)))
        model.send("data: a\n\n")
        for reader in readers:
            assert await reader.data(1) == ["a"]
        model.end()
        for reader in readers:
            assert (await reader.event()).type == "penstock-end"  # type: ignore[union-attr]
        assert model.requests == 1


async def test_a_stream_that_fails_is_told_of_before_the_end(served: Served) -> None:
    async def broken(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS + b"9\r\ndata: a\n\n\r\n5\r\ndata:")

    async with ScriptedOrigin(broken) as origin:
        port = await served.serve(resumable(served, origin))
        reader = await served.subscribe(port)
        assert await reader.data(1) == ["a"]
        error, end = await reader.event(), await reader.event()
        assert error is not None
        assert end is not None
        assert (error.type, end.type) == ("error", "penstock-end")
        assert json.loads(error.data)["error"]["name"] == "BODY_TRUNCATED"
        assert await reader.event() is None
        late = await served.subscribe(port)
        assert [(await late.event()).type for _ in range(3)] == ["message", "error", "penstock-end"]  # type: ignore[union-attr]


async def test_what_is_no_stream_of_events_is_relayed_to_each_who_asks(served: Served) -> None:
    release = asyncio.Event()

    async def refuse(peer: Peer) -> None:
        while True:
            await peer.request()
            await release.wait()
            await peer.send(
                answer("Content-Length: 4", "Retry-After: 7", status="429 Too Many", body=b"slow")
            )

    async with ScriptedOrigin(refuse, refuse, refuse) as origin:
        port = await served.serve(resumable(served, origin))
        asking = [asyncio.create_task(served.subscribe(port)) for _ in range(3)]
        await origin.connection()
        release.set()
        for task in asking:
            reader = await in_time(task)
            assert (reader.head.status, reader.head.one("Retry-After")) == (429, "7")
            assert await reader.client.body(reader.head) == b"slow"
        assert served.hub.topics() == []


async def test_one_that_leaves_before_the_head_leaves_its_turn_to_the_next(served: Served) -> None:
    model = Model()

    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.wait_left()

    async with ScriptedOrigin(silent, model) as origin:
        port = await served.serve(resumable(served, origin))
        client = await RawClient.connect(port)
        await client.get("/news")
        await origin.connection()
        waiting = asyncio.create_task(served.subscribe(port))
        client.abort()
        reader = await in_time(waiting)
        model.send("data: a\n\n")
        assert await reader.data(1) == ["a"]
        model.end()


async def test_one_stream_feeds_a_topic_and_no_other(served: Served) -> None:
    model, other = Model(), Model()
    await served.serve(web.Application())
    async with ScriptedOrigin(model, other) as origin, served.engine.get(origin.url) as response:
        await served.hub.feed("news", response)
        async with served.engine.get(origin.url) as second:
            with pytest.raises(penstock.StateError, match="BUSY"):
                await served.hub.feed("news", second)
        model.send("data: a\n\n")
        async with served.hub.subscribe("news", after=None) as events:
            model.end()
            kinds = [bytes(frame.event or b"") async for frame in events]
        assert kinds[-1] == b"penstock-end"
        with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
            await served.hub.publish("news", "b")


async def test_a_topic_goes_with_a_hub(served: Served) -> None:
    gateway = served.gateway("http://127.0.0.1:1")

    async def handler(request: web.Request) -> web.StreamResponse:
        with pytest.raises(penstock.ConfigurationError, match="hub"):
            await gateway.relay(request, topic="a")
        return web.Response(text="refused")

    reader = await served.subscribe(await served.serve(handler))
    assert await reader.client.body(reader.head) == b"refused"
