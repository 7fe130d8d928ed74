"""WebSockets: the handshake is the origin's to accept, and then bytes pass both ways until both sides have ended."""

import asyncio

import pytest

from conftest import until
from gateway.client import Head, RawClient, answer
from penstock.config import Edge, Timeouts
from penstock.testing import Peer, ScriptedOrigin

from .origins import Recorder
from .serving import Edges, Served, drained

OFFER = (
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: x",
    "Sec-WebSocket-Version: 13",
)
ACCEPT = answer(
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: y"),
    status="101 Switching Protocols",
)


async def echo(peer: Peer) -> None:
    """Accepts, and sends each byte back in capitals until the peer ends its side."""
    await peer.request()
    await peer.send(ACCEPT)
    while True:
        await peer.send((await peer.read(1)).upper())


async def offered(edge: Edges, served: Served) -> tuple[RawClient, Head]:
    client = await edge.connect(served)
    await client.get("/socket", *OFFER)
    return client, await client.head()


async def test_bytes_pass_both_ways(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        served = await edge.relay(origin.url)
        client, head = await offered(edge, served)
        assert (head.status, head.reason) == (101, "Switching Protocols")
        assert (head.one("Upgrade"), head.one("Connection")) == ("websocket", "Upgrade")
        assert head.one("Sec-WebSocket-Accept") == "y"
        assert (head.one("Content-Length"), head.one("Transfer-Encoding")) == (None, None)
        (request,) = origin.requests
        assert (request.get("Upgrade") or "").lower() == "websocket"
        assert (request.get("Connection") or "").lower() == "upgrade"
        assert request.get("Sec-WebSocket-Key") == "x"
        assert (request.get("Content-Length"), request.get("Transfer-Encoding")) == (None, None)
        for word in (b"hello", b"again", b"x" * 5000):
            await client.send(word)
            assert await client.reader.readexactly(len(word)) == word.upper()


async def test_much_passes_at_the_same_time(edge: Edges) -> None:
    size = 5_000_000

    async def both(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        async with asyncio.TaskGroup() as group:
            group.create_task(peer.send(b"d" * size))
            group.create_task(peer.read(size))
        await peer.send(b"!")

    async with ScriptedOrigin(both) as origin:
        client, _ = await offered(edge, await edge.relay(origin.url))
        sending = asyncio.ensure_future(client.send(b"u" * size))
        assert await client.reader.readexactly(size + 1) == b"d" * size + b"!"
        await sending
        assert origin.connections[0].body_received == size


async def test_what_goes_up_does_not_wait_for_a_client_that_reads_nothing(edge: Edges) -> None:
    """What comes down fills every buffer on its way first."""
    size = 2_000_000

    async def flood(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        down = asyncio.ensure_future(peer.send(bytes(50_000_000)))
        await peer.read(size)
        down.cancel()

    async with ScriptedOrigin(flood) as origin:
        client = await edge.connect(await edge.relay(origin.url), 4096)
        await client.get("/socket", *OFFER)
        await client.head()
        client.writer.transport.pause_reading()
        peer = await origin.connection()
        before, looks = 0, 0

        def is_stuck() -> bool:
            nonlocal before, looks
            looks = looks + 1 if peer.sent == before else 0
            before = peer.sent
            return before > 0 and looks >= 50

        await until(is_stuck, "nothing more goes down")
        assert peer.sent < 50_000_000
        await client.send(b"u" * size)
        await until(lambda: peer.body_received == size, "all has gone up")


async def test_what_comes_before_the_101_waits_for_it(edge: Edges) -> None:
    go = asyncio.Event()
    early: list[bool] = []

    async def late(peer: Peer) -> None:
        await peer.request()
        await go.wait()
        early.append(bool(peer._reader._buffer))  # type: ignore[attr-defined]
        await peer.send(ACCEPT)
        await peer.send((await peer.read(5)).upper())

    async with ScriptedOrigin(late) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.get("/socket", *OFFER)
        await client.send(b"hello")
        await until(lambda: edge.engine.stats().pool.live_bytes > 0, "the bytes are here")
        go.set()
        assert (await client.head()).status == 101
        assert await client.reader.readexactly(5) == b"HELLO"
    assert early == [False]


async def test_what_comes_along_with_the_101_is_passed_on(edge: Edges) -> None:
    async def eager(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT + b"first")
        await peer.stall()

    async with ScriptedOrigin(eager) as origin:
        client, head = await offered(edge, await edge.relay(origin.url))
        assert head.status == 101
        assert await client.reader.readexactly(5) == b"first"


async def test_a_refusal_is_a_response_like_any_other_and_ends_the_connection(edge: Edges) -> None:
    """Bytes of the other protocol may have been read as the tunnel's: none of them is taken for a request."""
    async with ScriptedOrigin(
        Recorder(response=answer("Content-Length: 2", status="403 Forbidden", body=b"no"))
    ) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.get("/socket", *OFFER)
        await client.send(b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        head = await client.head()
        assert (head.status, head.one("Connection"), await client.body(head)) == (403, "close", b"no")
        assert await drained(client) == b""
        assert [request.target for request in origin.requests] == ["/socket"]


async def test_the_origin_ends_the_tunnel(edge: Edges) -> None:
    async def brief(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        await peer.send(await peer.read(3))

    async with ScriptedOrigin(brief) as origin:
        served = await edge.relay(origin.url)
        client, _ = await offered(edge, served)
        await client.send(b"bye")
        assert await client.rest() == b"bye"
        client.abort()
        await until(lambda: served.connections == 0, "the connection is closed")


async def test_the_client_ends_its_side_and_hears_the_rest(edge: Edges) -> None:
    async def polite(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        await peer.wait_left()
        await peer.send(b"goodbye")

    async with ScriptedOrigin(polite) as origin:
        client, _ = await offered(edge, await edge.relay(origin.url))
        client.writer.write_eof()
        assert await client.rest() == b"goodbye"


async def test_the_client_resets_the_tunnel(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        served = await edge.relay(origin.url)
        client, _ = await offered(edge, served)
        client.reset()
        await (await origin.connection()).wait_left()
        await until(lambda: served.connections == 0, "the connection is closed")


async def test_the_origin_resets_the_tunnel(edge: Edges) -> None:
    async def rude(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        await peer.read(1)
        peer.reset()

    async with ScriptedOrigin(rude) as origin:
        client, _ = await offered(edge, await edge.relay(origin.url))
        await client.send(b"x")
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_client_that_only_listens_is_not_given_up(edge: Edges) -> None:
    """The limits of bodies and heads are not for tunnels. The clock is another connection's body, begun later."""
    async with ScriptedOrigin(echo, Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(body_timeout=0.1, head_timeout=0.1, idle_timeout=0.1))
        client, _ = await offered(edge, served)
        for _ in range(2):
            slow = await edge.connect(served)
            await slow.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
            assert (await slow.head()).status == 408
        await client.send(b"a")
        assert await client.reader.readexactly(1) == b"A"


async def test_a_tunnel_that_is_silent_both_ways_ends_with_the_limit_between_bytes(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        client, _ = await offered(edge, await edge.relay(origin.url, timeouts=Timeouts(between_bytes=0.1)))
        with pytest.raises(ConnectionResetError):
            await client.rest()


@pytest.mark.parametrize(
    ("method", "version", "fields"),
    [
        ("GET", "1.1", ("Connection: Upgrade", "Upgrade: h2c")),
        ("GET", "1.1", ("Upgrade: websocket",)),
        ("GET", "1.0", OFFER),
        ("POST", "1.1", (*OFFER, "Content-Length: 0")),
        ("GET", "1.1", ("Connection: Upgrade", "Upgrade: websocket2")),
    ],
    ids=["another protocol", "no Connection", "HTTP/1.0", "another method", "another name"],
)
async def test_other_offers_are_passed_over(
    edge: Edges, method: str, version: str, fields: tuple[str, ...]
) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        reply = await client.ask("/", *fields, method=method, version=version)
        assert (reply.head.status, reply.body) == (200, b"ok")
        (request,) = origin.requests
        assert (request.get("Upgrade"), request.get("Connection")) == (None, None)


async def test_an_origin_that_switches_to_something_else_is_a_failure(edge: Edges) -> None:
    other = answer("Connection: Upgrade", "Upgrade: h2c", status="101 Switching Protocols")
    async with ScriptedOrigin(Recorder(response=other)) as origin:
        _, head = await offered(edge, await edge.relay(origin.url))
        assert head.status == 502


async def test_a_tunnel_outlives_a_drain_and_ends_when_the_site_is_closed(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        served = await edge.relay(origin.url)
        client, _ = await offered(edge, served)
        served.native.drain()
        await client.send(b"a")
        assert await client.reader.readexactly(1) == b"A"
        served.native.close()
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await (await origin.connection()).wait_left()
