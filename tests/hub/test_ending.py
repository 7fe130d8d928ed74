"""Hubs and sites that end: subscribers are left with whole events, and nothing is kept of them."""

import re
from pathlib import Path

import pytest

import penstock
from penstock import Hub, _native
from penstock.config import Edge, History, Subscriptions
from penstock.log import Entry, Event
from support.subscribers import PATH, Topics, parse
from support.waiting import in_time, until


async def test_a_hub_that_is_closed_ends_its_subscriptions_after_whole_events(topics: Topics) -> None:
    hub = topics.hub()
    subscriber = await topics.subscribe(await topics.serve(hub))
    await hub.publish("news", "a")
    assert await subscriber.data(1) == ["a"]
    hub.close()
    assert await subscriber.rest() == [], "no sign of a topic that has ended: it comes back"
    hub.close()
    with pytest.raises(penstock.StateError, match="HUB_CLOSED"):
        await hub.publish("news", "b")
    await subscriber.client.get(PATH)
    assert (await subscriber.client.head()).status == 503


async def test_a_site_that_is_closed_ends_subscriptions_after_whole_events(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    everyone = [await topics.subscribe(served) for _ in range(5)]
    for number in range(20):
        await hub.publish("news", str(number))
    served.native.drain(0.0)
    await hub.publish("news", "20")
    served.native.close()
    for subscriber in everyone:
        got = [event.data for event in await subscriber.rest()]
        assert got == [str(number) for number in range(len(got))]
        assert len(got) >= 20, "what was published before"
        assert await in_time(subscriber.client.rest()) == b""
    await until(lambda: hub.stats().subscribers == 0, "all have left")


async def test_subscribers_are_told_to_come_back_at_times_of_their_own(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    everyone = [await topics.subscribe(served) for _ in range(20)]
    await hub.publish("news", "one", id="1")
    served.native.drain(2.0)
    texts = [await in_time(subscriber.client.rest()) for subscriber in everyone]
    retries = [
        int(found[1]) for text in texts if (found := re.search(rb"\nretry: (\d+)\n\n\r\n0\r\n\r\n$", text))
    ]
    assert len(retries) == len(everyone), "each is the last thing that is said"
    assert all(1 <= retry <= 2000 for retry in retries)
    # Of 20 at random all are alike once in 10^62 times.
    assert len(set(retries)) > 1


async def test_a_subscription_that_begins_while_the_site_drains_ends_at_once(
    topics: Topics,
) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    client = await topics.edge.connect(served)
    await client.send(b"GET /events/ne")
    await until(lambda: topics.edge.engine.stats().pool.live_bytes > 0, "the beginning is read")
    served.native.drain(0.0)
    await client.send(b"ws HTTP/1.1\r\nHost: a\r\n\r\n")
    head = await in_time(client.head())
    assert (head.status, head.one("Connection")) == (200, "close")
    rest = await in_time(client.rest())
    assert b"penstock-end" not in rest, "the client is to come back"
    assert rest.endswith(b"0\r\n\r\n")


async def test_a_subscriber_that_had_no_event_is_told_by_which_id_to_come_back(topics: Topics) -> None:
    hub = topics.hub()
    await hub.publish("news", "before")
    served = await topics.serve(hub)
    subscriber = await topics.subscribe(served)
    served.native.drain(0.0)
    block = await in_time(subscriber.client.chunk())
    assert block.startswith(b"id: ")
    assert block.count(b"\n") == 2, "an EventSource takes the id, and dispatches nothing"
    assert await subscriber.rest() == []
    await hub.publish("news", "meanwhile")
    back = await topics.subscribe(await topics.serve(hub), f"Last-Event-ID: {block[4:-2].decode()}")
    assert back.resumed == "full"
    assert await back.data(1) == ["meanwhile"]


async def test_the_access_log_tells_of_a_subscription(topics: Topics, tmp_path: Path) -> None:
    hub = topics.hub()
    path = tmp_path / "access.log"
    route = hub.native("/events/", subscriptions=Subscriptions(), name="live")
    served = await topics.edge.serve([route], log=path)
    subscriber = await topics.subscribe(served)
    await hub.publish("news", "a")
    await hub.finish("news")
    blocks = []
    while block := await subscriber.client.chunk():
        blocks.append(block)
    assert [parse(block).type for block in blocks] == ["message", "penstock-end"]
    # With the framing of the chunks, the last one included.
    size = sum(len(block) + len(f"{len(block):x}\r\n\r\n") for block in [*blocks, b""])
    await until(lambda: path.read_text(), "a line is written")
    line = path.read_text()
    assert f'"GET {PATH} HTTP/1.1" 200 {size} ' in line
    assert "live" in line


async def test_a_topic_of_an_external_log_lets_in_who_waits_once_it_is_loaded(topics: Topics) -> None:
    hub = topics.hub()
    hub.close()
    engine = topics.edge.engine
    hub.native_hub = native = _native.Hub(engine.native, History(memory="1MiB"), True, None)
    served = await topics.serve(hub)
    names, more = native.wanted()
    assert names == []
    clients = [await topics.edge.connect(served) for _ in range(3)]
    await clients[0].get(PATH, "Last-Event-ID: 20-1")
    await in_time(more)
    names, _ = native.wanted()
    assert names == ["news"]
    await clients[1].get(PATH, "Last-Event-ID: 10-0")
    await clients[2].get(PATH)
    await until(lambda: served.requests == 3, "all have asked")
    assert native.stats().subscribers == 0, "no client is admitted"
    entries = [Entry(position, None, Event(data)) for position, data in (("20-1", "a"), ("30-0", "b"))]
    assert native.take("news", entries) is None, "it waits for what was before"
    assert native.load("news", "10-0", entries) == (0, None)
    assert native.load("news", "10-0", entries) is None, "once"
    assert native.take("news", entries) == (2, None, (0, None)), "they are there"
    for client in clients:
        head = await in_time(client.head())
        assert head.one("Penstock-Resume") == (None if client is clients[2] else "full")
    assert native.take("news", [Entry("31-0", None, Event("c"))]) == (1, None, (0, None))
    for client, expected in zip(clients, (["b", "c"], ["a", "b", "c"], ["c"]), strict=True):
        assert [parse(await in_time(client.chunk())).data for _ in expected] == expected
    native.close()


async def test_an_engine_that_is_closed_takes_its_hubs_with_it() -> None:
    engine = penstock.Engine(memory="4MiB")
    hub = Hub(engine=engine)
    assert hub.stats().limit == 1 << 20, "a quarter of the pool"
    await hub.publish("news", "a")
    engine.close()
    hub.close()
    assert engine.stats().pool.live_bytes == 0
    with pytest.raises(penstock.StateError):
        Hub(engine=engine)


async def test_a_slow_end_does_not_wait_for_one_that_takes_nothing(topics: Topics) -> None:
    hub = topics.hub(bytes="512KiB")
    served = await topics.edge.serve([hub.native("/events/")], edge=Edge(linger=0.1))
    slow = await topics.subscribe(served, receive_buffer=4096)
    slow.client.writer.transport.pause_reading()
    fast = await topics.subscribe(served)
    for _ in range(300):
        await hub.publish("news", "x" * 30_000)
        await fast.event()
    served.native.close()
    await until(lambda: served.connections == 0, "both are gone")
    slow.client.writer.transport.resume_reading()
    with pytest.raises(ConnectionResetError):
        await slow.client.rest()
