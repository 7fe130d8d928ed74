"""Topics that a stream feeds where processes share a log: resumable anywhere, fed by one, whole or said not to be."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, Site
from support.brokers.redis_server import RedisServer
from support.client import RawClient
from support.edges import Edges
from support.origins import EVENTS, Model
from support.subscribers import Event, Subscriber
from support.waiting import in_time, settled, until

from .nodes import Node, Nodes

WORKER = Path(__file__).with_name("feed_worker.py")
KILLS = 3
# Tokens that come between two kills, at least.
BETWEEN = 50


async def kinds(subscriber: Subscriber) -> list[str]:
    return [event.type for event in await subscriber.rest()]


class Applications:
    """Applications whose relays are resumable, one for each node."""

    def __init__(self, engine: penstock.Engine) -> None:
        self._engine = engine
        self._runners: list[web.AppRunner] = []

    async def serve(self, node: Node, origin: ScriptedOrigin) -> int:
        gateway = Gateway(origin.url, engine=self._engine)

        async def handler(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, topic=request.match_info["topic"], hub=node.hub)

        app = web.Application()
        app.router.add_get("/{topic}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._runners.append(runner)
        await Site(runner, "127.0.0.1", 0, engine=self._engine).start()
        return int(runner.addresses[0][1])

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()


@pytest.fixture
async def applications(edge: Edges) -> AsyncIterator[Applications]:
    applications = Applications(edge.engine)
    yield applications
    await applications.close()


async def ask(port: int, *fields: str) -> tuple[RawClient, Subscriber]:
    client = await RawClient.connect(port)
    await client.get("/news", *fields)
    return client, Subscriber(client, await in_time(client.head()))


async def test_a_stream_that_feeds_one_node_is_resumable_with_all(edge: Edges, nodes: Nodes) -> None:
    model = Model()
    one, other = await nodes.node(join="start"), await nodes.node(join="start")
    async with ScriptedOrigin(model) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response)
        here, there = await one.subscribe(), await other.subscribe()
        model.send(
            ": comment\n\ndata: a\n\nid: own\nevent: kind\nretry: 70\ndata: b\ndata: c\n\nid:\ndata: \n\n"
        )
        got = [await here.event() for _ in range(3)]
        assert [await there.event() for _ in range(3)] == got
        first, second, third = got
        assert first is not None
        assert third is not None
        assert (first.type, first.data) == ("message", "a")
        assert second == Event("own", "kind", "b\nc", 70)
        assert (third.type, third.data) == ("message", "")
        again = await other.subscribe("own")
        assert again.resumed == "full"
        assert await again.event() == third
        model.send("data: d\n\n")
        for subscriber in (here, there, again):
            assert await subscriber.data(1) == ["d"]
        model.end()
        for subscriber in (here, there, again):
            assert await kinds(subscriber) == ["penstock-end"]
        late = await other.subscribe()
        assert await kinds(late) == ["message", "kind", "message", "message", "penstock-end"]
        with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
            await other.hub.publish("news", "more")


async def test_tabs_that_reconnect_to_another_node_get_the_transcript(
    applications: Applications, nodes: Nodes
) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        ports = [await applications.serve(await nodes.node(), origin) for _ in range(2)]
        client, first = await ask(ports[0])
        # It is known there before its first token.
        other_client, second = await ask(ports[1])
        model.send("data: a\n\ndata: b\n\n")
        events = [await first.event() for _ in range(2)]
        assert [await second.event() for _ in range(2)] == events
        client.abort()
        assert events[0] is not None
        client, back = await ask(ports[1], f"Last-Event-ID: {events[0].id}")
        assert back.resumed == "full"
        assert await back.event() == events[1]
        model.send("data: c\n\n")
        model.end()
        for subscriber in (second, back):
            assert await subscriber.data(1) == ["c"]
            assert await kinds(subscriber) == ["penstock-end"]
        for each in (client, other_client):
            each.abort()
        client, late = await ask(ports[0])
        assert await kinds(late) == ["message", "message", "message", "penstock-end"]
        client.abort()
        assert model.requests == 1


async def test_one_stream_feeds_a_topic_and_no_other_of_any_process(edge: Edges, nodes: Nodes) -> None:
    models = [Model() for _ in range(4)]
    one, other = await nodes.node(join="start"), await nodes.node(join="start")
    async with ScriptedOrigin(*models) as origin, AsyncExitStack() as entered:
        responses = []
        for _ in models:
            responses.append(await entered.enter_async_context(edge.engine.get(origin.url)))
            # One after the other, so that it is known which is whose.
            await responses[-1]
        first, second, third, fourth = responses
        await one.hub.feed("news", first)
        for hub, response in ((one.hub, second), (other.hub, third)):
            with pytest.raises(penstock.StateError, match="BUSY"):
                await hub.feed("news", response)
            # Its owner has it still.
            assert not response.closed
        with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
            await one.hub.feed("other", second, error_event="a\nb")
        await second.aclose()
        with pytest.raises(penstock.StateError, match="STREAM_CLOSED"):
            await one.hub.feed("other", second)
        models[0].send("data: a\n\n")
        models[0].end()
        subscriber = await other.subscribe()
        assert await subscriber.data(1) == ["a"]
        assert await kinds(subscriber) == ["penstock-end"]
        with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
            await other.hub.feed("news", fourth)
        for model in models[1:]:
            model.end()


async def test_of_those_who_ask_at_once_one_feeds_and_all_are_answered_by_it(
    applications: Applications, nodes: Nodes
) -> None:
    models = [Model(), Model()]
    async with ScriptedOrigin(*models) as origin:
        ports = [await applications.serve(await nodes.node(), origin) for _ in range(2)]
        answers = await asyncio.gather(*(ask(port) for port in ports))
        for model in models:
            model.send("data: a\n\n")
            model.end()
        transcripts = [await subscriber.rest() for _, subscriber in answers]
        assert transcripts[0] == transcripts[1]
        assert [event.type for event in transcripts[0]] == ["message", "penstock-end"]
        for client, _ in answers:
            client.abort()


async def test_a_stream_that_fails_is_told_of_everywhere(edge: Edges, nodes: Nodes) -> None:
    async def broken(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS + b"9\r\ndata: a\n\n\r\n5\r\ndata:")

    one, other = await nodes.node(join="start"), await nodes.node(join="start")
    async with ScriptedOrigin(broken) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response, error_event="failed")
        for node in (one, other):
            events = await (await node.subscribe()).rest()
            assert [event.type for event in events] == ["message", "failed", "penstock-end"]
            said = json.loads(events[1].data)["error"]
            assert (said["name"], said["code"], said["retryable"]) == ("BODY_TRUNCATED", "0x10D", True)


async def test_an_event_larger_than_the_history_ends_the_topic_after_the_events_before_it(
    edge: Edges, nodes: Nodes
) -> None:
    model = Model()
    node = await nodes.node(history={"bytes": 400}, join="start")
    async with ScriptedOrigin(model) as origin, edge.engine.get(origin.url) as response:
        await node.hub.feed("news", response)
        subscriber = await node.subscribe()
        model.send("data: a\n\ndata: " + "x" * 390 + "\n\ndata: b\n\n")
        events = await subscriber.rest()
        assert [event.type for event in events] == ["message", "error", "penstock-end"]
        assert json.loads(events[1].data)["error"]["name"] == "BAD_EVENT"
        model.end()


async def test_finishing_a_topic_cancels_its_stream(edge: Edges, nodes: Nodes) -> None:
    left = asyncio.Event()

    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        while not peer.left:
            await peer.send(b"9\r\ndata: a\n\n\r\n")
            await asyncio.sleep(0.01)
        left.set()

    one, other = await nodes.node(), await nodes.node()
    async with ScriptedOrigin(endless) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response)
        assert await other.hub.finish("news")
        await in_time(left.wait())
        subscriber = await (await nodes.node(join="start")).subscribe()
        assert set(await kinds(subscriber)) <= {"message", "penstock-end"}


async def test_a_hub_that_is_left_ends_what_was_fed_from_it(edge: Edges, nodes: Nodes) -> None:
    model = Model()
    one, other = await nodes.node(), await nodes.node(join="start")
    async with ScriptedOrigin(model) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response)
        subscriber = await other.subscribe()
        model.send("data: a\n\n")
        assert await subscriber.data(1) == ["a"]
        await one.leave()
        events = await subscriber.rest()
        assert [event.type for event in events] == ["error", "penstock-end"]
        assert json.loads(events[0].data)["error"]["name"] == "FEEDER_GONE"
        model.end()


async def test_a_process_that_dies_has_its_topic_ended_with_an_error(
    nodes: Nodes, redis: RedisServer
) -> None:
    lease = {"timeout": 1.0, "lease": 2.0}
    model = Model()
    one = await nodes.node(log=lease, join="start")
    async with ScriptedOrigin(model) as origin:
        command = (sys.executable, str(WORKER), redis.url, origin.url, "2")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        try:
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 60) == b"begun\n"
            subscriber = await one.subscribe()
            model.send("data: a\n\n")
            assert await subscriber.data(1) == ["a"]
        finally:
            process.kill()
            await in_time(process.wait(), "the process has ended")
        events = await subscriber.rest()
        assert [event.type for event in events] == ["error", "penstock-end"]
        assert json.loads(events[0].data)["error"]["name"] == "FEEDER_GONE"
        # Nothing is left of its right, but the topic's end is known.
        assert redis.call("EXISTS", "penstock:\0feeds", "penstock:\0limits") == 0
        late = await (await nodes.node(join="start")).subscribe()
        assert await kinds(late) == ["message", "error", "penstock-end"]
        model.end()


class Numbers:
    """An origin that sends numbers as they are taken, and no more than some a second, until it is told to stop."""

    def __init__(self, *, pause: float = 0.0, padding: int = 0) -> None:
        self.sent = 0
        self._pause = pause
        self._padding = " " * padding
        self.is_over = False

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        while not self.is_over:
            numbers = range(self.sent, self.sent + 10)
            block = "".join(f"data: {number}{self._padding}\n\n" for number in numbers).encode()
            await peer.send(b"%x\r\n%b\r\n" % (len(block), block))
            self.sent += 10
            await asyncio.sleep(self._pause)
        await peer.send(b"0\r\n\r\n")


def stream(redis: RedisServer) -> list[str]:
    rows: Any = redis.call("XRANGE", "penstock:news", "-", "+")
    return [fields[b"event"].split(b"\n")[1].decode() for _, fields in rows if b"event" in fields]


def is_finished(redis: RedisServer) -> bool:
    ((_, fields),) = redis.call("XREVRANGE", "penstock:news", "+", "-", "COUNT", 1)
    return b"end" in fields


async def published(redis: RedisServer, count: int) -> None:
    goal = redis.call("XLEN", "penstock:news") + count
    while redis.call("XLEN", "penstock:news") < goal:
        await asyncio.sleep(0.01)


async def test_nothing_is_lost_or_there_twice_though_redis_is_killed(
    edge: Edges, nodes: Nodes, redis: RedisServer
) -> None:
    numbers = Numbers(pause=0.01)
    kept = {"events": 1_000_000, "bytes": "2MiB", "memory": "4MiB"}
    one, other = [await nodes.node(history=kept, join="start") for _ in range(2)]
    async with ScriptedOrigin(numbers) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response)
        for _ in range(KILLS):
            await in_time(published(redis, BETWEEN))
            redis.kill()
            await redis.start()
        await in_time(published(redis, BETWEEN))
        numbers.is_over = True

        await until(lambda: is_finished(redis), "it has ended")
    there = stream(redis)
    assert there == [str(number) for number in range(numbers.sent)]
    for node in (one, other):
        await node.until_ready()
        events = await (await node.subscribe()).rest()
        assert [event.data for event in events[:-1]] == there
        assert events[-1].type == "penstock-end"


async def test_the_stream_is_read_no_further_than_the_log_has_it(
    edge: Edges, nodes: Nodes, redis: RedisServer
) -> None:
    # Few of them fill the buffers of the kernel.
    numbers = Numbers(padding=8192)
    node = await nodes.node(history={"events": 100}, log={"timeout": 60.0, "lease": 100.0})
    async with ScriptedOrigin(numbers) as origin, edge.engine.get(origin.url) as response:
        await node.hub.feed("news", response)
        await in_time(published(redis, BETWEEN))
        redis.stop()
        # What is on the way fills the buffers of both sides, and then nothing more is taken.
        sent = await settled(lambda: numbers.sent, "the origin has stopped")
        held = edge.engine.stats().pool.live_bytes
        assert held < 2 << 20, "what waits is a window, and no more"
        redis.go_on()
        await until(lambda: numbers.sent > sent, "it goes on")
        numbers.is_over = True
        await until(lambda: is_finished(redis), "it has ended")


async def test_feeds_that_redis_has_lost_end_with_an_error(
    edge: Edges, nodes: Nodes, redis: RedisServer
) -> None:
    model = Model()
    one, other = await nodes.node(), await nodes.node()
    subscriber = await other.subscribe()
    async with ScriptedOrigin(model) as origin, edge.engine.get(origin.url) as response:
        await one.hub.feed("news", response)
        model.send("data: a\n\n")
        assert await subscriber.data(1) == ["a"]
        redis.call("FLUSHALL")
        model.send("data: b\n\n")
        assert await kinds(subscriber) == ["penstock-gap", "error", "penstock-end"]
        model.end()


async def test_relays_are_answered_with_503_while_the_log_is_away(
    edge: Edges, applications: Applications, nodes: Nodes, redis: RedisServer
) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        node = await nodes.node()
        port = await applications.serve(node, origin)
        redis.kill()
        await node.until_away()
        client, answered = await ask(port)
        assert answered.head.status == 503
        assert json.loads(await client.body(answered.head))["name"] == "HUB_UNAVAILABLE"
        client.abort()
        with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE"):
            async with edge.engine.get(origin.url) as response:
                await node.hub.feed("news", response)
        model.end()
        await redis.start()
