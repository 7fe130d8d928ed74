"""Relays of a worker that are inspected: by the parent, which has the body, and tells the worker what it has seen."""

import asyncio
import functools
import gzip
import json
from typing import Any

import pytest
from aiohttp import web

from penstock import config
from penstock.stats import InspectionStats
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, RelayEnd
from support.client import RawClient, answer
from support.origins import CHUNKED, EVENT_STREAM, JSON, ChunkSteps, Recorder, refusing, whole_stream
from support.relaying import Relaying
from support.waiting import in_time, until

TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
USAGE = {"prompt_tokens": 3, "completion_tokens": 5}
LAST = b'data: {"choices":[],"usage":%s}\n\n' % json.dumps(USAGE).encode()
DRAIN = config.EventRelay(heartbeat=None, drain=config.Drain())

_told: list[RelayEnd] = []


def told(end: RelayEnd) -> None:
    """What another worker finds by its name."""
    _told.append(end)


async def counted(gateway: Gateway) -> InspectionStats:
    """What the only route of a gateway comes to, as its worker says."""
    (stats,) = (await asyncio.to_thread(gateway.stats)).values()
    return stats


def came_to_the_worker(relaying: Relaying) -> int:
    """Bytes of bodies that the worker was sent."""
    return relaying.own.stats().pool.bytes_copied["worker"]


async def end_of(ends: list[RelayEnd]) -> RelayEnd:
    await until(lambda: ends, "the end is told")
    (end,) = ends
    return end


async def test_what_is_inspected_never_comes_to_the_worker(relaying: Relaying) -> None:
    ends: list[RelayEnd] = []
    stream = TOKEN * 1000 + LAST
    async with ScriptedOrigin(Recorder(response=whole_stream(stream))) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection())
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        client = await relaying.connect()
        assert (await client.ask("/model")).body == stream
        end = await end_of(ends)
    assert (end.status, end.bytes, end.error) == (200, len(stream), None)
    seen = end.inspected
    assert seen is not None
    assert (seen.content, seen.events, seen.bytes) == ("events", 1001, len(stream))
    assert (seen.usage, seen.hidden, seen.amended) == (USAGE, None, False)
    assert seen.first_token is not None
    assert 0 < seen.first_token <= seen.total
    assert came_to_the_worker(relaying) == 0
    stats = await counted(gateway)
    assert (stats.streams, stats.responses, stats.events, stats.with_usage) == (1, 0, 1001, 1)
    # The metrics are the parent's, and no worker has counted it a second time.
    assert 'penstock_inspected_events_total{route="/{path}"} 1001' in relaying.family.engine.native.metrics(
        False
    )
    assert "penstock_inspected_events_total{" not in relaying.own.native.metrics(False)


@pytest.mark.parametrize("hidden", [None, "encoded", "too_large"])
async def test_json_is_looked_into_as_well(relaying: Relaying, hidden: str | None) -> None:
    ends: list[RelayEnd] = []
    body = json.dumps({"choices": [], "usage": USAGE, "x": "x" * 2000}).encode()
    fields = [JSON]
    if hidden == "encoded":
        body = gzip.compress(body)
        fields.append("Content-Encoding: gzip")
    response = answer(*fields, f"Content-Length: {len(body)}", body=body)
    inspect = config.Inspection(max_response=1000 if hidden == "too_large" else "1MiB")
    async with ScriptedOrigin(Recorder(response=response)) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=inspect)
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        assert (await (await relaying.connect()).ask("/model")).body == body
        end = await end_of(ends)
    assert end.inspected is not None
    assert (end.inspected.content, end.inspected.hidden) == ("json", hidden)
    assert end.inspected.usage == (USAGE if hidden is None else None)
    stats = await counted(gateway)
    assert (stats.responses, stats.hidden, stats.with_usage) == (1, int(hidden is not None), int(not hidden))
    assert came_to_the_worker(relaying) == 0


@pytest.mark.parametrize("amended", [True, False])
async def test_what_is_amended_is_said_to_be(relaying: Relaying, amended: bool) -> None:
    ends: list[RelayEnd] = []
    origin = Recorder(response=whole_stream(LAST))
    inspect = config.Inspection(amend={"stream_options": {"include_usage": True}})
    async with ScriptedOrigin(origin) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=inspect)
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        client = await relaying.connect()
        body = b'{"stream":true}' if amended else b'{"stream":false}'
        await client.get("/model", JSON, f"Content-Length: {len(body)}", method="POST")
        await client.send(body)
        assert await client.body(await client.head()) == LAST
        end = await end_of(ends)
    assert (b"include_usage" in origin.bodies[0]) == amended
    assert end.inspected is not None
    assert (end.inspected.amended, end.inspected.usage) == (amended, USAGE)


async def test_another_worker_is_told_what_was_seen_where_the_first_is_gone(relaying: Relaying) -> None:
    _told.clear()
    steps = ChunkSteps(TOKEN)
    async with ScriptedOrigin(steps) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection())
        site = await relaying.serve(functools.partial(gateway.relay, on_complete=told))
        client = await relaying.connect()
        await client.get("/model")
        await client.head()
        assert await client.chunk() == TOKEN
        site.site.close()
        relaying.edge.workers.remove(1)
        steps.put(LAST)
        steps.end()
        assert await client.chunk() == LAST
        assert await client.chunk() == b""
        await until(lambda: relaying.edge.orphans, "there is no worker to report the end to")
        relaying.family.declarations.orphan(relaying.edge.orphans[0])
        await until(lambda: _told, "the end is told")
    (end,) = _told
    assert (end.status, end.bytes, end.error) == (200, len(TOKEN + LAST), None)
    assert end.inspected is not None
    assert (end.inspected.events, end.inspected.usage) == (2, USAGE)
    assert end.inspected.first_token is not None
    assert (await counted(gateway)).streams == 1


async def leaves(relaying: Relaying, client: RawClient, steps: ChunkSteps, ends: list[RelayEnd]) -> RelayEnd:
    """What is told where a client leaves, and the rest comes then."""
    client.abort()
    steps.put(LAST)
    end = await end_of(ends)
    assert end.error is not None
    assert end.error.name == "CLIENT_GONE"  # type: ignore[attr-defined]
    await until(lambda: relaying.family.engine.stats().streams == 0, "nothing is left of it")
    return end


@pytest.mark.parametrize("events", [None, DRAIN], ids=["cancelled", "read on"])
async def test_a_client_that_leaves(relaying: Relaying, events: config.EventRelay | None) -> None:
    ends: list[RelayEnd] = []
    steps = ChunkSteps(TOKEN)
    async with ScriptedOrigin(steps) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection(), events=events)
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        client = await relaying.connect()
        await client.get("/model")
        await client.head()
        assert await client.chunk() == TOKEN
        if events is None:
            client.abort()
            await end_of(ends)
        end = await leaves(relaying, client, steps, ends)
    assert end.status == 200
    assert end.inspected is not None
    expected = (1, None) if events is None else (2, USAGE)
    assert (end.inspected.events, end.inspected.usage) == expected
    assert (await counted(gateway)).streams == 1
    assert came_to_the_worker(relaying) == 0


class Late:
    """Sends a head when it is told to, and a stream behind it that does not end."""

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, peer: Any) -> None:
        await peer.request()
        self.asked.set()
        await self.go_on.wait()
        stream = TOKEN + LAST
        await peer.send(answer(EVENT_STREAM, CHUNKED, body=b"%x\r\n%s\r\n" % (len(stream), stream)))
        await peer.stall()


@pytest.mark.parametrize("events", [None, DRAIN], ids=["cancelled", "read on"])
async def test_a_client_that_leaves_before_the_head(
    relaying: Relaying, events: config.EventRelay | None
) -> None:
    ends: list[RelayEnd] = []
    late = Late()
    async with ScriptedOrigin(late) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection(), events=events)
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        client = await relaying.connect()
        await client.get("/model")
        await in_time(late.asked.wait(), "the origin is asked")
        client.abort()
        if events is not None:
            relays = relaying.family.engine.stats
            await until(lambda: relays().relays.draining == 1, "the origin is waited for")
            assert not ends
            late.go_on.set()
        end = await end_of(ends)
        await (await upstream.connection()).wait_left()
    assert (end.status, end.bytes) == (None, 0)
    assert end.inspected is not None
    assert end.inspected.usage == (None if events is None else USAGE)
    stats = await counted(gateway)
    assert stats.streams + stats.responses == 1


async def compressing(relaying: Relaying, gateway: Gateway, ends: list[RelayEnd]) -> None:
    """Serve a relay whose frames Python sends, since the application has them compressed."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return await gateway.relay(request, on_complete=ends.append)

    async def compress(request: web.Request, response: web.StreamResponse) -> None:
        response.enable_compression(web.ContentCoding.gzip)
        # aiohttp has looked whether to before it asks the response.
        await response._start_compression(request)

    await relaying.serve(handler, compress)


async def test_what_the_worker_sends_itself_is_seen_by_the_parent_as_well(relaying: Relaying) -> None:
    ends: list[RelayEnd] = []
    stream = TOKEN * 3000 + LAST
    async with ScriptedOrigin(Recorder(response=whole_stream(stream))) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection())
        await compressing(relaying, gateway, ends)
        reply = await (await relaying.connect()).ask("/model", "Accept-Encoding: gzip")
        assert gzip.decompress(reply.body) == stream
        end = await end_of(ends)
    assert came_to_the_worker(relaying) == len(stream)
    assert end.inspected is not None
    assert (end.inspected.events, end.inspected.bytes, end.inspected.usage) == (3001, len(stream), USAGE)
    stats = await counted(gateway)
    assert (stats.streams, stats.events, stats.with_usage) == (1, 3001, 1)


@pytest.mark.parametrize("events", [None, DRAIN], ids=["cancelled", "read on"])
async def test_a_client_that_leaves_what_the_worker_sends(
    relaying: Relaying, events: config.EventRelay | None
) -> None:
    ends: list[RelayEnd] = []
    steps = ChunkSteps(TOKEN)
    async with ScriptedOrigin(steps) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection(), events=events)
        await compressing(relaying, gateway, ends)
        client = await relaying.connect()
        await client.get("/model", "Accept-Encoding: gzip")
        await client.head()
        await until(lambda: came_to_the_worker(relaying) == len(TOKEN), "the worker has the first event")
        if events is None:
            client.abort()
            await end_of(ends)
        end = await leaves(relaying, client, steps, ends)
    assert end.inspected is not None
    expected = (1, None) if events is None else (2, USAGE)
    assert (end.inspected.events, end.inspected.usage) == expected
    assert (await counted(gateway)).streams == 1


async def test_an_origin_that_is_not_there_is_counted_once(relaying: Relaying) -> None:
    ends: list[RelayEnd] = []
    with refusing() as url:
        gateway = await relaying.inspecting(url, inspect=config.Inspection())
        await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
        assert (await (await relaying.connect()).ask("/model")).head.status == 502
    end = await end_of(ends)
    assert end.inspected is not None
    assert (end.inspected.content, end.inspected.bytes) == ("other", 0)
    assert (await counted(gateway)).responses == 1


async def test_what_the_parent_cannot_carry_out_is_told_without_a_report(
    relaying: Relaying,
) -> None:
    ends: list[RelayEnd] = []
    gateway = await relaying.inspecting("http://127.0.0.1:9", inspect=config.Inspection())
    assert gateway._plans is not None
    gateway._plans.describe = lambda *_: b"no plan"  # type: ignore[method-assign]
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    await relaying.serve(functools.partial(gateway.relay, on_complete=ends.append))
    assert (await (await relaying.connect()).ask("/model")).head.status == 500
    end = await end_of(ends)
    assert end.error is not None
    assert end.error.name == "BAD_CONFIGURATION"  # type: ignore[attr-defined]
    assert end.inspected is None
    assert len(troubles) == 1
    troubles.clear()


async def test_what_a_worker_had_asked_for_when_it_died_is_counted(relaying: Relaying) -> None:
    late = Late()
    async with ScriptedOrigin(late) as upstream:
        gateway = await relaying.inspecting(upstream.url, inspect=config.Inspection())
        site = await relaying.serve(gateway.relay)
        client = await relaying.connect()
        await client.get("/model", "Content-Length: 0", method="POST")
        await in_time(late.asked.wait(), "the origin is asked")
        site.site.close()
        assert (await client.head()).status == 502
        await (await upstream.connection()).wait_left()
    stats = await counted(gateway)
    assert (stats.responses, stats.streams) == (1, 0)


async def test_gateways_that_inspect_are_kept_while_their_code_is_served(relaying: Relaying) -> None:
    """A worker that has not relayed yet, and one that comes later, find what others have had counted."""
    family = relaying.family
    async with ScriptedOrigin(Recorder(response=whole_stream(LAST))) as upstream:
        gateway = relaying.gateway(upstream.url, inspect=config.Inspection())
        await family.serve(relaying.worker)
        await relaying.serve(gateway.relay)
        assert (await (await relaying.connect()).ask("/model")).body == LAST
        assert (await counted(gateway)).streams == 1
        await family.lose(relaying.worker)
        other = await family.worker()
        with other.inside():
            again = Gateway(upstream.url, inspect=config.Inspection())
        assert (await counted(again)).streams == 1
