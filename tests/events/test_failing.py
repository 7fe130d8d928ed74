"""The origin fails after the head: the client is told by an event, after the last whole one, and sees no clean end."""

import asyncio
import contextlib
import json
import re

import pytest

from penstock.config import EventRelay, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.origins import EVENTS, ChunkSteps, chunk, end
from support.waiting import in_time, until
from support.ways import Way

ONE = b"data: 1\n\n"
SHORT = Timeouts(between_bytes=0.3)
TOLD = EventRelay(heartbeat=None)

# What the origin sends behind one event, how it ends, and what the client is told.
FAULTS = {
    "a close between chunks": (b"", "close", "BODY_TRUNCATED"),
    "a reset": (b"", "reset", "ORIGIN_RESET"),
    "silence": (b"", "stall", "IO_TIMEOUT"),
    "half an event": (chunk(b"data: ha"), "close", "BODY_TRUNCATED"),
    "half an event and a reset": (chunk(b"data: ha"), "reset", "ORIGIN_RESET"),
    "an event without its blank line": (chunk(b"data: 2\n"), "close", "BODY_TRUNCATED"),
    "between CR and LF": (chunk(b"data: 2\r\n\r"), "close", "BODY_TRUNCATED"),
    "half a chunk": (b"20\r\ndata: ha", "close", "BODY_TRUNCATED"),
    "half a size": (b"2", "close", "BODY_TRUNCATED"),
    "a last chunk without its end": (b"0\r\n", "close", "BODY_TRUNCATED"),
    "no size": (b"x\r\n", "stall", "BAD_CHUNK"),
}


async def break_off(peer: Peer, rest: bytes, then: str, seen: asyncio.Event) -> None:
    await peer.request()
    await peer.send(EVENTS + chunk(ONE))
    await seen.wait()
    await peer.send(rest)
    await end(peer, then)


async def one(client: RawClient) -> None:
    await client.head()
    await client.reader.readuntil(ONE)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_is_reported_after_the_last_event(way: Way, fault: str) -> None:
    rest, then, name = FAULTS[fault]
    seen = asyncio.Event()
    async with ScriptedOrigin(lambda peer: break_off(peer, rest, then, seen)) as origin:
        relay = await way.relay(origin.url, events=TOLD, timeouts=SHORT)
        client = await relay.ask()
        await client.head()
        assert await client.chunk() == ONE
        seen.set()
        told = await client.chunk()
        assert told.startswith(b"event: error\ndata: "), "and nothing of half an event"
        assert told.endswith(b"}\n\n")
        error = json.loads(told.removeprefix(b"event: error\ndata: "))["error"]
        assert error["name"] == name
        assert set(error) == {"code", "name", "message", "retryable"}
        assert error["code"].startswith("0x")
        assert isinstance(error["retryable"], bool)
        assert "127.0.0.1" not in told.decode(), "no client is told where the origin is"
        assert await client.rest() == b"", "there is no last chunk"
        if not way.is_route:
            assert getattr((await relay.ends.get()).error, "name", None) == name
    assert way.counts().told == 1


@pytest.mark.parametrize("fault", ["a reset", "half an event"])
async def test_a_client_of_http_1_0_sees_no_clean_end(way: Way, fault: str) -> None:
    rest, then, _ = FAULTS[fault]
    seen = asyncio.Event()
    async with ScriptedOrigin(lambda peer: break_off(peer, rest, then, seen)) as origin:
        client = await (await way.relay(origin.url, events=TOLD)).ask(version="1.0")
        await one(client)
        seen.set()
        with pytest.raises(ConnectionResetError):
            await client.rest()


@pytest.mark.parametrize(
    "policy", [None, EventRelay(heartbeat=None, error_event=None)], ids=["none", "no name"]
)
async def test_without_a_name_the_stream_is_only_broken_off(way: Way, policy: EventRelay | None) -> None:
    seen = asyncio.Event()
    async with ScriptedOrigin(lambda peer: break_off(peer, b"", "reset", seen)) as origin:
        client = await (await way.relay(origin.url, events=policy)).ask()
        await one(client)
        seen.set()
        assert await client.rest() == b"\r\n"
    assert way.counts().told == 0


async def test_the_event_is_called_as_was_asked_for(way: Way) -> None:
    seen = asyncio.Event()
    policy = EventRelay(heartbeat=None, error_event="upstream_failed")
    async with ScriptedOrigin(lambda peer: break_off(peer, b"", "close", seen)) as origin:
        client = await (await way.relay(origin.url, events=policy)).ask()
        await one(client)
        seen.set()
        assert (await client.rest()).split(b"\r\n")[2].startswith(b"event: upstream_failed\ndata: {")


async def test_a_client_that_is_slow_gets_the_last_events_and_is_told(way: Way) -> None:
    """A reset would overtake them."""
    events = b"".join(b"id: %d\ndata: %s\n\n" % (number, b"x" * 1000) for number in range(500))
    failed = asyncio.Event()

    async def fail(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS + chunk(events))
        peer.close()
        failed.set()

    async with ScriptedOrigin(fail) as origin:
        client = await (await way.relay(origin.url, events=TOLD)).ask(receive_buffer=4096)
        client.writer.transport.pause_reading()
        await in_time(failed.wait(), "the origin has failed")
        client.writer.transport.resume_reading()
        await client.head()
        data = b""
        while b"event: error" not in data:
            data += await client.chunk()
        assert data.startswith(events)
        assert await client.rest() == b""


BEFORE = {
    "nothing": (b"", "close", 502, "ORIGIN_CLOSED"),
    "half a head": (EVENTS[:30], "close", 502, "ORIGIN_CLOSED"),
    "half a head and a reset": (EVENTS[:30], "reset", 502, "ORIGIN_RESET"),
    "half a head and silence": (EVENTS[:30], "stall", 504, "IO_TIMEOUT"),
    "all but the last line feed": (EVENTS[:-1], "close", 502, "ORIGIN_CLOSED"),
    "two lengths": (answer("Content-Type: text/event-stream", "Content-Length: 1, 2"), "stall", 502, None),
}


@pytest.mark.parametrize("fault", BEFORE)
async def test_a_failure_before_the_head_is_an_answer(way: Way, fault: str) -> None:
    sent, then, status, name = BEFORE[fault]

    async def fail(peer: Peer) -> None:
        await peer.request()
        await peer.send(sent)
        await end(peer, then)

    async with ScriptedOrigin(fail) as origin:
        client = await (await way.relay(origin.url, events=TOLD, timeouts=SHORT)).ask()
        head = await client.head()
        assert (head.status, head.one("Content-Type")) == (status, "application/problem+json")
        assert json.loads(await client.body(head))["name"] == (name or "CONFLICTING_LENGTH")
    assert way.counts().told == 0


async def test_a_server_that_stops_is_no_failure(way: Way) -> None:
    """The stream ends behind a whole event, and the client connects anew."""
    if way.is_stock:
        pytest.skip("stock aiohttp cuts its clients off")
    origin = ChunkSteps(ONE, b"data: ha")
    async with ScriptedOrigin(origin) as served:
        client = await (await way.relay(served.url, events=EventRelay(heartbeat=0.05))).ask()
        await client.head()
        data = await client.chunk()
        await way.stop()
        while part := await client.chunk():
            data += part
        # When to come back is told where the server drains, and not where it is closed at once.
        assert re.sub(rb"(:|retry: \d+)\n\n", b"", data) == ONE
        assert await client.rest() == b""
    assert way.counts().told == 0


async def test_an_end_is_an_end(way: Way) -> None:
    async def whole(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS + chunk(ONE) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async with ScriptedOrigin(whole) as origin:
        relay = await way.relay(origin.url, events=TOLD)
        client = await relay.ask()
        assert await client.body(await client.head()) == ONE + b"data: [DONE]\n\n"
        if not way.is_route:
            assert (await relay.ends.get()).error is None
    assert way.counts().told == 0


@pytest.mark.parametrize("what", ["plain", "compressed"])
async def test_other_bodies_are_only_broken_off(way: Way, what: str) -> None:
    kind = "text/plain" if what == "plain" else "text/event-stream"
    coding = () if what == "plain" else ("Content-Encoding: gzip",)
    seen = asyncio.Event()

    async def fail(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Transfer-Encoding: chunked", f"Content-Type: {kind}", *coding) + chunk(ONE))
        await seen.wait()
        peer.close()

    async with ScriptedOrigin(fail) as origin:
        client = await (await way.relay(origin.url, events=TOLD)).ask()
        await one(client)
        seen.set()
        with contextlib.suppress(ConnectionResetError):
            assert await client.rest() == b"\r\n"
        await until(lambda: way.engine.stats().streams == 0, "the stream has ended")
    assert way.counts().told == 0
