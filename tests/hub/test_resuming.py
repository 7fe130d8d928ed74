"""Who comes back gets what it lacks without loss or repeat, or is told that this cannot be shown."""

import asyncio
import json
import random
import threading

from support.subscribers import PATH, Event, Topics
from support.waiting import until

EVENTS = 1500


def gap(event: Event | None) -> tuple[str | None, str]:
    """What a gap event says, which must move the client's last id to where it went on."""
    assert event is not None
    assert event.type == "penstock-gap"
    said = json.loads(event.data)
    assert set(said) == {"after", "resumed"}
    assert event.id == said["resumed"]
    return said["after"], said["resumed"]


async def test_what_followed_is_delivered_and_then_what_comes(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    ids = [await hub.publish("news", str(number)) for number in range(5)]
    for number, last in enumerate(ids):
        back = await topics.subscribe(served, f"Last-Event-ID: {last}")
        assert back.resumed == "full"
        assert await back.data(4 - number) == [str(later) for later in range(number + 1, 5)]
    await hub.publish("news", "5")
    assert await back.data(1) == ["5"]
    counts = hub.stats().counts
    assert (counts.resumed, counts.gaps) == (5, 0)


async def test_the_query_says_it_as_well_and_the_field_says_it_later(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    ids = [await hub.publish("news", data, id=f"é {data}") for data in ("a", "b", "c")]
    assert ids[0] != "é a"
    for query in ("lastEventId=%C3%A9%20a", "x=1&last-event-id=%C3%A9+a"):
        back = await topics.subscribe(served, path=f"{PATH}?{query}")
        assert (back.resumed, await back.data(2)) == ("full", ["b", "c"])
    back = await topics.subscribe(served, f"Last-Event-ID: {ids[1]}", path=f"{PATH}?lastEventId={ids[0]}")
    assert (back.resumed, await back.data(1)) == ("full", ["c"])
    fresh = await topics.subscribe(served, "Last-Event-ID:", path=f"{PATH}?lastEventId=")
    assert fresh.resumed is None


async def test_who_lacks_what_has_left_is_told_of_the_gap_once(topics: Topics) -> None:
    hub = topics.hub(events=3)
    served = await topics.serve(hub)
    ids = [await hub.publish("news", str(number)) for number in range(5)]
    # The newest that has left is the floor: nothing is missing after it.
    back = await topics.subscribe(served, f"Last-Event-ID: {ids[1]}")
    assert (back.resumed, await back.data(3)) == ("full", ["2", "3", "4"])
    back = await topics.subscribe(served, f"Last-Event-ID: {ids[0]}")
    assert back.resumed == "gap"
    after, resumed = gap(await back.event())
    assert (after, resumed) == (ids[0], ids[1])
    assert await back.data(3) == ["2", "3", "4"]
    again = await topics.subscribe(served, f"Last-Event-ID: {resumed}")
    assert (again.resumed, await again.data(3)) == ("full", ["2", "3", "4"])
    assert hub.stats().counts.gaps == 1


async def test_an_id_that_is_not_known_is_a_gap_before_all_that_is_there(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, retry=1)
    last = await hub.publish("news", "a")
    beginning = hub.topic_stats("news")
    assert beginning is not None
    milliseconds = int(last.split("-")[0])
    for unknown in ("no-event's", f"{milliseconds + 100_000}-0", "1-0", '"\\ <&>', last + "0"):
        back = await topics.subscribe(served, f"Last-Event-ID: {unknown}")
        assert back.resumed == "gap"
        assert await back.client.reader.readuntil(b"\r\n") != b"0\r\n"
        text = await back.client.reader.readuntil(b"\n\n")
        assert text == b"retry: 1000\n\n"
        said = (await back.client.reader.readuntil(b"\n\n")).decode()
        assert said.startswith(f"id: {beginning.floor}\nevent: penstock-gap\ndata: ")
        assert json.loads(said.split("data: ")[1]) == {"after": unknown, "resumed": beginning.floor}
        await back.client.reader.readexactly(2)
        assert await back.data(1) == ["a"]


async def test_an_id_in_another_encoding_than_utf_8_is_none_that_is_known(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub)
    await hub.publish("news", "a")
    back = await topics.subscribe(served, "Last-Event-ID: \xff")
    assert gap(await back.event())[0] == "\ufffd"


async def test_a_topic_that_aged_out_and_begins_anew_says_so_to_those_of_its_former_life(
    topics: Topics,
) -> None:
    hub = topics.hub(age=0.05)
    served = await topics.serve(hub)
    last = await hub.publish("news", "a")
    await until(lambda: "news" not in hub.topics(), "it is dropped")
    back = await topics.subscribe(served, f"Last-Event-ID: {last}")
    assert back.resumed == "gap"
    assert gap(await back.event())[0] == last


async def test_many_that_come_and_go_get_every_event_once_and_in_order(topics: Topics) -> None:
    """While a thread publishes, some leave with events on their way, some by a reset, and come back at once."""
    hub = topics.hub(events=100_000)
    served = await topics.serve(hub)
    chance = random.Random(7)

    def publish() -> None:
        for number in range(EVENTS):
            asyncio.run(hub.publish("news", str(number)))

    async def read(seed: int) -> list[int]:
        chance = random.Random(seed)
        seen: list[int] = []
        last = beginning
        while len(seen) < EVENTS:
            subscriber = await topics.subscribe(served, f"Last-Event-ID: {last}")
            assert subscriber.resumed == "full"
            for _ in range(min(chance.randrange(1, 200), EVENTS - len(seen))):
                event = await subscriber.event()
                assert event is not None
                assert event.id is not None
                seen.append(int(event.data))
                last = event.id
            if chance.random() < 0.5:
                subscriber.client.reset()
            else:
                subscriber.client.abort()
        return seen

    beginning = await hub.publish("news", "before all")
    publisher = threading.Thread(target=publish)
    reading = [asyncio.create_task(read(chance.randrange(1 << 30))) for _ in range(20)]
    publisher.start()
    for seen in await asyncio.gather(*reading):
        assert seen == list(range(EVENTS))
    await asyncio.to_thread(publisher.join)
    assert hub.stats().counts.gaps == 0
