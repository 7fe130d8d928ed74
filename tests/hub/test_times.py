"""Heartbeats, ages and limits of subscriptions."""

import pytest

import penstock
from penstock.config import Subscriptions
from support.subscribers import PATH, Event, Topics, parse
from support.waiting import in_time, until

COMMENT = b":\n\n"


async def test_a_quiet_subscription_gets_comments_and_events_as_they_come(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, heartbeat=0.02)
    everyone = [await topics.subscribe(served) for _ in range(5)]
    for number in range(3):
        for subscriber in everyone:
            assert await in_time(subscriber.client.chunk()) == COMMENT
        await hub.publish("news", str(number))
        for subscriber in everyone:
            while (chunk := await in_time(subscriber.client.chunk())) == COMMENT:
                pass
            assert parse(chunk).data == str(number)
    await until(lambda: hub.stats().counts.delivered == 15, "all are counted")


async def test_a_client_of_http_1_0_gets_comments_too(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, heartbeat=0.02)
    client = await topics.edge.connect(served)
    await client.get(PATH, version="1.0")
    await client.head()
    for _ in range(3):
        assert await in_time(client.reader.readexactly(3)) == COMMENT
    last = await hub.publish("news", "a")
    text = await in_time(client.reader.readuntil(b"data: a\n\n"))
    assert text.replace(COMMENT, b"") == f"id: {last}\ndata: a\n\n".encode()


async def test_a_subscription_ends_with_its_age_and_is_taken_up_again(topics: Topics) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, max_age=0.2, join="start")
    subscriber = await topics.subscribe(served)
    last = await hub.publish("news", "a")
    events = await subscriber.rest()
    assert events == [Event(last, "message", "a")]
    await hub.publish("news", "b")
    # On the same connection: the end was a clean one.
    await subscriber.client.get(PATH, f"Last-Event-ID: {last}")
    assert (await in_time(subscriber.client.head())).one("Penstock-Resume") == "full"
    assert await subscriber.data(1) == ["b"]
    assert await subscriber.rest() == []
    await until(lambda: hub.stats().subscribers == 0, "it has left")


@pytest.mark.parametrize("limit", ["per_topic", "per_address", "most"])
async def test_no_more_subscribe_than_may(topics: Topics, limit: str) -> None:
    hub = topics.hub()
    served = await topics.serve(hub, **{limit: 2})
    first, _ = [await topics.subscribe(served) for _ in range(2)]
    client = await topics.edge.connect(served)
    reply = await client.ask(PATH)
    assert (reply.head.status, reply.head.one("Retry-After")) == (429, "1")
    assert b"TOO_MANY_REQUESTS" in reply.body
    other = await topics.edge.connect(served)
    await other.get("/events/other")
    assert (await other.head()).status == (200 if limit == "per_topic" else 429)
    other.abort()
    first.client.abort()
    await until(lambda: hub.stats().subscribers == 1, "they have left")
    await topics.subscribe(served)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("join", True),
        ("join", "later"),
        ("join", -1),
        ("slow", "wait"),
        ("behind", 0),
        ("heartbeat", 0),
        ("max_age", -1.0),
        ("per_topic", 0),
        ("open", 1),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(penstock.ConfigurationError, match=f"Subscriptions.{field}"):
        Subscriptions(**{field: value})  # type: ignore[arg-type]
