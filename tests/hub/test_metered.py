"""Token streams that are metered and resumable: the origin's stream is counted once, however
many clients read the topic."""

import asyncio

import pytest
from aiohttp import web

from penstock.config import Inspection
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, RelayEnd
from support.origins import EVENTS, Model
from support.waiting import in_time, until

from .applications import Served

USAGE = 'data: {"choices": [], "usage": {"total_tokens": 7}}\n\n'
TOKEN = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'


class Metered:
    """A handler that meters what feeds a topic, and the ends that it is told."""

    def __init__(self, served: Served, origin: str, inspect: Inspection | None) -> None:
        self.ends: asyncio.Queue[RelayEnd] = asyncio.Queue()
        self.gateway: Gateway = served.gateway(origin)
        self._served = served
        self._inspect = inspect

    async def _handler(self, request: web.Request) -> web.StreamResponse:
        return await self.gateway.relay(
            request,
            topic=request.match_info["topic"],
            hub=self._served.hub,
            inspect=self._inspect,
            on_complete=self.ends.put_nowait,
            tenant="blue",
        )

    async def begin(self) -> int:
        """Serve. What has a worker wait for its parent would wait for this loop, so it is declared before."""
        await asyncio.to_thread(self.gateway.stats)
        return await self._served.serve(self._handler)

    async def end(self) -> RelayEnd:
        return await in_time(self.ends.get())


async def finished(served: Served) -> None:
    await until(lambda: (topic := served.hub.topic_stats("news")) and topic.finished, "it is finished")


@pytest.mark.parametrize("inspect", [Inspection(), None], ids=["inspected", "plain"])
async def test_the_origins_stream_is_counted_once(served: Served, inspect: Inspection | None) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        metered = Metered(served, origin.url, inspect)
        port = await metered.begin()
        first = await served.subscribe(port, path="/news?a=b")
        others = [await served.subscribe(port) for _ in range(3)]
        model.send(TOKEN)
        for reader in (first, *others):
            assert len(await reader.data(1)) == 1
        assert metered.ends.empty()
        model.send(USAGE)
        model.end()
        end = await metered.end()
        await finished(served)
        late = await served.subscribe(port)
        assert len(await late.data(2)) == 2
        assert metered.ends.empty(), "no report tells of the topic's subscribers"
        assert model.requests == 1
    assert (end.status, end.bytes, end.error) == (200, len(TOKEN + USAGE), None)
    assert (end.method, end.path, end.tenant) == ("GET", "/news?a=b", "blue")
    assert end.timings is not None
    if inspect is None:
        assert end.inspected is None
        return
    assert end.inspected is not None
    assert (end.inspected.content, end.inspected.events) == ("events", 2)
    assert end.inspected.usage == {"total_tokens": 7}
    stats = metered.gateway.stats
    counted = await asyncio.to_thread(stats)
    while not (counted and counted["/{topic}"].streams):
        counted = await asyncio.to_thread(stats)
    sums = counted["/{topic}"]
    assert (sums.streams, sums.with_usage, sums.events, sums.bytes) == (1, 1, 2, len(TOKEN + USAGE))
    assert (sum(sums.first_token.counts), sum(sums.totals.counts)) == (1, 1)


async def test_the_end_is_told_when_all_clients_have_left(served: Served) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        metered = Metered(served, origin.url, Inspection())
        port = await metered.begin()
        first = await served.subscribe(port)
        model.send(TOKEN)
        await first.data(1)
        first.client.abort()
        await until(lambda: served.owner.stats().subscribers == 0, "it has left")
        assert metered.ends.empty()
        model.send(USAGE)
        model.end()
        end = await metered.end()
        await finished(served)
    assert (end.error, end.bytes) == (None, len(TOKEN + USAGE))
    assert end.inspected is not None
    assert end.inspected.usage == {"total_tokens": 7}
    assert metered.ends.empty()


async def test_an_origin_that_fails_is_told_as_it_failed(served: Served) -> None:
    async def breaks(peer):  # type: ignore[no-untyped-def]
        await peer.request()
        await peer.send(EVENTS + b"%x\r\n%b\r\n" % (len(TOKEN), TOKEN.encode()))

    async with ScriptedOrigin(breaks) as origin:
        metered = Metered(served, origin.url, Inspection())
        port = await metered.begin()
        reader = await served.subscribe(port)
        assert len(await reader.data(1)) == 1
        failure = await reader.event()
        end = await metered.end()
    assert failure is not None
    assert failure.type == "error"
    assert end.error is not None
    assert end.error.name == "BODY_TRUNCATED"  # type: ignore[attr-defined]
    assert (end.status, end.bytes) == (200, len(TOKEN))
    assert metered.ends.empty()


async def test_what_feeds_no_topic_is_told_as_any_relay(served: Served) -> None:
    async def refuses(peer):  # type: ignore[no-untyped-def]
        await peer.request()
        await peer.send(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow")
        await peer.stall()

    async with ScriptedOrigin(refuses) as origin:
        metered = Metered(served, origin.url, Inspection())
        reader = await served.subscribe(await metered.begin())
        assert reader.head.status == 429
        end = await metered.end()
    assert (end.status, end.bytes, end.error) == (429, 4, None)
    assert metered.ends.empty()
