"""Topics of a Kafka that hubs follow: what is there comes once, in order, with the same ids from every hub."""

import asyncio
import sys
from typing import Any

import pytest

import penstock
from penstock import Hub, KafkaLog
from penstock.testing import ScriptedOrigin
from support.edges import Edges
from support.origins import Model
from support.subscribers import Event, Subscriber

from .kafka_nodes import Kafka, KafkaNodes


async def gap(subscriber: Subscriber) -> Event:
    event = await subscriber.event()
    assert event is not None
    assert event.type == "penstock-gap", event
    return event


async def test_what_is_written_comes_to_the_subscribers_of_all(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    typed = {"type_header": "kind"}
    one, other = await kafka_nodes.node(topic, log=typed), await kafka_nodes.node(topic)
    here, there = await one.subscribe(path=path), await other.subscribe(path=path)
    await kafka.send(topic, "plain", "two\nlines\n")
    await kafka.send(
        topic, "typed é", key=b"\x00\xff", headers=[("kind", b"x"), ("kind", b"goal"), ("more", b"")]
    )
    await kafka.send(topic, "with a \0", headers=[("kind", b"")])
    said = [("0:0", "plain"), ("0:1", "two\nlines\n"), ("0:2", "typed é"), ("0:3", "with a \0")]
    for subscriber, kinds in ((here, ["message", "message", "goal", "message"]), (there, ["message"] * 4)):
        expected = [Event(name, kind, data) for (name, data), kind in zip(said, kinds, strict=True)]
        assert [await subscriber.event() for _ in said] == expected
    stats = one.hub.topic_stats(f"{topic}/0")
    assert stats is not None
    assert (stats.newest, stats.floor, stats.events) == ("0:3", "0:-1", 4)
    assert (one.log.received, one.log.gaps, one.log.state, one.log.error) == (4, 0, "ready", None)


async def test_partitions_are_topics_of_their_own(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic, other = await kafka.topic(partitions=3), await kafka.topic()
    node = await kafka_nodes.node(topic, other)
    places = [(topic, 0), (topic, 1), (topic, 2), (other, 0)]
    everyone = [await node.subscribe(path=f"/events/{name}/{partition}") for name, partition in places]
    for number in range(20):
        for name, partition in places:
            await kafka.send(name, f"{name} {partition} {number}", partition=partition)
    for (name, partition), subscriber in zip(places, everyone, strict=True):
        events = [await subscriber.event() for _ in range(20)]
        expected = [
            Event(f"{partition}:{number}", "message", f"{name} {partition} {number}") for number in range(20)
        ]
        assert events == expected
    assert node.log.gaps == 0
    again = await node.subscribe("1:9", path=f"/events/{topic}/1")
    assert again.resumed == "full"
    assert (await again.data(1)) == [f"{topic} 1 10"]
    # The id of another partition is not an id of this one.
    assert (await node.subscribe("1:9", path=f"/events/{topic}/2")).resumed == "gap"


async def test_one_who_loses_a_node_resumes_with_another(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    one = await kafka_nodes.node(topic)
    subscriber = await one.subscribe(path=path)
    await kafka.send(topic, *map(str, range(10)))
    assert await subscriber.data(4) == ["0", "1", "2", "3"]
    other = await kafka_nodes.node(topic)
    again = await other.subscribe("0:3", path=path)
    assert again.resumed == "full"
    assert await again.data(6) == ["4", "5", "6", "7", "8", "9"]
    late = await (await kafka_nodes.node(topic, join="start")).subscribe(path=path)
    assert await late.data(10) == [str(number) for number in range(10)]
    few = await (await kafka_nodes.node(topic, history={"events": 3}, join="start")).subscribe(path=path)
    assert await few.data(3) == ["7", "8", "9"]
    await kafka.send(topic, "10")
    for each in (again, late, few):
        assert await each.data(1) == ["10"]


async def test_an_id_that_has_not_come_here_yet_is_no_gap(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    """A client may be faster from node to node than an event."""
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    node = await kafka_nodes.node(topic)
    here = await node.subscribe(path=path)
    for number in range(30):
        (offset,) = await kafka.send(topic, str(number))
        again = await node.subscribe(f"0:{offset}", path=path)
        assert again.resumed == "full"
        again.client.abort()
    assert await here.data(30) == [str(number) for number in range(30)]


async def test_history_is_limited_by_count_bytes_and_age(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    await kafka.send(topic, *("x" * 1000 for _ in range(20)))
    for kept, first in (
        ({"events": 5}, 15),
        ({"bytes": 4000}, 17),
        ({"age": 3600.0}, 0),
        ({"age": 1e-9}, 20),
    ):
        node = await kafka_nodes.node(topic, history=kept, join="start")
        await node.subscribe(path=path)
        stats = node.hub.topic_stats(f"{topic}/0")
        assert stats is not None
        assert (stats.events, stats.floor) == (20 - first, f"0:{first - 1}"), kept
    assert (await node.subscribe("0:18", path=path)).resumed == "gap"
    assert (await node.subscribe("0:19", path=path)).resumed == "full"


async def test_marks_of_transactions_are_no_gaps_and_what_was_given_up_never_was(
    kafka: Kafka, kafka_nodes: KafkaNodes
) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    one = await kafka_nodes.node(topic)
    subscriber = await one.subscribe(path=path)
    await kafka.send(topic, "a")
    await kafka.transaction(topic, "b", "c")
    await kafka.transaction(topic, "not", "these", whole=False)
    (last,) = await kafka.send(topic, "d")
    # Between the two lies what was given up, and marks, which come when they come.
    expected = [("0:0", "a"), ("0:1", "b"), ("0:2", "c"), (f"0:{last}", "d")]
    events = [await subscriber.event() for _ in expected]
    assert [(event.id, event.data) for event in events if event is not None] == expected
    other = await kafka_nodes.node(topic, join="start")
    whole = await other.subscribe(path=path)
    events = [await whole.event() for _ in expected]
    assert [(event.id, event.data) for event in events if event is not None] == expected
    for after in ("0:2", "0:3", f"0:{last - 1}"):
        again = await other.subscribe(after, path=path)
        assert again.resumed == "full"
        assert await again.data(1) == ["d"]
    assert one.log.gaps == other.log.gaps == 0


async def test_what_is_open_in_a_transaction_comes_when_it_is_whole(
    kafka: Kafka, kafka_nodes: KafkaNodes
) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    await kafka.send(topic, "a")
    producer = await kafka.begun(topic, "b")
    node = await kafka_nodes.node(topic, join="start")
    subscriber = await node.subscribe(path=path)
    assert await subscriber.data(1) == ["a"]
    await kafka.send(topic, "c")
    await producer.commit_transaction()
    assert await subscriber.data(2) == ["b", "c"]
    assert node.log.gaps == 0


# The broker compacts when it likes.
@pytest.mark.timeout(300)
async def test_what_was_compacted_away_is_no_gap(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    settings = {"cleanup_policy": "compact", "segment_ms": "50", "min_cleanable_dirty_ratio": "0.01"}
    topic = await kafka.topic(**settings)
    path = f"/events/{topic}/0"
    await kafka.send(topic, *(f"old {number}" for number in range(10)), key=b"k")
    before = await kafka.records(topic)

    async def compacted() -> list[tuple[str, str]]:
        # What is written to last is never compacted, so that more has to come.
        while (there := await kafka.records(topic))[0] == before[0]:
            await kafka.send(topic, "more", key=b"k")
        return there

    there = await asyncio.wait_for(compacted(), 200)
    node = await kafka_nodes.node(topic, join="start")
    subscriber = await node.subscribe(path=path)
    events: list[tuple[str | None, str]] = []
    # More may have gone since, but for the newest.
    while not events or events[-1] != there[-1]:
        event = await subscriber.event()
        assert event is not None
        events.append((event.id, event.data))
    left = [pair for pair in there if pair in events]
    assert events == left
    # The offset of a record that has left, from a client that had it before.
    offsets = [int(name.removeprefix("0:")) for name, _ in left]
    for hole in sorted(set(range(offsets[0], offsets[-1])) - set(offsets))[:3]:
        assert (await node.subscribe(f"0:{hole}", path=path)).resumed == "full"
    assert node.log.gaps == 0


async def test_what_is_no_text_is_a_gap_and_what_has_no_value_is_nothing(
    kafka: Kafka, kafka_nodes: KafkaNodes
) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    node = await kafka_nodes.node(topic, log={"type_header": "kind"})
    subscriber = await node.subscribe(path=path)
    # One by one: a subscriber that has not been sent what is before a gap is cut off when it comes.
    await kafka.send(topic, "a", None, "", key=b"k")
    assert await subscriber.data(2) == ["a", ""]
    await kafka.send(topic, b"\xff\x00binary", key=b"k")
    assert (await gap(subscriber)).data == '{"after": "0:2", "resumed": "0:3"}'
    await kafka.send(topic, "b")
    assert await subscriber.event() == Event("0:4", "message", "b")
    for place, kind in ((5, b"two\nlines"), (6, b"\xff")):
        await kafka.send(topic, "c", headers=[("kind", kind)])
        assert (await gap(subscriber)).id == f"0:{place}"
    await kafka.send(topic, "e")
    assert await subscriber.event() == Event("0:7", "message", "e")
    # A node that loads it anew begins after the last of these.
    other = await kafka_nodes.node(topic, log={"type_header": "kind"}, join="start")
    assert await (await other.subscribe(path=path)).event() == Event("0:7", "message", "e")


async def test_huge_events_come_and_what_no_history_holds_is_a_gap(
    kafka: Kafka, kafka_nodes: KafkaNodes
) -> None:
    topic = await kafka.topic(max_message_bytes=str(8 << 20))
    path = f"/events/{topic}/0"
    small, large = await kafka_nodes.node(topic), await kafka_nodes.node(topic, history={"bytes": "6MiB"})
    here, there = await small.subscribe(path=path), await large.subscribe(path=path)
    huge = "x" * (3 << 20)
    await kafka.send(topic, "a")
    for subscriber in (here, there):
        assert await subscriber.data(1) == ["a"]
    await kafka.send(topic, huge, "b")
    assert (await gap(here)).id == "0:1"
    assert await there.event() == Event("0:1", "message", huge)
    for subscriber in (here, there):
        assert await subscriber.event() == Event("0:2", "message", "b")
    late = await (await kafka_nodes.node(topic, history={"bytes": "6MiB"})).subscribe("0:0", path=path)
    assert late.resumed == "full"
    assert await late.data(2) == [huge, "b"]


async def test_keys_are_conflated_by(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    for number in range(10):
        for key in (b"one", b"\xff", b""):
            await kafka.send(topic, f"{key!r} {number}", key=key)
    await kafka.send(topic, "none")
    node = await kafka_nodes.node(topic, join="start", slow="newest-per-key")
    subscriber = await node.subscribe(path=path)
    assert await subscriber.data(4) == ["b'one' 9", "b'\\xff' 9", "b'' 9", "none"]


async def test_what_retention_has_passed_is_a_gap(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    await kafka.send(topic, *map(str, range(10)))
    await kafka.forget(topic, 5)
    node = await kafka_nodes.node(topic, join="start")
    assert await (await node.subscribe(path=path)).data(5) == ["5", "6", "7", "8", "9"]
    back = await node.subscribe("0:2", path=path)
    assert back.resumed == "gap"
    assert (await gap(back)).data == '{"after": "0:2", "resumed": "0:4"}'
    assert (await node.subscribe("0:4", path=path)).resumed == "full"


async def test_a_partition_of_which_all_has_gone_is_a_gap_for_who_comes_back_later(
    kafka: Kafka, kafka_nodes: KafkaNodes
) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    await kafka.send(topic, *map(str, range(10)))
    await kafka.forget(topic, 10)
    node = await kafka_nodes.node(topic, join="start")
    subscriber = await node.subscribe(path=path)
    assert (await node.subscribe("0:8", path=path)).resumed == "gap"
    assert (await node.subscribe("0:9", path=path)).resumed == "full"
    await kafka.send(topic, "10")
    assert await subscriber.event() == Event("0:10", "message", "10")


async def test_a_topic_that_may_not_be_read_is_not_found(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic, secret, missing = await kafka.topic(), await kafka.topic(), Kafka.name()
    node = await kafka_nodes.node(topic, missing)
    for path in (
        topic,
        f"{topic}/1",
        f"{topic}/00",
        f"{topic}/-1",
        f"{topic}/{10**9}",
        f"{secret}/0",
        f"{missing}/0",
    ):
        client = await kafka_nodes.connect(node)
        assert (await client.ask(f"/events/{path}")).head.status == 404, path
    assert node.log.state == "ready"
    with pytest.raises(penstock.PenstockError, match="UNKNOWN_TOPIC"):
        await node.hub.subscribe(f"{secret}/0")


async def test_a_topic_that_is_made_later_is_there(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    name = Kafka.name()
    node = await kafka_nodes.node(name, join="start")
    client = await kafka_nodes.connect(node)
    assert (await client.ask(f"/events/{name}/0")).head.status == 404
    await kafka.topic(name)
    await kafka.send(name, "a")

    async def there() -> Subscriber:
        while True:
            client = await kafka_nodes.connect(node)
            await client.get(f"/events/{name}/0")
            head = await client.head()
            if head.status == 200:
                return Subscriber(client, head)
            assert head.status == 404

    subscriber = await asyncio.wait_for(there(), 20)
    assert await subscriber.data(1) == ["a"]


async def test_a_topic_that_is_made_anew_is_a_gap(kafka: Kafka, kafka_nodes: KafkaNodes) -> None:
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    node = await kafka_nodes.node(topic, log={"timeout": 2.0})
    subscriber = await node.subscribe(path=path)
    await kafka.send(topic, "a", "b", "c")
    assert await subscriber.data(3) == ["a", "b", "c"]
    await (await kafka.admin()).delete_topics([topic])
    assert (await gap(subscriber)).data == '{"after": "0:2", "resumed": "0-0"}'

    async def again() -> None:
        # Deleting takes its time.
        while topic in await (await kafka.admin()).list_topics():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(again(), 20)
    await kafka.topic(topic)
    await kafka.send(topic, "new")
    while (event := await subscriber.event()) is not None and event.type == "penstock-gap":
        pass
    assert event == Event("0:0", "message", "new")


async def test_nothing_is_published_to_kafka_by_a_hub(
    kafka: Kafka, kafka_nodes: KafkaNodes, edge: Edges
) -> None:
    topic = await kafka.topic()
    node = await kafka_nodes.node(topic)
    hub, model = node.hub, Model()
    with pytest.raises(penstock.ConfigurationError, match="publishes nothing"):
        await hub.publish(f"{topic}/0", "x")
    with pytest.raises(penstock.ConfigurationError, match="publishes nothing"):
        await hub.finish(f"{topic}/0")
    async with ScriptedOrigin(model) as origin, edge.engine.get(origin.url) as response:
        with pytest.raises(penstock.ConfigurationError, match="publishes nothing"):
            await hub.feed(f"{topic}/0", response)
        model.end()
    assert await kafka.records(topic) == []


async def test_settings_are_checked_and_what_is_needed_is_named(
    engine: penstock.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good: dict[str, Any] = {"servers": "localhost:9092", "topics": ["a"]}
    wrongs: list[dict[str, Any]] = [
        {"servers": ""},
        {"servers": "a:1,"},
        {"topics": []},
        {"topics": "a"},
        {"topics": ["a/b"]},
        {"topics": [""]},
        {"type_header": ""},
        {"timeout": 0},
        {"longest_wait": -1},
        {"connection": {"bootstrap_servers": "elsewhere"}},
    ]
    for wrong in wrongs:
        with pytest.raises(penstock.ConfigurationError):
            KafkaLog(**{**good, **wrong})
    secret = KafkaLog(**good, connection={"sasl_plain_password": "secret"})
    assert "secret" not in repr(secret)
    with pytest.raises(penstock.ConfigurationError) as raised:
        KafkaLog(**good, connection={"password": "secret"})
    assert "secret" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "penstock.log.kafka_source", None)
    with pytest.raises(penstock.ConfigurationError, match=r"penstock\[kafka\]"):
        Hub(engine=engine, log=KafkaLog(**good))
