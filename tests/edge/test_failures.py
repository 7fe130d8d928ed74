"""The origin refuses, stalls, resets, truncates and lies: an answer that says so before the head, a reset after it."""

import asyncio
import json

import pytest

from penstock.config import OriginLimits, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges
from support.origins import Recorder, Steps, end, refusing, says
from support.waiting import until

SHORT = Timeouts(first_byte=0.1, between_bytes=0.1)
CHUNKED = answer("Transfer-Encoding: chunked")
LENGTH = answer("Content-Length: 10")

BEFORE_THE_HEAD = {
    "a close": (b"", "close", 502, "ORIGIN_CLOSED"),
    "a reset": (b"", "reset", 502, "ORIGIN_RESET"),
    "silence": (b"", "stall", 504, "FIRST_BYTE_TIMEOUT"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", "close", 502, "ORIGIN_CLOSED"),
    "silence in the head": (b"HTTP/1.1 200 OK\r\nContent-", "stall", 504, "IO_TIMEOUT"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "stall", 502, "BAD_HEAD"),
    "a line feed alone": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "stall", 502, "BARE_LINE_FEED"),
    "two lengths": (answer("Content-Length: 1", "Content-Length: 2"), "stall", 502, "CONFLICTING_LENGTH"),
    "a length and chunks": (
        answer("Content-Length: 1", "Transfer-Encoding: chunked"),
        "stall",
        502,
        "LENGTH_AND_CHUNKED",
    ),
    "another coding": (answer("Transfer-Encoding: gzip"), "stall", 502, "BAD_TRANSFER_ENCODING"),
    "another protocol": (
        answer("Upgrade: x", status="101 Switching Protocols"),
        "stall",
        502,
        "UNEXPECTED_UPGRADE",
    ),
    "endless interim responses": (answer(status="103 Early Hints") * 20, "stall", 502, "TOO_MANY_INTERIM"),
}

EVENTS = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")

# What the client has received when the rest comes, the rest, and how it ends.
IN_THE_BODY = {
    "a length cut short": (LENGTH + b"half", b"", "close"),
    "a length and a reset": (LENGTH + b"half", b"", "reset"),
    "a length and silence": (LENGTH + b"half", b"", "stall"),
    "a chunk cut short": (CHUNKED + b"4\r\nhalf\r\n", b"a\r\nha", "close"),
    "no last chunk": (CHUNKED + b"4\r\nhalf\r\n", b"", "close"),
    "trailers cut short": (CHUNKED + b"4\r\nhalf\r\n", b"0\r\nX: y\r\n", "close"),
    "chunks and a reset": (CHUNKED + b"4\r\nhalf\r\n", b"", "reset"),
    "chunks and silence": (CHUNKED + b"4\r\nhalf\r\n", b"", "stall"),
    "a size of letters": (CHUNKED + b"4\r\nhalf\r\n", b"x\r\n", "stall"),
    "no framing and a reset": (answer() + b"half", b"", "reset"),
    "no framing and silence": (answer() + b"half", b"", "stall"),
    "events and a reset": (EVENTS + b"6\r\nhalf\n\n\r\n", b"", "reset"),
    "half an event": (EVENTS + b"6\r\nhalf\n\n\r\n", b"4\r\nhalf\r\n", "close"),
}


async def nothing_is_left(edges: Edges, origin: ScriptedOrigin) -> None:
    def used() -> int:
        stats = edges.engine.stats().origins.get(origin.url)
        return 0 if stats is None else stats.active + stats.idle + stats.waiting

    await until(lambda: used() == 0, "the origin's connection is closed")


@pytest.mark.parametrize("fault", BEFORE_THE_HEAD)
async def test_a_failure_before_the_head_is_answered(anywhere: Edges, fault: str) -> None:
    data, then, status, name = BEFORE_THE_HEAD[fault]
    async with ScriptedOrigin(says(data, then=then)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url, timeouts=SHORT))
        await client.get("/secret?token=1")
        while (head := await client.head()).status == 103:
            pass
        assert head.status == status
        assert head.one("Content-Type") == "application/problem+json"
        said = json.loads(await client.body(head))
        assert (said["name"], said["status"]) == (name, status)
        assert "127.0.0.1" not in json.dumps(said)
        assert "secret" not in json.dumps(said)
        await nothing_is_left(anywhere, origin)


async def test_an_origin_that_refuses_connections_is_answered_with_502(anywhere: Edges) -> None:
    with refusing() as url:
        client = await anywhere.connect(await anywhere.relay(url))
        reply = await client.ask()
    assert (reply.head.status, json.loads(reply.body)["name"]) == (502, "CONNECT_FAILED")


async def test_a_name_without_an_address_is_answered_with_502(edge: Edges) -> None:
    client = await edge.connect(await edge.relay("http://nowhere.invalid"))
    reply = await client.ask()
    assert (reply.head.status, json.loads(reply.body)["name"]) == (502, "RESOLVE_FAILED")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("fault", IN_THE_BODY)
async def test_a_failure_in_the_body_is_never_a_clean_end(edge: Edges, fault: str, version: str) -> None:
    first, rest, then = IN_THE_BODY[fault]
    received = asyncio.Event()

    async def break_off(peer: Peer) -> None:
        await peer.request()
        await peer.send(first)
        await received.wait()
        await peer.send(rest)
        await end(peer, then)

    async with ScriptedOrigin(break_off) as origin:
        served = await edge.relay(origin.url, timeouts=Timeouts(between_bytes=0.1))
        client = await edge.connect(served)
        await client.get(version=version)
        await client.reader.readuntil(b"half")
        received.set()
        if first.startswith(EVENTS) and version == "1.1":
            # A reset could overtake the last events; that there is no last chunk says as much.
            assert await client.rest() == b"\n\n\r\n"
            client.abort()
        else:
            with pytest.raises(ConnectionResetError):
                await client.rest()
        await nothing_is_left(edge, origin)
        await until(lambda: served.connections == 0, "the connection is closed")


async def test_an_exchange_that_takes_too_long_is_answered_before_its_head(edge: Edges) -> None:
    async with ScriptedOrigin(Steps(b"")) as origin:
        served = await edge.relay(origin.url, timeouts=Timeouts(total=0.1))
        response = await (await edge.connect(served)).ask()
        assert response.head.status == 504
        assert b"TOTAL_TIMEOUT" in response.body
        await nothing_is_left(edge, origin)


async def test_an_exchange_that_takes_too_long_is_reset_in_its_body(edge: Edges) -> None:
    async with ScriptedOrigin(Steps(LENGTH + b"half")) as origin:
        # Long enough for a busy machine to have passed the head on.
        served = await edge.relay(origin.url, timeouts=Timeouts(total=2))
        client = await edge.connect(served)
        await client.get()
        await client.reader.readuntil(b"half")
        with pytest.raises(ConnectionResetError):
            await client.rest()
        await nothing_is_left(edge, origin)


async def test_a_head_that_was_not_sent_is_replaced_by_the_error(edge: Edges) -> None:
    """The whole of it came at once, and cannot be believed: there is still time to say so."""
    async with ScriptedOrigin(says(CHUNKED + b"4\r\nhalf\r\nx\r\n", then="stall")) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        reply = await client.ask()
        assert (reply.head.status, json.loads(reply.body)["name"]) == (502, "BAD_CHUNK")
        await nothing_is_left(edge, origin)


async def test_bytes_after_a_response_become_no_response(edge: Edges) -> None:
    forged = answer("Content-Length: 4", body=b"half") + answer("Content-Length: 6", body=b"forged")
    async with ScriptedOrigin(says(forged, then="stall"), Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        assert (await client.ask()).body == b"half"
        assert (await client.ask()).body == b"ok"
        assert len(origin.connections) == 2


async def test_a_dead_connection_is_replaced_without_the_clients_notice(edge: Edges) -> None:
    async def one(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 3", body=b"one"))
        await peer.request()
        peer.reset()

    async with ScriptedOrigin(one, Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        assert (await client.ask()).body == b"one"
        assert (await client.ask()).body == b"ok"
        assert len(origin.connections) == 2


async def test_a_client_may_ask_again_after_a_failure(anywhere: Edges) -> None:
    async with ScriptedOrigin(says(b"", then="close"), Recorder()) as origin:
        served = await anywhere.relay(origin.url)
        assert (await (await anywhere.connect(served)).ask()).head.status == 502
        assert (await (await anywhere.connect(served)).ask()).body == b"ok"
        assert len(origin.connections) == 2


async def test_a_queue_that_is_full_is_answered_with_503() -> None:
    import penstock

    limits = OriginLimits(connections=1, waiting=0)
    async with penstock.Engine(memory="4MiB", limits=limits) as engine:
        edges = Edges(engine)
        async with ScriptedOrigin(says(b"", then="stall")) as origin:
            served = await edges.relay(origin.url)
            first: RawClient = await edges.connect(served)
            await first.get()
            await origin.connection()
            reply = await (await edges.connect(served)).ask()
            assert (reply.head.status, reply.head.one("Retry-After")) == (503, "1")
            assert json.loads(reply.body)["name"] == "QUEUE_FULL"
        await edges.close()
