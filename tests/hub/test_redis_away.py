"""Redis that dies, hangs, forgets or refuses: what was confirmed comes once and in order, or a gap is announced."""

import asyncio
import sys
import time

import pytest

import penstock
from penstock import Hub, RedisLog
from support.brokers.redis_server import RedisServer
from support.edges import Edges
from support.subscribers import Event, Subscriber
from support.waiting import until

from .nodes import Nodes


async def gap(subscriber: Subscriber) -> Event:
    event = await subscriber.event()
    assert event is not None
    assert event.type == "penstock-gap", event
    return event


async def refused(hub: Hub) -> penstock.ConnectionFailedError:
    with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE") as raised:
        await hub.publish("news", "refused")
    assert raised.value.retryable
    return raised.value


async def test_publishing_fails_while_redis_is_away_and_nothing_is_lost(
    nodes: Nodes, redis: RedisServer
) -> None:
    one, other = await nodes.node(), await nodes.node()
    everyone = [await one.subscribe(), await other.subscribe()]
    await one.hub.publish("news", "before")
    redis.kill()
    await one.until_away()
    await refused(one.hub)
    with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE"):
        await one.hub.finish("news")
    assert one.log.error is not None
    await redis.start()
    await one.until_ready()
    await other.until_ready()
    await other.hub.publish("news", "behind")
    for subscriber in everyone:
        assert await subscriber.data(2) == ["before", "behind"]
    assert one.log.connections == 2
    assert (one.log.refused, one.log.gaps, one.log.error) == (2, 0, None)


async def test_what_is_published_while_a_node_is_cut_off_comes_when_it_is_back(
    nodes: Nodes, redis: RedisServer
) -> None:
    kept = {"events": 2000}
    one, other = await nodes.node(history=kept), await nodes.node(history=kept, log={"url": redis.second_url})
    subscriber = await one.subscribe()
    await other.hub.publish("news", "0")
    redis.cut_off()
    await one.until_away()
    await other.until_ready()
    for number in range(1, 1200):
        await other.hub.publish("news", str(number))
    redis.let_in()
    await one.until_ready()
    await other.hub.publish("news", "1200")
    assert await subscriber.data(1201) == [str(number) for number in range(1201)]
    assert one.log.gaps == 0


async def test_a_redis_stream_that_was_trimmed_past_a_node_is_a_gap(nodes: Nodes, redis: RedisServer) -> None:
    one, other = await nodes.node(), await nodes.node(log={"url": redis.second_url})
    subscriber = await one.subscribe()
    first = await other.hub.publish("news", "first")
    assert await subscriber.data(1) == ["first"]
    redis.cut_off()
    await one.until_away()
    await other.until_ready()
    ids = [await other.hub.publish("news", str(number)) for number in range(10)]
    redis.call("XTRIM", "penstock:news", "MAXLEN", 4)
    redis.let_in()
    announced = await gap(subscriber)
    assert announced.data == f'{{"after": "{first}", "resumed": "{ids[5]}"}}'
    assert announced.id == ids[5]
    assert await subscriber.data(4) == ["6", "7", "8", "9"]
    assert one.log.gaps == 1
    assert (await one.subscribe(first)).resumed == "gap"
    assert (await one.subscribe(ids[5])).resumed == "full"


async def test_a_redis_that_lost_its_data_is_a_gap(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node()
    subscriber = await one.subscribe()
    await one.hub.publish("news", "lost")
    assert await subscriber.data(1) == ["lost"]
    redis.kill()
    redis.forget()
    await redis.start()
    announced = await gap(subscriber)
    assert announced.id == "0-0"
    position = await one.hub.publish("news", "new")
    assert await subscriber.event() == Event(position, "message", "new")


async def test_a_redis_that_is_emptied_is_a_gap(nodes: Nodes, redis: RedisServer) -> None:
    one, other = await nodes.node(), await nodes.node()
    everyone = [await one.subscribe(), await other.subscribe()]
    old = await one.hub.publish("news", "old")
    for subscriber in everyone:
        assert await subscriber.data(1) == ["old"]
    redis.call("FLUSHALL")
    position = await one.hub.publish("news", "new")
    for subscriber in everyone:
        assert (await gap(subscriber)).data == f'{{"after": "{old}", "resumed": "0-0"}}'
        assert await subscriber.event() == Event(position, "message", "new")
    assert (await other.subscribe(old)).resumed == "gap"
    assert (await other.subscribe(position)).resumed == "full"


async def test_a_redis_whose_clock_went_back_with_its_data_is_a_gap(nodes: Nodes, redis: RedisServer) -> None:
    """As a replica that took over from one whose clock was ahead."""
    one = await nodes.node()
    redis.call("XADD", "penstock:news", "99999999999999-0", "before", "0-0", "event", "{}\nfar")
    subscriber = await one.subscribe()
    await one.hub.publish("news", "ahead")
    assert await subscriber.data(1) == ["ahead"]
    redis.call("FLUSHALL")
    position = await one.hub.publish("news", "back")
    assert int(position.split("-")[0]) < 99999999999999
    assert (await gap(subscriber)).id == "0-0"
    assert await subscriber.event() == Event(position, "message", "back")


async def test_a_message_that_a_channel_has_lost_is_read_from_the_stream(
    nodes: Nodes, redis: RedisServer
) -> None:
    one = await nodes.node()
    subscriber = await one.subscribe()
    first = await one.hub.publish("news", "first")
    lost = redis.call("XADD", "penstock:news", "*", "before", first, "event", "{}\nlost").decode()
    last = await one.hub.publish("news", "last")
    events = [await subscriber.event() for _ in range(3)]
    assert [event.id for event in events if event is not None] == [first, lost, last]
    assert one.log.gaps == 0


async def test_what_is_no_event_is_a_gap(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node()
    subscriber = await one.subscribe()
    await one.hub.publish("news", "first")
    # A subscriber that has not got it before the gap ends, and resumes.
    assert await subscriber.data(1) == ["first"]
    redis.call("PUBLISH", "0:penstock:news", "what else")
    strange = redis.call("XADD", "penstock:news", "*", "what", "else").decode()
    await one.hub.publish("news", "last")
    assert (await gap(subscriber)).id == strange
    assert await subscriber.data(1) == ["last"]
    # A node that loads it anew begins after that.
    other = await nodes.node(join="start")
    assert await (await other.subscribe()).data(1) == ["last"]


async def test_events_are_delivered_alone_where_that_is_asked_for_and_a_gap_follows(
    nodes: Nodes, redis: RedisServer
) -> None:
    one, other = await nodes.node(log={"away": "deliver"}), await nodes.node()
    here, there = await one.subscribe(), await other.subscribe()
    before = await one.hub.publish("news", "before")
    assert await here.data(1) == ["before"]
    redis.kill()
    await one.until_away()
    assert await one.hub.publish("news", "alone", id="not used") == ""
    assert await one.hub.publish("without subscribers", "alone") == ""
    assert await here.event() == Event(None, "message", "alone")
    # It comes back with the last id that it had.
    again = await one.subscribe(before)
    assert again.resumed == "full"
    await redis.start()
    for subscriber in (here, again):
        assert (await gap(subscriber)).id == before
    await other.until_ready()
    await one.until_ready()
    await one.hub.publish("news", "behind")
    for subscriber in (here, again):
        assert await subscriber.data(1) == ["behind"]
    assert await there.data(2) == ["before", "behind"]
    assert one.log.delivered == 2
    assert (await one.subscribe(before)).resumed == "full"


async def test_a_redis_that_hangs_is_away(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node(log={"timeout": 0.5})
    subscriber = await one.subscribe()
    await one.hub.publish("news", "before")
    redis.stop()
    # Nothing is published, and it is noticed all the same.
    await one.until_away()
    await refused(one.hub)
    redis.go_on()
    await one.until_ready()
    await one.hub.publish("news", "behind")
    assert await subscriber.data(2) == ["before", "behind"]


async def test_an_event_that_a_hanging_redis_did_not_confirm_may_come(
    nodes: Nodes, redis: RedisServer
) -> None:
    one = await nodes.node(log={"timeout": 0.5})
    subscriber = await one.subscribe()
    redis.stop()
    await refused(one.hub)
    await one.until_away()
    redis.go_on()
    await one.until_ready()
    await one.hub.publish("news", "behind")
    event = await subscriber.event()
    assert event is not None
    if event.data == "refused":
        event = await subscriber.event()
    assert event is not None
    assert event.data == "behind"


async def test_a_hub_is_left_while_redis_hangs(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node()
    await one.subscribe()
    redis.stop()
    publishing = asyncio.create_task(one.hub.publish("news", "x"))
    # It goes as far as it can.
    await asyncio.sleep(0)
    assert one.log.state == "ready"
    await one.leave()
    with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE"):
        await publishing
    redis.go_on()


async def test_a_wrong_password_is_told_and_put_right(nodes: Nodes, redis: RedisServer) -> None:
    redis.call("CONFIG", "SET", "requirepass", "right")
    one = await nodes.node(log={"url": f"{redis.url}?password=wrong"})
    error = await refused(one.hub)
    assert "invalid username-password" in error.detail
    assert "wrong" not in (one.log.error or "").replace("wrong password", "").replace("WRONGPASS", "")
    redis.call("CONFIG", "SET", "requirepass", "wrong", password="right")
    await one.until_ready()
    await one.hub.publish("news", "x")


async def test_a_redis_that_refuses_writes_is_told(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node()
    subscriber = await one.subscribe()
    redis.call("CONFIG", "SET", "maxmemory", "1")
    error = await refused(one.hub)
    assert "maxmemory" in error.detail
    assert one.log.state == "ready"
    redis.call("CONFIG", "SET", "maxmemory", "0")
    await one.hub.publish("news", "x")
    assert await subscriber.data(1) == ["x"]


async def test_subscribers_are_let_in_before_redis_is_there_and_told_of_a_gap(
    nodes: Nodes, redis: RedisServer
) -> None:
    writer = await nodes.node()
    last = await writer.hub.publish("news", "before")
    redis.kill()
    one = await nodes.node(join="start")
    assert one.log.state == "away"
    subscriber, again = await one.subscribe(), await one.subscribe(last)
    assert again.resumed == "gap"
    await gap(again)
    await redis.start()
    for each in (subscriber, again):
        assert (await gap(each)).id == last
    await writer.until_ready()
    await writer.hub.publish("news", "behind")
    for each in (subscriber, again):
        assert await each.data(1) == ["behind"]


async def test_a_topic_for_which_there_is_no_room_goes_on_when_there_is(nodes: Nodes) -> None:
    one = await nodes.node(history={"memory": "8KiB", "finished_age": 0.0})
    for name in ("first", "second"):
        subscriber = await one.subscribe(path=f"/events/{name}")
        await one.hub.publish(name, "x")
        assert await subscriber.data(1) == ["x"]
        subscriber.client.abort()
    waiting = await one.subscribe()
    position = await one.hub.publish("news", "y")
    await until(lambda: one.log.behind == 1, "there is no room")
    await one.hub.finish("first")
    await one.hub.finish("second")
    assert await waiting.event() == Event(position, "message", "y")


async def test_a_hub_that_was_not_entered_says_so(edge: object, redis: RedisServer) -> None:
    hub = Hub(engine=edge.engine, log=RedisLog(redis.url))  # type: ignore[attr-defined]
    with pytest.raises(penstock.ConnectionFailedError, match="has not been entered"):
        await hub.publish("news", "x")
    async with hub:
        await hub.publish("news", "x")
    with pytest.raises(penstock.StateError, match="HUB_CLOSED"):
        await hub.publish("news", "x")
    with pytest.raises(penstock.StateError, match="HUB_CLOSED"):
        await hub.__aenter__()


async def test_what_redis_needs_is_named_where_it_is_missing(
    engine: penstock.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.log.redis_log", None)
    with pytest.raises(penstock.ConfigurationError, match=r"penstock\[redis\]"):
        Hub(engine=engine, log=RedisLog("redis://localhost"))
    for wrong in ({"url": "http://x"}, {"prefix": ""}, {"away": "x"}, {"timeout": 0}, {"lease": 10.0}):
        with pytest.raises(penstock.ConfigurationError):
            RedisLog(**{"url": "redis://localhost", **wrong})  # type: ignore[arg-type]
    monkeypatch.undo()
    with pytest.raises(penstock.ConfigurationError, match="URL of the log"):
        Hub(engine=engine, log=RedisLog("redis://localhost:port"))
    assert "secret" not in repr(RedisLog("redis://user:secret@localhost"))


@pytest.mark.parametrize(
    "blob",
    [
        b"[" * 100_000 + b"\nx",
        b'{"retry":' + b"9" * 5000 + b"}\nx",
        b"no JSON\nx",
        b'{"id":"\\ud800"}\nx',
        b"{}\n\xff",
        b'{"type":"a\\nb"}\nx',
        b"",
    ],
    ids=["deep", "long number", "no JSON", "half a character", "no UTF-8", "two lines", "empty"],
)
async def test_an_entry_that_is_no_event_is_skipped_with_a_gap_and_the_reader_goes_on(
    nodes: Nodes, redis: RedisServer, caplog: pytest.LogCaptureFixture, blob: bytes
) -> None:
    node = await nodes.node()
    subscriber = await node.subscribe()
    first = await node.hub.publish("news", "first")
    assert await subscriber.data(1) == ["first"]
    redis.call("XADD", "penstock:news", "*", "before", first, "event", blob)
    await node.hub.publish("news", "second")
    await gap(subscriber)
    assert await subscriber.data(1) == ["second"]
    assert (node.log.connections, node.log.error) == (1, None)
    assert node.log.gaps == 1
    # What the engine refuses is told of like what the reader cannot read.
    refused = "BAD_EVENT: the type of an event has a line end or a NUL"
    assert ("BAD_EVENT: what the log has" in caplog.text) != (refused in caplog.text)
    assert (refused in caplog.text) == blob.startswith(b'{"type"')
    caplog.clear()
    other = await nodes.node()
    late = await other.subscribe(after=first)
    await gap(late)
    assert await late.data(1) == ["second"]


async def test_events_that_are_refused_are_gaps_and_are_logged_once_in_an_interval(
    nodes: Nodes, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    node = await nodes.node()
    subscriber = await node.subscribe()
    begin = time.monotonic()
    for count in range(5):
        before = await node.hub.publish("news", "good")
        assert await subscriber.data(1) == ["good"]
        redis.call("XADD", "penstock:news", "*", "before", before, "event", b'{"type":"a\\nb"}\nx')
        await node.hub.publish("news", "next")
        await gap(subscriber)
        assert await subscriber.data(1) == ["next"]
        assert node.log.gaps == count + 1
    lines = [text for text in caplog.messages if "lacks 1 events of the log" in text]
    assert 1 <= len(lines) <= 1 + (time.monotonic() - begin) / 10
    assert "topic 'news' lacks" in lines[0]


async def test_what_is_asked_before_redis_was_tried_waits_for_that(edge: Edges, redis: RedisServer) -> None:
    """With workers no start waits for the hub to be entered, and the first request comes at once."""
    redis.stop()
    hub = Hub(engine=edge.engine, log=RedisLog(redis.url, timeout=20.0, lease=60.0))
    hub._declared()
    asking = [asyncio.create_task(hub._has("news")), asyncio.create_task(hub.publish("news", "first"))]
    done, _ = await asyncio.wait(asking, timeout=0.1)
    assert not done
    redis.go_on()
    await asyncio.gather(*asking)
    assert await hub._has("news")
    await hub._dismissed()


async def test_a_loop_that_is_held_up_does_not_take_redis_for_away(nodes: Nodes, redis: RedisServer) -> None:
    one = await nodes.node(log={"timeout": 0.5})
    redis.stop()
    publishing = asyncio.create_task(one.hub.publish("news", "held up"))
    for _ in range(20):
        await asyncio.sleep(0)
    redis.go_on()
    # Redis answers meanwhile, as a handler computes for too long.
    time.sleep(1.0)
    assert await publishing
    assert (one.log.refused, one.log.connections) == (0, 1)
