"""Bodies of requests on their way up: framing, 100 (Continue), limits, and origins that answer early."""

import asyncio
import json

import pytest

from penstock.config import Edge, RouteLimits
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer, drained
from support.edges import Edges
from support.origins import Recorder
from support.waiting import until

LARGE = bytes(range(256)) * 4096 * 3
LATE = Edge(linger=30)
"""A test that waits for the end of the lingering fails by its deadline."""


def post(*fields: str, target: str = "/", version: str = "1.1") -> bytes:
    return "\r\n".join((f"POST {target} HTTP/{version}", "Host: gateway.test", *fields, "", "")).encode()


def chunks(data: bytes, size: int) -> bytes:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


SENT = {
    "length": post(f"Content-Length: {len(LARGE)}") + LARGE,
    "large chunks": post("Transfer-Encoding: chunked") + chunks(LARGE, 300_000),
    "small chunks": post("Transfer-Encoding: chunked") + chunks(LARGE, 977),
    "chunks with extensions and trailers": post("Transfer-Encoding: chunked")
    + b'5;a=b;c="d;e"\r\nhello\r\n'
    + chunks(LARGE, 1 << 20)[:-2]
    + b"X-Trailer: 1\r\n\r\n",
}


@pytest.mark.parametrize("framing", SENT)
async def test_a_large_body_arrives_whole(anywhere: Edges, framing: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.send(SENT[framing])
        assert await client.body(await client.head()) == b"ok"
        (arrival,) = recorder.arrivals
        expected = b"hello" + LARGE if "trailers" in framing else LARGE
        assert arrival.body == expected
        length, coding = arrival.head.get("Content-Length"), arrival.head.get("Transfer-Encoding")
        assert (length, coding) == ((str(len(LARGE)), None) if framing == "length" else (None, "chunked"))
        assert (await client.ask("/next")).body == b"ok"


async def test_an_empty_body_keeps_its_length(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(post("Content-Length: 0") + post("Transfer-Encoding: chunked") + b"0\r\n\r\n")
        for _ in range(2):
            assert await client.body(await client.head()) == b"ok"
        first, second = recorder.arrivals
        assert (first.head.get("Content-Length"), first.body) == ("0", b"")
        assert second.body == b""


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_client_that_waits_is_told_to_go_on(anywhere: Edges, framing: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for _ in range(2):
            await client.send(post(framing, "Expect: 100-continue"))
            assert (await client.head()).status == 100
            await client.send(b"hello" if "Length" in framing else b"5\r\nhello\r\n0\r\n\r\n")
            head = await client.head()
            assert (head.status, await client.body(head)) == (200, b"ok")
        assert [arrival.body for arrival in recorder.arrivals] == [b"hello"] * 2
        assert recorder.arrivals[0].head.get("Expect") is None, "it has been met here"


@pytest.mark.parametrize(
    "message",
    [
        post("Content-Length: 5", "Expect: 100-continue") + b"hello",
        post("Content-Length: 5", "Expect: 100-continue") + b"h",
        post("Content-Length: 0", "Expect: 100-continue"),
        post("Expect: 100-continue"),
        post("Content-Length: 5", "Expect: 100-continue", version="1.0"),
    ],
    ids=["the body came along", "a part of it came along", "an empty one", "none", "HTTP/1.0"],
)
async def test_a_client_that_does_not_wait_is_told_nothing(edge: Edges, message: bytes) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(message)
        if b"Content-Length: 5" in message:
            missing = 5 - len(message.partition(b"\r\n\r\n")[2])
            await origin.connection()
            await client.send(b"hello"[5 - missing :])
        assert (await client.head()).status == 200


@pytest.mark.parametrize(
    ("edge_config", "limits"),
    [(Edge(max_body=10), None), (Edge(max_body=1000), RouteLimits(body=10)), (Edge(), RouteLimits(body=10))],
    ids=["of the edge", "of the route, below the edge's", "of the route"],
)
async def test_a_body_of_more_than_the_limit_is_refused(
    edge: Edges, edge_config: Edge, limits: RouteLimits | None
) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url, edge=edge_config, limits=limits)
        for message in (
            post("Content-Length: 11", "Expect: 100-continue"),
            post("Content-Length: 11") + b"x" * 11,
            post("Transfer-Encoding: chunked") + b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n",
            post("Transfer-Encoding: chunked") + b"6\r\n123456\r\n5\r\n12345\r\n",
        ):
            client = await edge.connect(served)
            await client.send(message)
            head = await client.head()
            assert head.status == 413, message
            assert json.loads(await client.body(head))["name"] == "REQUEST_TOO_LARGE"
            assert await client.rest() == b""
        assert recorder.arrivals == []
        # As many as the limit pass.
        client = await edge.connect(served)
        await client.send(post("Content-Length: 10") + b"x" * 10)
        assert (await client.head()).status == 200
        await client.send(post("Transfer-Encoding: chunked") + chunks(b"x" * 10, 3))
        assert await client.body(await client.head()) == b"ok"


async def test_a_route_may_allow_more_than_the_edge(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url, edge=Edge(max_body=10), limits=RouteLimits(body=100))
        client = await edge.connect(served)
        await client.send(post("Content-Length: 100") + b"x" * 100)
        assert (await client.head()).status == 200
    assert len(recorder.arrivals[0].body) == 100


@pytest.mark.parametrize("fields", [("Connection: close",), ()])
async def test_an_answer_that_comes_before_the_body_reaches_the_client(
    edge: Edges, fields: tuple[str, ...]
) -> None:
    """The client reads it although it is still sending, and then the connection ends: the rest was never read."""
    response = answer("Content-Length: 3", *fields, status="403 Forbidden", body=b"no!")

    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)
        await peer.stall()

    async with ScriptedOrigin(refuse) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(post("Content-Length: 30000000"))
        head = await client.head()
        assert (head.status, await client.body(head)) == (403, b"no!")
        assert await drained(client) == b""


async def test_a_client_in_the_midst_of_sending_can_read_the_early_answer(edge: Edges) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 3", "Connection: close", status="403 Forbidden", body=b"no!"))

    async with ScriptedOrigin(refuse) as origin:
        client = await edge.connect(await edge.relay(origin.url, edge=LATE))
        body = b"x" * 30_000_000
        sending = asyncio.ensure_future(client.send(post(f"Content-Length: {len(body)}") + body))
        head = await client.head()
        assert (head.status, await client.body(head)) == (403, b"no!")
        await sending
        client.writer.write_eof()
        assert await client.rest() == b""


async def test_an_origin_that_answers_and_reads_on_gets_all_of_it(edge: Edges) -> None:
    received: list[bytes] = []

    async def eager(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Transfer-Encoding: chunked") + b"3\r\nyes\r\n")
        received.append(await peer.read_body())
        await peer.send(b"0\r\n\r\n")

    async with ScriptedOrigin(eager) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(post("Content-Length: 10"))
        head = await client.head()
        assert await client.chunk() == b"yes"
        await client.send(b"0123456789")
        assert await client.chunk() == b""
        assert (head.status, received) == (200, [b"0123456789"])


async def test_an_origin_that_does_not_read_holds_the_client_up(edge: Edges) -> None:
    """What is under way is bounded by the window, not by what the client would send."""
    go = asyncio.Event()
    recorder = Recorder()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await go.wait()
        size = len(await peer.read_body())
        await peer.send(answer(f"Content-Length: {len(str(size))}", body=str(size).encode()))

    async with ScriptedOrigin(slow) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        body = b"x" * 40_000_000
        sending = asyncio.ensure_future(client.send(post(f"Content-Length: {len(body)}") + body))
        await origin.connection()
        await until(lambda: edge.engine.stats().pool.live_bytes > 0, "the body is on its way")
        assert not sending.done()
        go.set()
        await sending
        assert await client.body(await client.head()) == b"40000000"
        assert edge.engine.stats().pool.peak_bytes < 4 << 20
    assert not recorder.arrivals


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_body_that_stops_coming_is_given_up(edge: Edges, framing: str) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(body_timeout=0.1))
        client = await edge.connect(served)
        await client.send(post(framing) + (b"he" if "Length" in framing else b"2\r\nhe\r\n"))
        head = await client.head()
        assert head.status == 408
        assert json.loads(await client.body(head))["name"] == "REQUEST_TIMEOUT"
        assert await client.rest() == b""
        await (await origin.connection()).wait_left()


async def test_a_body_cut_short_never_looks_whole_to_the_origin(edge: Edges) -> None:
    for framing, part in (("Content-Length: 5", b"he"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n")):
        recorder = Recorder()
        async with ScriptedOrigin(recorder) as origin:
            client: RawClient = await edge.connect(await edge.relay(origin.url))
            await client.send(post(framing) + part)
            peer = await origin.connection()
            client.writer.write_eof()
            await peer.wait_left()
            with pytest.raises((ConnectionResetError, EOFError)):
                await client.head()
        assert recorder.arrivals == []


@pytest.mark.parametrize("behind", [b"\r\n", b"GET /hal"], ids=["an empty line", "half a head"])
async def test_requests_that_wait_after_a_large_body_hold_no_large_slab(edge: Edges, behind: bytes) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(SENT["length"] + behind)
        assert await client.body(await client.head()) == b"ok"
        await until(lambda: edge.engine.stats().pool.live_bytes <= 4096, "what is left moves to a small slab")
