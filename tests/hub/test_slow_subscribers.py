"""Who does not keep up is dealt with by policy, and counted; who does is not kept waiting."""

import json

import pytest

from penstock import Hub
from penstock.config import Edge, Subscriptions
from support.edges import Served
from support.subscribers import Event, Subscriber, Topics
from support.waiting import until

from .amounts import DATA, ENOUGH, SMALL


async def stalled(topics: Topics, served: Served) -> Subscriber:
    """A subscriber that reads no further than its head."""
    subscriber = await topics.subscribe(served, receive_buffer=SMALL)
    subscriber.client.writer.transport.pause_reading()
    return subscriber


async def publish(hub: Hub, fast: Subscriber) -> list[str]:
    """Enough to have a stalled subscriber lose its place, and no faster than another one reads."""
    ids = []
    for number in range(ENOUGH):
        ids.append(await hub.publish("news", f"{number} {DATA}", key=str(number % 3)))
        event = await fast.event()
        assert event is not None
        assert event.id == ids[-1]
        if number == 0:
            # An engine thread that gets no turn until the history is full would find nothing to send.
            await until(
                lambda: hub.stats().counts.delivered >= hub.stats().subscribers, "all have had the first one"
            )
    return ids


def go_on(subscriber: Subscriber) -> None:
    subscriber.client.writer.transport.resume_reading()


def numbers(events: list[Event]) -> list[int]:
    assert all(event.data.endswith(DATA) for event in events)
    return [int(event.data.split(" ")[0]) for event in events]


async def test_a_subscriber_that_lost_its_place_is_disconnected_after_a_whole_event(topics: Topics) -> None:
    hub = topics.hub(bytes="512KiB")
    served = await topics.serve(hub)
    slow, fast = await stalled(topics, served), await topics.subscribe(served)
    ids = await publish(hub, fast)
    go_on(slow)
    events = await slow.rest()
    got = numbers(events)
    assert got == list(range(len(got)))
    assert len(got) < ENOUGH - 20
    counts = hub.stats().counts
    assert (counts.slow, counts.gaps) == (1, 0)
    # It comes back by its last id, and hears that what followed has left.
    back = await topics.subscribe(served, f"Last-Event-ID: {ids[got[-1]]}")
    gap = await back.event()
    assert gap is not None
    assert json.loads(gap.data)["after"] == ids[got[-1]]
    assert hub.stats().subscribers == 2


async def test_a_subscriber_with_too_large_a_backlog_is_disconnected(topics: Topics) -> None:
    hub = topics.hub(bytes="32MiB", memory="12MiB", events=100_000)
    served = await topics.serve(hub, behind="1MiB")
    slow, fast = await stalled(topics, served), await topics.subscribe(served)
    ids = await publish(hub, fast)
    go_on(slow)
    got = numbers(await slow.rest())
    assert got == list(range(len(got)))
    assert hub.stats().counts.slow == 1
    # All of it is there: to come back for much is not to be slow.
    back = await topics.subscribe(served, f"Last-Event-ID: {ids[got[-1]]}")
    assert back.resumed == "full"
    rest = [await back.event() for _ in range(ENOUGH - len(got))]
    assert numbers([event for event in rest if event is not None]) == list(range(len(got), ENOUGH))


async def test_one_may_go_on_with_the_oldest_that_is_there(topics: Topics) -> None:
    hub = topics.hub(bytes="512KiB")
    served = await topics.serve(hub, slow="drop-oldest")
    slow, fast = await stalled(topics, served), await topics.subscribe(served)
    ids = await publish(hub, fast)
    await hub.finish("news")
    go_on(slow)
    events = await slow.rest()
    assert events.pop().type == "penstock-end"
    # One gap, or several where its socket took a little more in between.
    last, dropped, gaps = -1, 0, 0
    said = None
    for event in events:
        if event.type == "penstock-gap":
            said = json.loads(event.data)
            gaps += 1
            continue
        (number,) = numbers([event])
        if said is None:
            assert number == last + 1, "nothing is missing without a word"
        else:
            assert said["resumed"] == ids[number - 1]
            assert said["after"] == ids[last]
            dropped += number - last - 1
        last, said = number, None
    assert last == ENOUGH - 1
    counts = hub.stats().counts
    assert (counts.slow, counts.gaps, counts.dropped) == (0, gaps, dropped)
    assert dropped > 20


async def test_one_may_get_only_the_newest_of_each_key(topics: Topics) -> None:
    hub = topics.hub(bytes="16MiB", memory="12MiB", events=100_000)
    served = await topics.serve(hub, slow="newest-per-key")
    slow, fast = await stalled(topics, served), await topics.subscribe(served)
    await publish(hub, fast)
    for number in range(2):
        await hub.publish("news", f"{ENOUGH + number} {DATA}")
    await hub.finish("news")
    go_on(slow)
    events = await slow.rest()
    assert events.pop().type == "penstock-end"
    got = numbers(events)
    assert got == sorted(set(got))
    # At last the newest of each of three keys, and what has no key.
    assert got[-5:] == list(range(ENOUGH - 3, ENOUGH + 2))
    assert hub.stats().counts.conflated == ENOUGH + 2 - len(got) > 20


async def test_one_that_takes_nothing_is_cut_off_by_the_edge(topics: Topics) -> None:
    hub = topics.hub(bytes="512KiB")
    route = hub.native("/events/", subscriptions=Subscriptions())
    served = await topics.edge.serve([route], edge=Edge(write_timeout=0.2))
    slow, fast = await stalled(topics, served), await topics.subscribe(served)
    await publish(hub, fast)
    await until(lambda: hub.stats().subscribers == 1, "it is cut off")
    await hub.publish("news", "still")
    assert await fast.data(1) == ["still"]
    go_on(slow)
    with pytest.raises(ConnectionResetError):
        await slow.client.rest()
