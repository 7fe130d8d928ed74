"""A topic that has ended says so, to its subscribers and to clients that come later; it never looks as if it went on."""

import json

import pytest

import penstock
from support.subscribers import PATH, Event, Topics
from support.waiting import until


def is_end(event: Event | None, last: str) -> bool:
    assert event is not None
    return (event.id, event.type, json.loads(event.data)) == (last, "penstock-end", {"last": last})


async def test_subscribers_get_what_is_left_then_the_end(topics: Topics) -> None:
    hub = topics.hub()
    subscriber = await topics.subscribe(await topics.serve(hub))
    for data in ("a", "b"):
        last = await hub.publish("news", data)
    assert await hub.finish("news") is True
    assert await hub.finish("news") is False
    *events, end = await subscriber.rest()
    assert [event.data for event in events] == ["a", "b"]
    assert is_end(end, last)
    with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
        await hub.publish("news", "c")
    stats = hub.topic_stats("news")
    assert stats is not None
    assert stats.finished


async def test_who_has_everything_is_told_to_stay_away(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    last = await hub.publish("news", "a", id="own")
    await hub.finish("news")
    for known in (last, "own"):
        client = await topics.edge.connect(served)
        reply = await client.ask(PATH, f"Last-Event-ID: {known}")
        assert (reply.head.status, reply.head.one("Penstock-Resume")) == (204, "full")
        assert reply.head.one("Content-Type") is None
        # And the connection goes on.
        assert (await client.ask(PATH, f"Last-Event-ID: {known}", method="HEAD")).head.status == 204
    assert (await (await topics.edge.connect(served)).ask(PATH)).head.status == 204, (
        "from now on nothing comes"
    )
    assert hub.stats().subscribers == 0


async def test_who_lacks_something_gets_it_and_the_end(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    first = await hub.publish("news", "a")
    last = await hub.publish("news", "b")
    await hub.finish("news")
    back = await topics.subscribe(served, f"Last-Event-ID: {first}")
    event, end = await back.rest()
    assert (back.resumed, event.data) == ("full", "b")
    assert is_end(end, last)
    back = await topics.subscribe(served, "Last-Event-ID: no-event's")
    gap, *events, end = await back.rest()
    assert (back.resumed, gap.type) == ("gap", "penstock-gap")
    assert [event.data for event in events] == ["a", "b"]
    assert is_end(end, last)


async def test_one_who_comes_anew_gets_the_transcript_where_that_is_what_is_served(topics: Topics) -> None:
    hub = topics.hub()
    last = await hub.publish("news", "a")
    await hub.finish("news")
    await hub.finish("empty")
    served = await topics.serve(hub, join="start")
    event, end = await (await topics.subscribe(served)).rest()
    assert event.data == "a"
    assert is_end(end, last)
    (end,) = await (await topics.subscribe(served, path="/events/empty")).rest()
    # By the id of the end it is known that there is nothing it lacks.
    client = await topics.edge.connect(served)
    assert (await client.ask("/events/empty", f"Last-Event-ID: {end.id}")).head.status == 204
    event, end = await (await topics.subscribe(await topics.serve(hub, join=1))).rest()
    assert event.data == "a"


async def test_after_its_time_the_name_is_a_new_topics(topics: Topics) -> None:
    hub = topics.hub(finished_age=0)
    served = await topics.serve(hub)
    await hub.publish("news", "a")
    await hub.finish("news")
    await until(lambda: "news" not in hub.topics(), "it is forgotten")
    subscriber = await topics.subscribe(served)
    await hub.publish("news", "b")
    assert await subscriber.data(1) == ["b"]
