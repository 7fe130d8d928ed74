"""What is said of a response when it is over: events, tokens, times, usage, on every way to relay it."""

import asyncio
import gzip
import json

import pytest

from penstock.config import Drain, EventRelay, Inspection
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import CHUNKED, EVENT_STREAM, JSON, ChunkSteps, Recorder, whole_stream
from support.waiting import in_time, until
from support.ways import Way, left

from .gateways import KNOWN, inspecting, inspection_of, stream_of

USAGE = {"prompt_tokens": 3, "completion_tokens": 5}
LAST = b'data: {"choices":[],"usage":%s}\n\n' % json.dumps(USAGE).encode()
TOKEN = b'data: {"choices":[{"delta":{"content":"\\"usage\\": {}"}}],"usage":null}\n\n'


@pytest.mark.parametrize("name", KNOWN)
async def test_streams_of_known_shapes(way: Way, name: str) -> None:
    stream, known = stream_of(name), KNOWN[name]
    async with ScriptedOrigin(Recorder(response=whole_stream(stream))) as origin:
        chat = await inspecting(way, origin.url, inspection_of(name))
        client = await chat.post(b"{}", "Accept-Encoding: gzip, br")
        assert await client.body(await client.head()) == stream
        end = await chat.end()
        (asked,) = origin.requests
        assert asked.get_all("Accept-Encoding") == ["identity"]
    assert (end.status, end.bytes, end.error) == (200, len(stream), None)
    assert (end.method, end.path, end.client, end.tenant) == ("POST", "/v1/chat?x=1", "127.0.0.1", "blue")
    assert end.timings is not None
    assert end.timings.first_byte > 0
    seen = end.inspected
    assert seen is not None
    assert (seen.content, seen.events, seen.bytes) == ("events", known["events"], len(stream))
    assert (seen.usage, seen.hidden, seen.amended) == (known["usage"], None, False)
    assert seen.first_token is not None
    assert seen.longest_gap is not None
    assert 0 < seen.first_token <= seen.total
    assert 0 <= seen.longest_gap < seen.total
    stats = chat.stats()
    assert list(chat.by_route()) == ["chat" if way.is_route else "/{path}"]
    assert (stats.streams, stats.responses, stats.hidden, stats.with_usage) == (1, 0, 0, 1)
    assert (stats.events, stats.bytes) == (known["events"], len(stream))
    assert (stats.first_token.count, stats.token_gaps.count, stats.totals.count) == (
        1,
        known["tokens"] - 1,
        1,
    )
    assert stats.first_token.sum == pytest.approx(seen.first_token)
    assert len(stats.totals.counts) == len(stats.totals.bounds) + 1


async def test_a_stream_with_a_length_is_seen_event_by_event_as_well(way: Way) -> None:
    stream = TOKEN + LAST
    whole = answer(EVENT_STREAM, f"Content-Length: {len(stream)}", body=stream)
    async with ScriptedOrigin(Recorder(response=whole)) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        head = await client.head()
        assert head.one("Content-Length") == str(len(stream))
        assert await client.body(head) == stream
        seen = await chat.inspected()
    assert (seen.content, seen.events, seen.usage) == ("events", 2, USAGE)


async def test_events_in_pieces_are_timed_as_they_come(way: Way) -> None:
    script = ChunkSteps()
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        await client.head()
        script.put(b": a comment\n" + TOKEN[:20])
        assert await client.chunk() == b": a comment\n"
        assert chat.stats().first_token.count == 0
        script.put(TOKEN[20:] + TOKEN)
        received = b""
        while received != TOKEN + TOKEN:
            received += await client.chunk()
        # Also while the stream goes on.
        assert chat.stats().first_token.count == 1
        assert (chat.stats().events, chat.stats().streams) == (2, 0)
        script.end()
        assert await client.chunk() == b""
        seen = await chat.inspected()
    assert (seen.events, seen.usage) == (2, None)


async def test_json_that_is_no_stream(way: Way) -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": '"usage": {}'}}], "usage": USAGE}, indent=2
    ).encode()
    async with ScriptedOrigin(
        Recorder(response=answer(JSON, f"Content-Length: {len(body)}", body=body))
    ) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        assert await client.body(await client.head()) == body
        seen = await chat.inspected()
    assert (seen.content, seen.bytes, seen.usage, seen.hidden) == ("json", len(body), USAGE, None)
    assert (seen.events, seen.first_token, seen.longest_gap) == (0, None, None)
    assert (chat.stats().streams, chat.stats().responses, chat.stats().with_usage) == (0, 1, 1)


async def test_json_above_the_limit_passes_and_is_said_to_be_unseen(way: Way) -> None:
    body = json.dumps({"x": "x" * 300_000, "usage": USAGE}).encode()
    async with ScriptedOrigin(
        Recorder(response=answer(JSON, f"Content-Length: {len(body)}", body=body))
    ) as origin:
        chat = await inspecting(way, origin.url, Inspection(max_response=200_000))
        client = await chat.post()
        assert await client.body(await client.head()) == body
        seen = await chat.inspected()
    assert (seen.content, seen.usage, seen.hidden) == ("json", None, "too_large")
    assert (chat.stats().hidden, chat.stats().with_usage) == (1, 0)


@pytest.mark.parametrize("kind", [JSON, EVENT_STREAM])
async def test_what_is_coded_all_the_same_passes_unchanged(way: Way, kind: str) -> None:
    body = gzip.compress(LAST)
    coded = answer(kind, "Content-Encoding: gzip", f"Content-Length: {len(body)}", body=body)
    async with ScriptedOrigin(Recorder(response=coded)) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        head = await client.head()
        assert head.one("Content-Encoding") == "gzip"
        assert await client.body(head) == body
        seen = await chat.inspected()
    assert (seen.usage, seen.hidden, seen.bytes) == (None, "encoded", len(body))
    assert chat.stats().hidden == 1


async def test_what_is_neither_is_counted_alone(way: Way) -> None:
    async with ScriptedOrigin(
        Recorder(response=answer("Content-Type: audio/mpeg", "Content-Length: 5", body=b"bytes"))
    ) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        assert await client.body(await client.head()) == b"bytes"
        seen = await chat.inspected()
    assert (seen.content, seen.bytes, seen.usage, seen.hidden) == ("other", 5, None, None)


async def test_errors_of_the_origin_pass_and_are_reported(way: Way) -> None:
    body = b'{"error":{"message":"slow down"}}'
    refusal = answer(JSON, "Retry-After: 7", f"Content-Length: {len(body)}", status="429 Too Many", body=body)
    async with ScriptedOrigin(Recorder(response=refusal)) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        head = await client.head()
        assert (head.status, head.one("Retry-After")) == (429, "7")
        assert await client.body(head) == body
        end = await chat.end()
    assert (end.status, end.error) == (429, None)
    assert end.inspected is not None
    assert end.inspected.usage is None


async def test_the_usage_that_was_seen_of_a_stream_that_breaks_off(way: Way) -> None:
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9}}}\n\n'
    script = ChunkSteps(start)
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        await client.head()
        assert await client.chunk() == start
        script.pieces.put_nowait(None)
        with pytest.raises((EOFError, ConnectionError)):
            await client.chunk()
        end = await chat.end()
    assert end.status == 200
    assert end.error is not None
    assert end.error.name == "BODY_TRUNCATED"  # type: ignore[attr-defined]
    assert end.inspected is not None
    assert end.inspected.usage == {"input_tokens": 9}


async def test_a_client_that_leaves_is_reported_with_what_was_seen(way: Way) -> None:
    script = ChunkSteps(TOKEN)
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        await client.head()
        await client.chunk()
        client.abort()
        end = await chat.end()
        await left(way, await origin.connection())
    assert end.error is not None
    assert end.error.name == "CLIENT_GONE"  # type: ignore[attr-defined]
    assert end.inspected is not None
    assert (end.inspected.events, end.inspected.usage) == (1, None)
    assert chat.stats().streams == 1


async def test_a_drain_ends_with_the_usage(way: Way) -> None:
    script = ChunkSteps(TOKEN)
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, events=EventRelay(heartbeat=None, drain=Drain()))
        client = await chat.post()
        await client.head()
        await client.chunk()
        client.abort()
        peer = await origin.connection()
        script.put(TOKEN)
        script.put(LAST)
        # The origin says no more, and does not end its response: no report waits for that.
        end = await chat.end()
        await left(way, peer)
    assert end.error is not None
    assert end.error.name == "CLIENT_GONE"  # type: ignore[attr-defined]
    assert end.inspected is not None
    assert (end.inspected.events, end.inspected.usage) == (3, USAGE)


async def test_a_drain_from_before_the_head_is_seen_too(way: Way) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    stream = TOKEN + LAST

    async def late(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        asked.set()
        await go_on.wait()
        await peer.send(answer(EVENT_STREAM, CHUNKED, body=b"%x\r\n%s\r\n" % (len(stream), stream)))
        await peer.stall()

    async with ScriptedOrigin(late) as origin:
        chat = await inspecting(way, origin.url, events=EventRelay(heartbeat=None, drain=Drain()))
        client = await chat.post()
        await in_time(asked.wait(), "the origin is asked")
        client.abort()
        await until(lambda: way.counts().draining == 1, "the origin is waited for")
        go_on.set()
        end = await chat.end()
        await left(way, await origin.connection())
    assert end.inspected is not None
    assert end.inspected.usage == USAGE


async def test_where_too_many_are_read_on_the_end_is_told_at_once(way: Way) -> None:
    drained, cancelled = ChunkSteps(TOKEN), ChunkSteps(TOKEN)
    events = EventRelay(heartbeat=None, drain=Drain(concurrency=1))
    async with ScriptedOrigin(drained, cancelled) as origin:
        chat = await inspecting(way, origin.url, events=events)
        for _ in range(2):
            client = await chat.post()
            await client.head()
            await client.chunk()
            client.abort()
            await until(lambda: way.counts().draining == 1, "the first is read on")
        await (await origin.connection(1)).wait_left()
        end = await chat.end()
        assert end.inspected is not None
        assert end.inspected.usage is None
        drained.put(LAST)
        end = await chat.end()
        assert end.inspected is not None
        assert end.inspected.usage == USAGE
