"""The client leaves: the origin's connection is closed at once, or read on up to a limit, and nothing stays behind."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges
from support.origins import says
from support.waiting import until

LEAVE: dict[str, Callable[[RawClient], None]] = {
    "closing": RawClient.abort,
    "resetting": RawClient.reset,
    "ending its side": lambda client: client.writer.write_eof(),
}
EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")


async def gone(edge: Edges, peer: Peer) -> None:
    await peer.wait_left()
    await until(lambda: edge.engine.stats().streams == 0, "the stream has ended")


@pytest.mark.parametrize("how", LEAVE)
async def test_leaving_before_the_head(anywhere: Edges, how: str) -> None:
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get()
        peer = await origin.connection()
        LEAVE[how](client)
        await gone(anywhere, peer)


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize(
    "data",
    [answer("Content-Length: 10", body=b"half"), EVENTS + b"6\r\nhalf\n\n\r\n", answer(body=b"half")],
    ids=["length", "events", "until close"],
)
async def test_leaving_in_the_midst_of_a_response_that_pauses(anywhere: Edges, data: bytes, how: str) -> None:
    async with ScriptedOrigin(says(data, then="stall")) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get()
        await client.reader.readuntil(b"half")
        LEAVE[how](client)
        await gone(anywhere, await origin.connection())


@pytest.mark.parametrize("how", ["closing", "resetting"])
async def test_a_client_that_leaves_while_the_origin_sends_ends_the_fetch(anywhere: Edges, how: str) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer())
        while True:
            await peer.send(b"x" * 65536)

    async with ScriptedOrigin(endless) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get()
        await client.head()
        LEAVE[how](client)
        peer = await origin.connection()
        await until(lambda: peer.left, "the origin sees that no client reads")
        await gone(anywhere, peer)


@pytest.mark.parametrize("how", LEAVE)
async def test_leaving_in_the_midst_of_an_upload(edge: Edges, how: str) -> None:
    received: list[bytes] = []

    async def take(peer: Peer) -> None:
        await peer.request()
        received.append(await peer.read_body())

    async with ScriptedOrigin(take) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        peer = await origin.connection()
        LEAVE[how](client)
        await gone(edge, peer)
    assert received == []


async def test_a_reset_after_an_upload_that_is_not_read_is_noticed(edge: Edges) -> None:
    """The window is full and the socket is not read: nothing but the reset itself says so, and no limit is over yet."""
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get("/", "Content-Length: 1000000000", method="POST")
        transport = client.writer.transport
        transport.set_write_buffer_limits(high=1)
        while not await stands_still(client):
            client.writer.write(bytes(1 << 20))
        client.reset()
        await until(lambda: served.connections == 0, "the connection has ended")
        await until(lambda: edge.engine.stats().streams == 0, "both streams have ended")
        (await origin.connection()).abort()


async def stands_still(client: RawClient) -> bool:
    """Whether the kernel takes nothing more of what is written, for as long as a busy machine may need to."""
    transport = client.writer.transport
    before = -1
    for _ in range(20):
        if not (waiting := transport.get_write_buffer_size()):
            return False
        if waiting != before:
            before = waiting
        await asyncio.sleep(0.01)
    return transport.get_write_buffer_size() == before


async def test_a_reset_after_pipelined_requests_is_noticed(edge: Edges) -> None:
    async with ScriptedOrigin(says(answer("Content-Length: 10", body=b"half"), then="stall")) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        request = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
        await client.send(request * 1000)
        await client.reader.readuntil(b"half")
        client.reset()
        await gone(edge, await origin.connection())


async def test_leaving_with_another_request_in_the_pipeline(edge: Edges) -> None:
    """A reset is seen at once; what waits for the response is dropped with it."""
    async with ScriptedOrigin(says(answer("Content-Length: 10", body=b"half"), then="stall")) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.reader.readuntil(b"half")
        client.reset()
        await gone(edge, await origin.connection())
        assert [request.target for request in origin.requests] == ["/1"]


async def test_many_that_leave_at_once_leave_nothing(edge: Edges) -> None:
    async with ScriptedOrigin(says(EVENTS + b"6\r\nhalf\n\n\r\n", then="stall")) as origin:
        served = await edge.relay(origin.url)
        clients = [await edge.connect(served) for _ in range(100)]
        for client in clients:
            await client.get()
        for client in clients:
            await client.reader.readuntil(b"half")
        assert edge.engine.stats().streams == 100
        for client in clients:
            client.reset()
        for index in range(100):
            await (await origin.connection(index)).wait_left()
        await until(lambda: served.connections == 0, "every connection is closed")
        await until(lambda: edge.engine.stats().streams == 0, "every stream has ended")


@pytest.mark.parametrize("before", ["the head", "the rest of the body"])
async def test_a_route_that_drains_lets_the_origin_finish(anywhere: Edges, before: str) -> None:
    go = asyncio.Event()
    finished = asyncio.Event()
    size = 3_000_000
    head = answer(f"Content-Length: {size}")

    async def slow(peer: Peer) -> None:
        await peer.request()
        if before != "the head":
            await peer.send(head)
        await go.wait()
        if before == "the head":
            await peer.send(head)
        await peer.send(b"x" * size)
        # Kept for another request: it was read to its end.
        await peer.request()
        finished.set()
        await peer.send(answer("Content-Length: 2", body=b"ok"))

    async with ScriptedOrigin(slow) as origin:
        served = await anywhere.relay(origin.url, drain="4MiB")
        client = await anywhere.connect(served)
        await client.get()
        await origin.connection()
        if before != "the head":
            await client.head()
        client.reset()
        await until(lambda: origin.requests, "the request is there")
        go.set()
        await until(lambda: idle(anywhere, origin) == 1, "the origin's connection is kept")
        assert (await (await anywhere.connect(served)).ask()).body == b"ok"
        assert finished.is_set()
        assert len(origin.connections) == 1


async def test_a_route_drains_no_more_than_its_limit(anywhere: Edges) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer())
        while True:
            await peer.send(b"x" * 65536)

    async with ScriptedOrigin(endless) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url, drain="1MiB"))
        await client.get()
        await client.head()
        client.reset()
        peer = await origin.connection()
        await until(lambda: peer.left, "the origin is left")
        # The limit, and what lay in sockets and windows on both sides.
        assert 1 << 20 <= peer.sent < 40 << 20


def idle(edge: Edges, origin: ScriptedOrigin) -> int:
    stats = edge.engine.stats().origins.get(origin.url)
    return 0 if stats is None else stats.idle
