"""What is published reaches all who listen, as it was meant, once and in order."""

import asyncio
import threading

import pytest

import penstock
from penstock.config import RouteLimits
from support.client import RawClient, drained
from support.subscribers import PATH, Event, Subscriber, Topics
from support.waiting import in_time, until


async def test_an_event_reaches_a_subscriber_as_it_was_published(topics: Topics) -> None:
    hub = topics.hub()
    subscriber = await topics.subscribe(await topics.serve(hub))
    head = subscriber.head
    assert head.one("Content-Type") == "text/event-stream"
    assert head.one("Cache-Control") == "no-cache"
    assert head.one("X-Accel-Buffering") == "no"
    assert head.one("Transfer-Encoding") == "chunked"
    assert subscriber.resumed is None
    first = await hub.publish("news", "plain")
    second = await hub.publish("news", "two\r\nlines\n", event="kind", retry=1.5)
    await hub.publish("news", b"\xc3\xa9", id="my own")
    assert await subscriber.event() == Event(first, "message", "plain")
    assert await subscriber.event() == Event(second, "kind", "two\nlines\n", 1500)
    assert await subscriber.event() == Event("my own", "message", "é")
    counts = hub.stats().counts
    assert (counts.events, counts.subscribed) == (3, 1)
    await until(lambda: hub.stats().counts.delivered == 3, "all are counted")


async def test_all_subscribers_get_all_events_in_order(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    everyone = [await topics.subscribe(served) for _ in range(30)]
    assert hub.stats().subscribers == 30
    for number in range(100):
        await hub.publish("news", str(number))
        await hub.publish("other", "not for them")
    for subscriber in everyone:
        assert await subscriber.data(100) == [str(number) for number in range(100)]


async def test_events_of_several_threads_come_to_all_in_one_order(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    everyone = [await topics.subscribe(served) for _ in range(6)]

    def publish(name: str) -> None:
        for number in range(100):
            asyncio.run(hub.publish("news", f"{name}{number}"))

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    orders = [await subscriber.data(300) for subscriber in everyone]
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert all(order == orders[0] for order in orders)
    for name in "abc":
        assert [data for data in orders[0] if data[0] == name] == [f"{name}{number}" for number in range(100)]


async def test_one_who_leaves_is_counted_out_and_others_go_on(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    everyone = [await topics.subscribe(served) for _ in range(8)]
    for number, subscriber in enumerate(everyone[:4]):
        if number % 2:
            subscriber.client.reset()
        else:
            subscriber.client.abort()
    await until(lambda: hub.stats().subscribers == 4, "they are counted out")
    await hub.publish("news", "x")
    for subscriber in everyone[4:]:
        assert await subscriber.data(1) == ["x"]


async def test_where_one_begins_who_had_nothing(topics: Topics) -> None:
    hub = topics.hub()
    for number in range(5):
        await hub.publish("news", str(number))
    start = await topics.subscribe(await topics.serve(hub, join="start"))
    assert await start.data(5) == ["0", "1", "2", "3", "4"]
    last = await topics.subscribe(await topics.serve(hub, join=2))
    assert await last.data(2) == ["3", "4"]
    now = await topics.subscribe(await topics.serve(hub, join="now", retry=2))
    assert await now.event() == Event(None, "message", "", 2000)
    await hub.publish("news", "5")
    for subscriber in (start, last, now):
        assert await subscriber.data(1) == ["5"]


async def test_the_rest_of_the_path_is_the_topic(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    subscriber = await topics.subscribe(served, path="/events/a/b%20%C3%A9?x=1")
    await hub.publish("a/b é", "here")
    assert await subscriber.data(1) == ["here"]
    for path in ("/events/", "/events/%ff", "/events/%0a", "/events/" + "x" * 513):
        client = await topics.edge.connect(served)
        reply = await client.ask(path)
        assert reply.head.status == 400, path
        assert b"BAD_TOPIC" in reply.body


async def test_unknown_topics_are_answered_with_404_where_they_do_not_begin_so(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, open=False)
    client = await topics.edge.connect(served)
    reply = await client.ask(PATH)
    assert reply.head.status == 404
    assert b"UNKNOWN_TOPIC" in reply.body
    assert hub.topics() == []
    await hub.publish("news", "x")
    await topics.subscribe(served)


async def test_a_client_of_http_1_0_gets_events_without_chunks(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, join="start")
    ids = [await hub.publish("news", data) for data in ("a", "b")]
    client = await topics.edge.connect(served)
    await client.get(PATH, version="1.0")
    head = await client.head()
    assert (head.status, head.one("Transfer-Encoding"), head.one("Connection")) == (200, None, "close")
    await hub.publish("news", "c", id="own")
    await hub.finish("news")
    expected = "".join(
        f"id: {name}\ndata: {data}\n\n" for name, data in zip([*ids, "own"], ["a", "b", "c"], strict=True)
    )
    end = 'id: own\nevent: penstock-end\ndata: {"last": "own"}\n\n'
    assert await in_time(client.rest()) == (expected + end).encode()


async def test_a_head_request_gets_the_head_of_a_get_and_does_not_subscribe(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    client = await topics.edge.connect(served)
    reply = await client.ask(PATH, method="HEAD")
    assert (reply.head.status, reply.head.one("Content-Type")) == (200, "text/event-stream")
    assert hub.stats().subscribers == 0
    assert Subscriber(client, reply.head).resumed is None
    await client.get(PATH)
    assert (await client.head()).status == 200


async def test_other_methods_are_not_the_hubs_and_neither_are_bodies(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    client = await topics.edge.connect(served)
    assert (await client.ask(PATH, "Content-Length: 0", method="POST")).head.status == 404
    client = await topics.edge.connect(served)
    await client.get(PATH, "Content-Length: 1")
    assert (await client.head()).status == 400


async def test_fields_of_the_response_are_the_routes_to_change(topics: Topics) -> None:
    hub = topics.hub()
    options = {"response_headers": {"Access-Control-Allow-Origin": "*", "X-Accel-Buffering": None}}
    subscriber = await topics.subscribe(await topics.serve(hub, options=options))
    assert subscriber.head.one("Access-Control-Allow-Origin") == "*"
    assert subscriber.head.one("X-Accel-Buffering") is None


async def test_a_route_serves_no_more_than_its_limit(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, options={"limits": RouteLimits(concurrency=1)})
    first = await topics.subscribe(served)
    refused = await (await topics.edge.connect(served)).ask(PATH)
    assert refused.head.status == 429
    first.client.abort()
    await until(lambda: hub.stats().subscribers == 0, "the first has left")

    async def again() -> RawClient:
        while True:
            client = await topics.edge.connect(served)
            await client.get(PATH)
            if (await client.head()).status == 200:
                return client

    await in_time(again())


async def test_what_cannot_be_published_is_refused(topics: Topics) -> None:
    hub = topics.hub(bytes=1000, memory="8KiB", topics=2)
    for wrong in ({"event": "a\nb"}, {"id": "a\rb"}, {"id": ""}, {"key": "\0"}):
        with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
            await hub.publish("news", "x", **wrong)  # type: ignore[arg-type]
    with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
        await hub.publish("news", "x" * 1000)
    with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
        await hub.publish("news", b"\xff")
    with pytest.raises(penstock.ArgumentError, match=r"write json\.dumps"):
        await hub.publish("news", 1)  # type: ignore[arg-type]
    with pytest.raises(penstock.ArgumentError, match="BAD_TOPIC"):
        await hub.publish("", "x")
    await hub.publish("news", "x")
    await hub.publish("more", "x")
    with pytest.raises(penstock.PoolError, match="TOO_MANY_TOPICS"):
        await hub.publish("third", "x")


async def test_history_beyond_the_hubs_memory_is_refused_but_each_topic_goes_on(topics: Topics) -> None:
    hub = topics.hub(memory="8KiB")
    for name in ("one", "two"):
        await hub.publish(name, "x" * 3000)
    with pytest.raises(penstock.PoolError, match="POOL_FULL"):
        await hub.publish("three", "x")
    for _ in range(5):
        await hub.publish("one", "y" * 3000)
    stats = hub.topic_stats("one")
    assert stats is not None
    assert stats.events == 1
    assert hub.stats().used <= 8192


async def test_a_connection_serves_the_next_request_after_a_topic_that_has_ended(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    subscriber = await topics.subscribe(served)
    await hub.publish("news", "x")
    await hub.finish("news")
    assert [event.type for event in await subscriber.rest()] == ["message", "penstock-end"]
    await subscriber.client.get("/events/more")
    assert (await subscriber.client.head()).status == 200
    await hub.finish("more")
    assert (await subscriber.event()).type == "penstock-end"  # type: ignore[union-attr]
    assert await subscriber.event() is None
    assert await drained(subscriber.client) == b""
