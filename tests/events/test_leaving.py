"""The client leaves an event stream: the origin is cancelled at once, or read on up to its limits."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.config import Drain, EventRelay
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.origins import EVENTS, chunk
from support.waiting import in_time, until
from support.ways import Way, left

ONE = b"data: 1\n\n"
LEAVE: dict[str, Callable[[RawClient], None]] = {
    "closing": RawClient.abort,
    "resetting": RawClient.reset,
    "ending its side": lambda client: client.writer.write_eof(),
}


class Model:
    """An origin that says one event, and the rest when it may."""

    def __init__(
        self, rest: bytes = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n", *, head_first: bool = True
    ) -> None:
        self.rest = rest
        self.head_first = head_first
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()
        self.kept: list[Peer] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.asked.set()
            if not self.head_first:
                await self.go_on.wait()
            await peer.send(EVENTS + chunk(ONE))
            await self.go_on.wait()
            await peer.send(self.rest)
            self.kept.append(peer)


def finished(way: Way, origin: ScriptedOrigin) -> bool:
    """Whether the stream was read to its end, and the connection is kept for another request."""
    stats = way.engine.stats().origins.get(origin.url)
    return stats is not None and stats.idle == 1


async def begun(way: Way, origin: ScriptedOrigin, **options: object) -> RawClient:
    client = await (await way.relay(origin.url, **options)).ask()
    await client.head()
    assert await client.chunk() == ONE
    return client


@pytest.mark.parametrize("how", LEAVE)
async def test_the_origin_is_cancelled_at_once(way: Way, how: str) -> None:
    async with ScriptedOrigin(Model()) as origin:
        client = await begun(way, origin, events=EventRelay())
        LEAVE[how](client)
        await left(way, await origin.connection())
    assert way.counts().drained == 0


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize("when", ["after an event", "before the head"])
async def test_or_is_read_on_to_its_end(way: Way, how: str, when: str) -> None:
    model = Model(head_first=when == "after an event")
    policy = EventRelay(heartbeat=0.02, drain=Drain())
    async with ScriptedOrigin(model) as origin:
        relay = await way.relay(origin.url, events=policy)
        client = await relay.ask()
        if model.head_first:
            await client.reader.readuntil(ONE)
        await in_time(model.asked.wait(), "the origin is asked")
        LEAVE[how](client)
        await until(lambda: way.counts().draining == 1, "it is read on")
        beaten = way.counts().heartbeats
        model.go_on.set()
        await until(lambda: finished(way, origin), "the origin has finished")
        await until(lambda: way.counts().draining == 0, "no body is drained any more")
        assert way.counts().drained == 1
        assert way.counts().heartbeats == beaten, "no client is there for comments"
        if not way.is_route:
            assert getattr((await relay.ends.get()).error, "name", None) == "CLIENT_GONE"


async def test_no_more_bytes_are_read_on_than_the_limit(way: Way) -> None:
    policy = EventRelay(drain=Drain(bytes="64KiB"))
    events = chunk(b"data: " + b"x" * 1000 + b"\n\n") * 50_000
    model = Model(events)
    async with ScriptedOrigin(model) as origin:
        client = await begun(way, origin, events=policy)
        client.reset()
        await until(lambda: way.counts().drained == 1, "it is read on")
        model.go_on.set()
        peer = await origin.connection()
        await left(way, peer)
        assert peer.sent < len(events)
    assert model.kept == []


async def test_nothing_is_read_on_for_longer_than_the_limit(way: Way) -> None:
    policy = EventRelay(drain=Drain(seconds=0.2))
    model = Model()
    async with ScriptedOrigin(model) as origin:
        client = await begun(way, origin, events=policy)
        client.reset()
        await until(lambda: way.counts().drained == 1, "it is read on")
        await left(way, await origin.connection())
    assert model.kept == []


async def test_the_drain_limit_counts_while_the_head_is_awaited(way: Way) -> None:
    policy = EventRelay(drain=Drain(seconds=0.2))
    model = Model(head_first=False)
    async with ScriptedOrigin(model) as origin:
        client = await (await way.relay(origin.url, events=policy)).ask()
        await in_time(model.asked.wait(), "the origin is asked")
        client.reset()
        await until(lambda: way.counts().drained == 1, "it is read on")
        await left(way, await origin.connection())


async def test_no_more_are_read_on_at_a_time_than_the_limit(way: Way) -> None:
    policy = EventRelay(drain=Drain(concurrency=2))
    model = Model()
    async with ScriptedOrigin(model) as origin:
        relay = await way.relay(origin.url, events=policy)
        for number in range(3):
            client = await relay.ask()
            await client.reader.readuntil(ONE)
            client.reset()
            drained = min(number + 1, 2)
            counted = (drained, drained, number + 1 - drained)
            await until(
                lambda counted=counted: (
                    counted == (way.counts().draining, way.counts().drained, way.counts().undrained)
                ),
                "it is read on, or is not",
            )
        await (await origin.connection(2)).wait_left()
        model.go_on.set()
        await until(lambda: way.counts().draining == 0, "both have ended")
        # Their places are free again.
        model.go_on.clear()
        client = await relay.ask()
        await client.reader.readuntil(ONE)
        client.reset()
        await until(lambda: way.counts().drained == 3, "it is read on")
    assert way.counts().undrained == 1


@pytest.mark.parametrize("when", ["after an event", "before the head"])
async def test_what_a_route_says_of_all_responses_holds_for_events(way: Way, when: str) -> None:
    if not way.is_route:
        pytest.skip("a relay has no rule for all responses")
    model = Model(head_first=when == "after an event")
    async with ScriptedOrigin(model) as origin:
        relay = await way.relay(origin.url, drain="1MiB")
        client = await relay.ask()
        if model.head_first:
            await client.reader.readuntil(ONE)
        await in_time(model.asked.wait(), "the origin is asked")
        client.reset()
        await until(lambda: way.counts().draining == 1, "it is read on")
        model.go_on.set()
        await until(lambda: finished(way, origin), "the origin has finished")


async def test_what_is_said_of_events_is_not_for_other_bodies(way: Way) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    asked = asyncio.Event()

    async def plain(peer: Peer) -> None:
        await peer.request()
        await peer.send(head + chunk(ONE))
        asked.set()
        await peer.stall()

    async with ScriptedOrigin(plain) as origin:
        client = await (await way.relay(origin.url, events=EventRelay(drain=Drain()))).ask()
        await client.reader.readuntil(ONE)
        client.reset()
        await left(way, await origin.connection())


async def test_what_is_read_on_ends_with_the_server(way: Way) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        client = await begun(way, origin, events=EventRelay(drain=Drain()))
        client.reset()
        await until(lambda: way.counts().draining == 1, "it is read on")
        await way.close()
        if way.is_stock:
            # There it is the engine's, and goes on without the server.
            assert way.counts().draining == 1
            model.go_on.set()
        await until(lambda: way.counts().draining == 0, "no body is drained any more")
