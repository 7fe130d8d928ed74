"""Several nodes on one Redis: what one publishes comes to all, in one order, with the same ids."""

import asyncio

import pytest

import penstock
from support.subscribers import Event
from support.waiting import until

from .nodes import Nodes


async def test_what_one_publishes_comes_to_the_subscribers_of_all(nodes: Nodes) -> None:
    one, other = await nodes.node(), await nodes.node()
    everyone = [await one.subscribe(), await other.subscribe(), await other.subscribe()]
    first = await one.hub.publish("news", "plain")
    second = await other.hub.publish("news", "two\r\nlines\n", event="kind", retry=1.5)
    await one.hub.publish("news", b"\xc3\xa9", id="my own", key="k")
    for subscriber in everyone:
        assert await subscriber.event() == Event(first, "message", "plain")
        assert await subscriber.event() == Event(second, "kind", "two\nlines\n", 1500)
        assert await subscriber.event() == Event("my own", "message", "é")
    assert one.log.published == 2
    assert one.log.received == other.log.received == 3


async def test_events_of_several_nodes_come_to_all_in_one_order(nodes: Nodes) -> None:
    places = [await nodes.node() for _ in range(3)]
    everyone = [await place.subscribe() for place in places for _ in range(2)]

    async def publish(number: int) -> list[str]:
        return [await places[number].hub.publish("news", f"{number} {count}") for count in range(100)]

    published = await asyncio.gather(*(publish(number) for number in range(3)))
    orders = [[await subscriber.event() for _ in range(300)] for subscriber in everyone]
    assert all(order == orders[0] for order in orders)
    ids = [event.id for event in orders[0] if event is not None]
    assert sorted(ids) == sorted(position for mine in published for position in mine)
    assert all(log.gaps == 0 for log in (place.log for place in places))


async def test_one_who_loses_a_node_resumes_with_another(nodes: Nodes) -> None:
    one, other = await nodes.node(), await nodes.node()
    subscriber = await one.subscribe()
    ids = [await one.hub.publish("news", str(number)) for number in range(10)]
    assert await subscriber.data(4) == ["0", "1", "2", "3"]
    again = await other.subscribe(ids[3])
    assert again.resumed == "full"
    assert await again.data(6) == ["4", "5", "6", "7", "8", "9"]


async def test_an_id_that_has_not_come_here_yet_is_no_gap(nodes: Nodes) -> None:
    """A client may be faster from node to node than an event."""
    one, other = await nodes.node(), await nodes.node()
    here = await other.subscribe()
    for number in range(50):
        position = await one.hub.publish("news", str(number), id=f"own {number}" if number % 2 else None)
        again = await other.subscribe(f"own {number}" if number % 2 else position)
        assert again.resumed == "full"
        again.client.abort()
    assert await here.data(50) == [str(number) for number in range(50)]


async def test_one_who_joins_late_gets_what_was_published_before_this_node_knew(nodes: Nodes) -> None:
    one = await nodes.node()
    ids = [await one.hub.publish("news", str(number)) for number in range(450)]
    other = await nodes.node(join="start")
    subscriber = await other.subscribe()
    assert await subscriber.data(450) == [str(number) for number in range(450)]
    last = await (await nodes.node(join=3)).subscribe()
    assert await last.data(3) == ["447", "448", "449"]
    resumed = await (await nodes.node()).subscribe(ids[440])
    assert resumed.resumed == "full"
    assert await resumed.data(9) == [str(number) for number in range(441, 450)]


async def test_history_is_limited_on_all_nodes(nodes: Nodes) -> None:
    one = await nodes.node(history={"events": 20})
    ids = [await one.hub.publish("news", str(number)) for number in range(500)]
    other = await nodes.node(history={"events": 20}, join="start")
    subscriber = await other.subscribe()
    assert await subscriber.data(20) == [str(number) for number in range(480, 500)]
    # What was the last to leave is known.
    assert (await other.subscribe(ids[479])).resumed == "full"
    assert (await other.subscribe(ids[478])).resumed == "gap"


async def test_an_end_is_an_end_everywhere(nodes: Nodes) -> None:
    one, other = await nodes.node(), await nodes.node()
    everyone = [await one.subscribe(), await other.subscribe()]
    last = await one.hub.publish("news", "last")
    assert await one.hub.finish("news")
    assert not await other.hub.finish("news"), "it has been"
    for subscriber in everyone:
        assert [event.type for event in await subscriber.rest()] == ["message", "penstock-end"]
    for node in (one, other):
        with pytest.raises(penstock.StateError, match="TOPIC_FINISHED"):
            await node.hub.publish("news", "more")
    third = await nodes.node(join="start")
    transcript = await third.subscribe()
    assert [event.data for event in await transcript.rest()] == ["last", f'{{"last": "{last}"}}']


async def test_a_topic_of_the_same_name_begins_anew_when_its_end_is_forgotten(nodes: Nodes) -> None:
    one = await nodes.node(history={"finished_age": 0.05})
    other = await nodes.node(history={"finished_age": 3600.0})
    await one.hub.publish("news", "old")
    late = await other.subscribe()
    await one.hub.finish("news")
    assert [event.type for event in await late.rest()] == ["penstock-end"]

    async def again() -> None:
        while True:
            try:
                await one.hub.publish("news", "new")
            except penstock.StateError:
                await asyncio.sleep(0.01)
            else:
                return

    await asyncio.wait_for(again(), 10)

    def reopened() -> bool:
        stats = other.hub.topic_stats("news")
        return stats is not None and not stats.finished and stats.events == 1

    await until(reopened, "the new topic has come")


async def test_topics_of_any_name_are_kept_apart_and_so_are_hubs_by_their_prefix(nodes: Nodes) -> None:
    one, stranger = await nodes.node(), await nodes.node(log={"prefix": "x:"})
    paths = {"a b": "a%20b", "é": "%C3%A9", "*": "*", "a:b": "a:b", "x" * 512: "x" * 512}
    listening = {name: await one.subscribe(path=f"/events/{path}") for name, path in paths.items()}
    elsewhere = await stranger.subscribe(path="/events/*")
    for name in paths:
        await one.hub.publish(name, name)
    for name, subscriber in listening.items():
        assert await subscriber.data(1) == [name]
    await stranger.hub.publish("*", "mine")
    assert await elsewhere.data(1) == ["mine"]


async def test_topics_that_are_there_nowhere_are_answered_with_404(nodes: Nodes) -> None:
    one, other = await nodes.node(), await nodes.node(open=False)
    await one.hub.publish("news", "x")
    await other.subscribe()
    client = await nodes.connect(other)
    assert (await client.ask("/events/more")).head.status == 404


async def test_an_event_that_cannot_be_published_reaches_no_subscriber(nodes: Nodes, redis: object) -> None:
    one = await nodes.node(history={"bytes": 1000})
    for wrong in ({"event": "a\nb"}, {"id": ""}, {"key": "\0"}):
        with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
            await one.hub.publish("news", "x", **wrong)  # type: ignore[arg-type]
    with pytest.raises(penstock.ArgumentError, match="BAD_EVENT"):
        await one.hub.publish("news", "x" * 1000)
    with pytest.raises(penstock.ArgumentError, match="BAD_TOPIC"):
        await one.hub.publish("a\n", "x")
    with pytest.raises(penstock.ArgumentError, match="BAD_TOPIC"):
        await one.hub.finish("")
    assert one.log.published == 0


async def test_topics_without_references_are_dropped(nodes: Nodes) -> None:
    one, other = await nodes.node(), await nodes.node()
    subscriber = await other.subscribe()
    assert other.log.topics == 1
    subscriber.client.abort()
    await until(lambda: other.log.topics == 0, "it is not followed any more")
    position = await one.hub.publish("news", "x")
    again = await other.subscribe(position)
    assert again.resumed == "full"
    await one.hub.publish("news", "y")
    assert await again.data(1) == ["y"]


async def test_events_are_published_from_any_thread(nodes: Nodes) -> None:
    one = await nodes.node()
    subscriber = await one.subscribe()

    def publish() -> str:
        return asyncio.run(one.hub.publish("news", "from afar"))

    position = await asyncio.to_thread(publish)
    assert await subscriber.event() == Event(position, "message", "from afar")
