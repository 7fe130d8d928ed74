"""WebSockets: the handshake is the origin's to accept, and then bytes pass both ways until both sides have ended."""

import asyncio
import json

import pytest

from penstock.config import Edge, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import Head, RawClient, answer, drained
from support.edges import Edges, Served
from support.origins import Recorder
from support.waiting import until
from support.websocket import ACCEPTING, echoes, moves_both_ways

OFFER = (
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)


def switching(*fields: str) -> bytes:
    return answer(*fields, status="101 Switching Protocols")


ACCEPT = switching("Connection: Upgrade", "Upgrade: websocket", ACCEPTING)

echo = echoes(ACCEPT)


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
        assert head.one("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert (head.one("Content-Length"), head.one("Transfer-Encoding")) == (None, None)
        (request,) = origin.requests
        assert (request.get("Upgrade") or "").lower() == "websocket"
        assert (request.get("Connection") or "").lower() == "upgrade"
        assert request.get("Sec-WebSocket-Key") == "dGhlIHNhbXBsZSBub25jZQ=="
        assert (request.get("Content-Length"), request.get("Transfer-Encoding")) == (None, None)
        for word in (b"hello", b"again", b"x" * 5000):
            await client.send(word)
            assert await client.reader.readexactly(len(word)) == word.upper()


async def test_a_native_route_passes_them_on_every_server(anywhere: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        client, head = await offered(anywhere, await anywhere.relay(origin.url))
        assert (head.status, head.one("Upgrade")) == (101, "websocket")
        await client.send(b"hello")
        assert await client.reader.readexactly(5) == b"HELLO"


async def test_much_passes_at_the_same_time(edge: Edges) -> None:
    size = 5_000_000

    async with ScriptedOrigin(moves_both_ways(ACCEPT, size)) as origin:
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


async def test_a_tunnel_that_is_silent_both_ways_ends_with_a_limit_of_its_own(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        client, _ = await offered(edge, await edge.relay(origin.url, timeouts=Timeouts(tunnel=0.1)))
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_tunnel_is_not_limited_by_what_is_for_bodies(edge: Edges) -> None:
    """The clock is another connection's body, which the same limit ends."""

    async def script(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(ACCEPT if request.target == "/socket" else answer("Content-Length: 5"))
        while request.target == "/socket":
            await peer.send((await peer.read(1)).upper())
        await peer.stall()

    async with ScriptedOrigin(script) as origin:
        served = await edge.relay(origin.url, timeouts=Timeouts(between_bytes=0.1))
        client, _ = await offered(edge, served)
        for _ in range(3):
            slow = await edge.connect(served)
            await slow.get("/")
            with pytest.raises(ConnectionResetError):
                await slow.rest()
        await client.send(b"a")
        assert await client.reader.readexactly(1) == b"A"


async def test_a_tunnel_on_which_only_the_client_sends_goes_on(edge: Edges) -> None:
    """The clock is a tunnel on which nothing passes: by when it has ended, three times, the other would have."""
    silent = asyncio.Event()

    async def listens(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPT)
        while await peer.read(1) != b".":
            pass
        await peer.send(b"!")
        silent.set()

    async with ScriptedOrigin(listens) as origin:
        served = await edge.relay(origin.url, timeouts=Timeouts(tunnel=0.2))
        client, _ = await offered(edge, served)

        async def send() -> None:
            while True:
                await client.send(b"x")
                await asyncio.sleep(0.01)

        sending = asyncio.ensure_future(send())
        try:
            for _ in range(3):
                other, _ = await offered(edge, served)
                with pytest.raises(ConnectionResetError):
                    await other.rest()
        finally:
            sending.cancel()
        await client.send(b".")
        assert await client.reader.readexactly(1) == b"!"
    assert silent.is_set()


@pytest.mark.parametrize(
    ("method", "version", "fields"),
    [
        ("GET", "1.1", ("Connection: Upgrade", "Upgrade: h2c")),
        ("GET", "1.1", ("Upgrade: websocket",)),
        ("GET", "1.0", OFFER),
        ("POST", "1.1", (*OFFER, "Content-Length: 0")),
        ("GET", "1.1", ("Connection: Upgrade", "Upgrade: websocket2")),
        ("GET", "1.1", (*OFFER[:2], OFFER[3])),
        ("GET", "1.1", (*OFFER[:2], "Sec-WebSocket-Key: x", OFFER[3])),
        ("GET", "1.1", (*OFFER[:2], "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==", OFFER[3])),
        ("GET", "1.1", (*OFFER, OFFER[2])),
        ("GET", "1.1", OFFER[:3]),
        ("GET", "1.1", (*OFFER[:3], "Sec-WebSocket-Version: 8")),
        ("GET", "1.1", (*OFFER[:3], "Sec-WebSocket-Version: 13, 8")),
        ("GET", "1.1", (*OFFER, OFFER[3])),
    ],
    ids=[
        *("another protocol", "no Connection", "HTTP/1.0", "another method", "another name"),
        *("no key", "no base64", "a short key", "two keys", "no version", "another version", "two", "twice"),
    ],
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


@pytest.mark.parametrize(
    "fields",
    [
        ("Connection: Upgrade", "Upgrade: h2c", ACCEPTING),
        ("Connection: Upgrade", "Upgrade: websocket"),
        ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: y"),
        ("Connection: Upgrade", "Upgrade: websocket", ACCEPTING, ACCEPTING),
        ("Connection: close", "Upgrade: websocket", ACCEPTING),
        ("Connection: Upgrade", ACCEPTING),
        ("Connection: Upgrade", "Upgrade: websocket", ACCEPTING, "Sec-WebSocket-Protocol: chat"),
        ("Connection: Upgrade", "Upgrade: websocket", ACCEPTING, "Sec-WebSocket-Extensions: x"),
    ],
    ids=[
        *("another protocol", "no answer", "another answer", "two answers", "no Connection", "no Upgrade"),
        *("a protocol that was not offered", "an extension that was not offered"),
    ],
)
async def test_an_origin_that_does_not_take_up_the_offer_is_no_tunnel(
    edge: Edges, fields: tuple[str, ...]
) -> None:
    async with ScriptedOrigin(Recorder(response=switching(*fields) + b"hidden")) as origin:
        client, head = await offered(edge, await edge.relay(origin.url))
        assert head.status == 502
        assert json.loads(await client.body(head))["name"] == "UNEXPECTED_UPGRADE"


async def test_what_was_offered_may_be_taken_up(edge: Edges) -> None:
    fields = (
        "Sec-WebSocket-Protocol: b",
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover",
    )

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(
            switching("Connection: keep-alive, Upgrade", "Upgrade: WebSocket", ACCEPTING, *fields)
        )
        await peer.send(await peer.read(2))

    async with ScriptedOrigin(script) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.get(
            "/", *OFFER, "Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Extensions: permessage-deflate"
        )
        assert (await client.head()).status == 101
        await client.send(b"hi")
        assert await client.rest() == b"hi"


async def test_a_tunnel_outlives_a_drain_and_ends_when_the_site_is_closed(edge: Edges) -> None:
    async with ScriptedOrigin(echo) as origin:
        served = await edge.relay(origin.url)
        client, _ = await offered(edge, served)
        served.native.drain(0.0)
        await client.send(b"a")
        assert await client.reader.readexactly(1) == b"A"
        served.native.close()
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await (await origin.connection()).wait_left()
