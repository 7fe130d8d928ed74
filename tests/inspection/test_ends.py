"""`on_complete`: told once for each request, whatever became of it, on native routes as on relays."""

import asyncio
import logging
import socket
from typing import Any

import pytest

from penstock.config import Caching, Drain, Edge, EventRelay, Inspection, RouteLimits, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, RelayEnd
from support.client import answer
from support.origins import ChunkSteps, Recorder, refusing, says, whole_stream
from support.waiting import until
from support.ways import NEVER, Way

from .gateways import inspecting


async def test_without_inspection(way: Way) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        chat = await inspecting(way, origin.url, None)
        client = await chat.post(path="/a/b?c=%20")
        assert (await client.body(await client.head())) == b"ok"
        end = await chat.end()
    assert (end.status, end.bytes, end.error, end.inspected) == (200, 2, None, None)
    assert (end.method, end.path, end.client, end.tenant) == ("POST", "/a/b?c=%20", "127.0.0.1", "blue")
    assert end.timings is not None
    assert end.timings.connect > 0
    assert not end.timings.reused
    assert chat.by_route() == {}


async def test_each_request_of_a_connection_is_told_once(way: Way) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        chat = await inspecting(way, origin.url, None)
        client = await way.connect(chat.relay.port)
        for number in range(5):
            assert (await client.ask(f"/{number}")).body == b"ok"
        paths = [(await chat.end()).path for _ in range(5)]
    assert paths == [f"/{number}" for number in range(5)]
    assert chat.relay.ends.empty()


async def test_an_origin_that_fails_before_its_head(way: Way) -> None:
    async with ScriptedOrigin(says(b"")) as origin:
        chat = await inspecting(way, origin.url)
        reply = await (await way.connect(chat.relay.port)).ask()
        assert reply.head.status == 502
        end = await chat.end()
    assert (end.status, end.bytes, end.timings) == (None, 0, None)
    assert end.error is not None
    assert end.error.name == "ORIGIN_CLOSED"  # type: ignore[attr-defined]
    assert end.inspected is not None
    assert (end.inspected.content, end.inspected.first_token) == ("other", None)


async def test_a_client_that_leaves_before_the_head(way: Way) -> None:
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        chat = await inspecting(way, origin.url, None, timeouts=Timeouts(first_byte=None))
        client = await way.connect(chat.relay.port)
        await client.get()
        await origin.connection()
        client.abort()
        end = await chat.end()
    assert (end.status, end.bytes) == (None, 0)
    assert end.error is not None
    assert end.error.name == "CLIENT_GONE"  # type: ignore[attr-defined]


async def test_an_origin_that_fails_before_any_of_it_has_left(way: Way) -> None:
    nonsense = answer("Transfer-Encoding: chunked", body=b"nonsense\r\n")
    async with ScriptedOrigin(says(nonsense)) as origin:
        chat = await inspecting(way, origin.url, None)
        client = await way.connect(chat.relay.port)
        await client.get()
        head = await client.head()
        end = await chat.end()
    # Stock transports are given the head by itself.
    assert head.status == (200 if way.is_stock else 502)
    assert (end.status, end.bytes) == (200 if way.is_stock else None, 0)
    assert end.error is not None
    assert end.error.name == "BAD_CHUNK"  # type: ignore[attr-defined]


async def test_a_client_that_leaves_before_the_head_of_what_is_read_on(way: Way) -> None:
    go = asyncio.Event()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await go.wait()
        await peer.send(whole_stream(b"data: x\n\n"))

    async with ScriptedOrigin(slow) as origin:
        options: dict[str, Any] = {"events": EventRelay(drain=Drain()), "timeouts": NEVER}
        chat = await inspecting(way, origin.url, None, **options)
        client = await way.connect(chat.relay.port)
        await client.get()
        await origin.connection()
        client.reset()
        await until(lambda: way.counts().draining == 1, "it is read on")
        go.set()
        end = await chat.end()
        await until(lambda: way.counts().drained == 1, "it has been")
    assert (end.status, end.bytes) == (None, 0)
    assert end.error is not None
    assert end.error.name == "CLIENT_GONE"  # type: ignore[attr-defined]


async def test_what_a_route_refuses_is_told_too(way: Way) -> None:
    if not way.is_route:
        pytest.skip("a relay has no limits")
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        limits = RouteLimits(concurrency=1)
        chat = await inspecting(way, origin.url, None, limits=limits, timeouts=NEVER)
        first = await way.connect(chat.relay.port)
        await first.get("/first")
        await origin.connection()
        reply = await (await way.connect(chat.relay.port)).ask("/second")
        assert reply.head.status == 429
        end = await chat.end()
        assert (end.path, end.status) == ("/second", None)
        assert end.error is not None
        assert end.error.name == "TOO_MANY_REQUESTS"  # type: ignore[attr-defined]
        first.abort()
        assert (await chat.end()).path == "/first"


async def test_a_callback_that_fails_keeps_no_other_from_being_told(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    def fail(end: RelayEnd) -> None:
        told.put_nowait(end.path)
        message = "the ledger is full"
        raise ValueError(message)

    async with ScriptedOrigin(Recorder()) as origin:
        chat = await inspecting(way, origin.url, None, on_complete=fail)
        for path in ("/a", "/b"):
            client = await way.connect(chat.relay.port)
            await client.get(path)
            await client.head()
            assert await told.get() == path
    failed = [record for record in caplog.records if record.name == "penstock.web"]
    assert [record.getMessage() for record in failed] == ["GET /a: its on_complete has failed"]
    assert "the ledger is full" in (failed[0].exc_text or "")


async def test_what_is_under_way_is_told_when_the_server_stops(way: Way) -> None:
    script = ChunkSteps(b"data: x\n\n")
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url)
        client = await chat.post()
        await client.head()
        await client.chunk()
        await way.stop()
        if way.name == "native":
            # Without another turn of the loop.
            assert chat.relay.ends.qsize() == 1
        end = await chat.end()
    assert end.inspected is not None
    assert end.inspected.events == 1


async def test_ends_that_python_is_too_slow_for_are_dropped_and_the_log_says_how_many(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    if way.name != "native":
        pytest.skip("elsewhere Python answers")
    requests = 50
    # The engine answers itself while the loop is held.
    with refusing() as url:
        chat = await inspecting(way, url, None, edge=Edge(app_ends=4096))
        clients = []
        for number in range(requests):
            clients.append(socket.create_connection(("127.0.0.1", chat.relay.port)))
            clients[-1].sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 502"
            client.close()
    with caplog.at_level(logging.ERROR, "penstock.web"):
        await until(lambda: caplog.messages, "the log says so")
    told = chat.relay.ends.qsize()
    (message,) = caplog.messages
    assert f"the ends of {requests - told} requests on native routes were not reported" in message
    assert 0 < told < requests


def test_inspection_and_caching_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="caching and inspect"):
        Gateway("http://a", inspect=Inspection()).native("/", caching=Caching())
    with pytest.raises(ValueError, match="no cache"):
        Gateway("http://a", inspect=Inspection(), caching=Caching())


@pytest.mark.parametrize("name", ["headers", "add_headers"])
def test_the_coding_is_not_the_route_s_to_choose(name: str) -> None:
    fields: Any = {"accept-encoding": "br"} if name == "headers" else [("accept-encoding", "br")]
    with pytest.raises(ValueError, match="identity"):
        Gateway("http://a").native("/", inspect=Inspection(), **{name: fields})


async def test_relays_are_counted_by_route(way: Way) -> None:
    if way.is_route:
        pytest.skip("a route has one name")
    async with ScriptedOrigin(Recorder(response=answer("Content-Length: 2", body=b"ok"))) as origin:
        chat = await inspecting(way, origin.url)
        client = await way.connect(chat.relay.port)
        for path in ("/a", "/b"):
            await client.ask(path)
            await chat.end()
        assert list(chat.by_route()) == ["/{path}"]
        assert chat.stats().responses == 2
