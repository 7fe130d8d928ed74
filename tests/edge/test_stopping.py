"""A site is drained, and then closed: what is under way ends whole, or in time, and never as if it had been whole."""

import asyncio
import contextlib
import json

import pytest

import penstock
from penstock.config import Edge
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.edges import Edges, Served
from support.origins import Recorder, Steps
from support.sockets import is_ending
from support.waiting import until

EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")
LENGTH = answer("Content-Length: 4")


async def test_idle_connections_end_and_new_ones_are_refused(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        fresh, used, blank = [await edge.connect(served) for _ in range(3)]
        for client in (used, blank):
            assert (await client.ask()).body == b"ok"
        await blank.send(b"\r\n")
        await until(lambda: served.connections == 3, "all are accepted")
        served.native.drain(0.0)
        for client in (fresh, used, blank):
            assert await client.rest() == b""
        await until(lambda: served.connections == 0, "every connection has ended")
        with pytest.raises(ConnectionRefusedError):
            while True:
                # One that was in the queue when the listener closed is reset.
                try:
                    late = await edge.connect(served)
                    await late.get()
                    await late.rest()
                except ConnectionResetError:
                    continue


async def test_a_response_that_has_not_begun_says_that_it_is_the_last(edge: Edges) -> None:
    go = asyncio.Event()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await go.wait()
        await peer.send(LENGTH + b"done")

    async with ScriptedOrigin(slow) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get()
        await origin.connection()
        served.native.drain(0.0)
        go.set()
        head = await client.head()
        assert (head.status, head.one("Connection")) == (200, "close")
        assert await client.rest() == b"done"


async def test_a_response_that_has_begun_is_finished(edge: Edges) -> None:
    steps = Steps(LENGTH)
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get()
        steps.pieces.put_nowait(b"do")
        await client.head()
        assert await client.reader.readexactly(2) == b"do"
        served.native.drain(0.0)
        steps.pieces.put_nowait(b"ne")
        steps.pieces.put_nowait(None)
        assert await client.rest() == b"ne"


async def test_an_answer_that_waits_for_its_client_is_whole_although_it_asks_again(edge: Edges) -> None:
    body = bytes(20_000)
    recorder = Recorder(response=answer(f"Content-Length: {len(body)}", body=body))
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served, receive_buffer=2048)
        client.writer.transport.pause_reading()
        await client.get()
        await until(lambda: served.requests == 1 and served.native.active() == 0, "all is written")
        served.native.drain(0.0)
        other = client.writer.get_extra_info("sockname")[1]
        await until(lambda: is_ending(served.port, other), "the end waits for the rest of the answer")
        # To a socket that is closed this would be answered by a reset, which takes what is not sent yet.
        await client.get()
        client.writer.transport.resume_reading()
        assert await client.body(await client.head()) == body
        assert await client.rest() == b""
        assert len(recorder.arrivals) == 1


async def test_a_request_that_has_begun_is_served(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        client, other = await edge.connect(served), await edge.connect(served)
        for each in (client, other):
            await each.ask()
        await until(lambda: edge.engine.stats().pool.live_bytes == 0, "both are idle")
        await client.send(b"GET / HT")
        await until(lambda: edge.engine.stats().pool.live_bytes > 0, "the beginning is read")
        served.native.drain(0.0)
        assert await other.rest() == b""
        await client.send(b"TP/1.1\r\nHost: a\r\n\r\n")
        head = await client.head()
        assert (head.one("Connection"), await client.body(head)) == ("close", b"ok")
        assert await client.rest() == b""


async def test_an_event_stream_goes_on_while_the_site_is_drained_and_ends_cleanly_when_it_is_closed(
    edge: Edges,
) -> None:
    """Behind a whole event, whatever of the next one has come."""
    steps = Steps(EVENTS)
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get()
        steps.pieces.put_nowait(b"9\r\ndata: 1\n\n\r\n")
        await client.head()
        assert await client.chunk() == b"data: 1\n\n"
        served.native.drain(0.0)
        steps.pieces.put_nowait(b"9\r\ndata: 2\n\n\r\n")
        assert await client.chunk() == b"data: 2\n\n"
        steps.pieces.put_nowait(b"10\r\ndata: 3\n\ndata: 4\r\n")
        assert await client.chunk() == b"data: 3\n\n"
        served.native.close()
        assert await client.chunk() == b""
        assert await client.rest() == b""
        await (await origin.connection()).wait_left()


async def test_an_event_stream_of_http_1_0_ends_after_a_whole_event(edge: Edges) -> None:
    steps = Steps(EVENTS)
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get(version="1.0")
        steps.pieces.put_nowait(b"10\r\ndata: 1\n\ndata: 2\r\n")
        await client.head()
        assert await client.reader.readexactly(9) == b"data: 1\n\n"
        served.native.close()
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (answer("Content-Length: 10"), b"half"),
        (answer("Transfer-Encoding: chunked"), b"4\r\nhalf\r\n"),
        (answer(), b"half"),
        (answer("Content-Length: 18", "Content-Type: text/event-stream"), b"data: half\n\n"),
        (
            answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream", "Content-Encoding: gzip"),
            b"4\r\nhalf\r\n",
        ),
    ],
    ids=["length", "chunks", "until close", "events of a known length", "coded events"],
)
async def test_other_bodies_are_cut_off_when_the_site_is_closed(
    edge: Edges, head: bytes, piece: bytes
) -> None:
    steps = Steps(head)
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get()
        steps.pieces.put_nowait(piece)
        await client.reader.readuntil(b"half")
        served.native.close()
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await (await origin.connection()).wait_left()


async def test_what_was_not_answered_when_the_site_is_closed_is_told_to_come_again(edge: Edges) -> None:
    async with ScriptedOrigin(Steps(b"")) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get()
        await origin.connection()
        served.native.close()
        head = await client.head()
        assert (head.status, head.one("Retry-After")) == (503, "1")
        assert json.loads(await client.body(head))["name"] == "DRAINING"
        assert await client.rest() == b""


async def test_a_client_that_takes_nothing_does_not_hold_the_end_up(edge: Edges) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        while True:
            await peer.send(b"400\r\n" + b"data: " + b"x" * 1016 + b"\n\n\r\n")

    async with ScriptedOrigin(endless) as origin:
        served = await edge.relay(origin.url, edge=Edge(linger=0.1, write_timeout=None))
        client = await edge.connect(served, 4096)
        client.writer.transport.pause_reading()
        await client.get()
        peer = await origin.connection()
        await until(lambda: peer.sent > 1_000_000, "the client's window is full")
        served.native.close()
        await until(lambda: served.connections == 0, "the connection has ended")
        client.writer.transport.resume_reading()
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_draining_and_closing_may_be_asked_for_twice(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        assert (await (await edge.connect(served)).ask()).body == b"ok"
        for _ in range(2):
            served.native.drain(0.0)
        for _ in range(2):
            served.native.close()
        served.native.drain(0.0)
        await until(lambda: served.connections == 0, "every connection has ended")


@pytest.mark.parametrize("threads", [1, 3])
async def test_an_engine_that_is_closed_takes_its_sites_with_it(threads: int) -> None:
    """Clients see the end of their connections, and the site says that it can do no more."""
    async with ScriptedOrigin(Steps(LENGTH)) as origin:
        async with penstock.Engine(memory="4MiB", threads=threads) as engine:
            edges = Edges(engine)
            served = await edges.relay(origin.url)
            idle, busy, reading = [await edges.connect(served) for _ in range(3)]
            await busy.get()
            await busy.head()
            await reading.send(b"GET / HT")
        for client in (idle, busy, reading):
            with contextlib.suppress(ConnectionError):
                assert await client.rest() == b""
        with pytest.raises(penstock.PenstockError) as raised:
            served.native.listen_tcp("127.0.0.1", 0)
        assert raised.value.name == "ENGINE_CLOSED"
        served.native.drain(0.0)
        await edges.close()


async def test_a_site_that_has_been_drained_listens_to_nothing_more(edge: Edges) -> None:
    site = edge.site([])
    site.drain(0.0)
    _, port = site.listen_tcp("127.0.0.1", 0)
    with pytest.raises(ConnectionError):
        await (await edge.connect(Served(port, site))).ask()


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_what_is_under_way_when_the_engine_is_closed_is_cut_off(version: str) -> None:
    """Without its last chunk, or by a reset where the end of the connection would be the end of the body."""
    steps = Steps(answer())
    async with ScriptedOrigin(steps) as origin:
        async with penstock.Engine(memory="4MiB") as engine:
            edges = Edges(engine)
            served = await edges.relay(origin.url)
            client = await edges.connect(served)
            await client.get(version=version)
            steps.pieces.put_nowait(b"half")
            await client.reader.readuntil(b"half")
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await edges.close()
