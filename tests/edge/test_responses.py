"""How a response comes to the client: its framing, its head, and when its bytes leave."""

import hashlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from penstock.testing import Peer, ScriptedOrigin, respond
from support.client import RawClient, answer
from support.edges import Edges
from support.origins import Steps, once

LARGE = bytes(range(256)) * 4096 * 5
CHUNKED = answer("Transfer-Encoding: chunked")


def chunked(data: bytes, size: int = 70_001) -> bytes:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


FRAMINGS = {
    "length": answer(f"Content-Length: {len(LARGE)}", body=LARGE),
    "chunks": CHUNKED + chunked(LARGE),
    "the end": answer(body=LARGE),
}


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_large_body_arrives_whole_however_it_is_framed(
    anywhere: Edges, framing: str, version: str
) -> None:
    async with ScriptedOrigin(once(FRAMINGS[framing])) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        reply = await client.ask(version=version)
        assert hashlib.sha256(reply.body).digest() == hashlib.sha256(LARGE).digest()
        known = framing == "length"
        assert reply.head.one("Content-Length") == (str(len(LARGE)) if known else None)
        chunks = not known and version == "1.1"
        assert reply.head.one("Transfer-Encoding") == ("chunked" if chunks else None)
        if version == "1.0":
            assert await client.rest() == b""
        else:
            assert reply.head.one("Connection") is None


async def test_http_1_0_that_would_be_kept_is_closed_where_only_that_ends_the_body(edge: Edges) -> None:
    async with ScriptedOrigin(respond(CHUNKED + chunked(b"all"))) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.get("/", "Connection: keep-alive", version="1.0")
        head = await client.head()
        assert head.one("Connection") == "close"
        assert await client.rest() == b"all"


async def test_equal_lengths_given_twice_are_sent_once(edge: Edges) -> None:
    async with ScriptedOrigin(
        respond(answer("Content-Length: 2, 2", "Content-Length: 2", body=b"ok"))
    ) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        reply = await client.ask()
        assert (reply.head.one("Content-Length"), reply.body) == ("2", b"ok")


async def test_an_empty_body_of_each_framing(anywhere: Edges) -> None:
    for data in (answer("Content-Length: 0"), CHUNKED + b"0\r\n\r\n", answer()):
        async with ScriptedOrigin(once(data)) as origin:
            client = await anywhere.connect(await anywhere.relay(origin.url))
            for _ in range(2):
                assert (await client.ask()).body == b""


async def test_interim_responses_go_before_the_final_one(edge: Edges) -> None:
    """RFC 9110, section 15.2: to clients of HTTP/1.1, as they come, and to none of HTTP/1.0."""
    hints = answer("Link: </a.css>; rel=preload", status="103 Early Hints")
    steps = Steps(hints)
    async with ScriptedOrigin(steps) as origin:
        served = await edge.relay(origin.url)
        for version in ("1.1", "1.0"):
            client = await edge.connect(served)
            await client.get(version=version)
            if version == "1.1":
                head = await client.head()
                assert (head.status, head.one("Link")) == (103, "</a.css>; rel=preload")
                assert head.one("Content-Length") is None
            steps.pieces.put_nowait(hints + answer("Content-Length: 2", body=b"ok"))
            steps.pieces.put_nowait(None)
            if version == "1.1":
                assert (await client.head()).status == 103
            head = await client.head()
            assert (head.status, await client.body(head)) == (200, b"ok")


async def test_the_origins_reason_and_fields_pass_as_they_are(anywhere: Edges) -> None:
    head = answer(
        *(
            "Content-Length: 0",
            "X-Many: 1",
            "X-Many: 2",
            "Set-Cookie: a=b",
            "Set-Cookie: c=d",
            "Server: origin",
        ),
        status="299 Rather Odd",
    )
    async with ScriptedOrigin(respond(head)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        got = (await client.ask()).head
        assert (got.status, got.reason) == (299, "Rather Odd")
        assert got.all("X-Many") == ["1", "2"]
        assert got.all("Set-Cookie") == ["a=b", "c=d"]
        assert got.all("Server") == ["origin"]


async def test_a_date_is_added_where_there_is_none(anywhere: Edges) -> None:
    dated = answer("Content-Length: 0", "Date: Sat, 21 Nov 2026 00:00:00 GMT")
    async with ScriptedOrigin(respond(dated)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        assert (await client.ask()).head.all("Date") == ["Sat, 21 Nov 2026 00:00:00 GMT"]
    async with ScriptedOrigin(respond(answer("Content-Length: 0"))) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        before = datetime.now(UTC).replace(microsecond=0)
        (date,) = (await client.ask()).head.all("Date")
        assert date.endswith(" GMT")
        assert before <= parsedate_to_datetime(date) <= datetime.now(UTC)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_an_event_leaves_when_it_is_whole(anywhere: Edges, version: str) -> None:
    steps = Steps(answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream; charset=utf-8"))
    async with ScriptedOrigin(steps) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get(version=version)

        async def event() -> bytes:
            return await client.chunk() if version == "1.1" else await client.reader.readuntil(b"\n\n")

        steps.pieces.put_nowait(b"8\r\ndata: 1\n\r\n")
        steps.pieces.put_nowait(b"9\r\n\ndata: 2\n\r\n1\r\n\n\r\n")
        await client.head()
        received = b""
        while received.count(b"\n\n") < 2:
            received += await event()
            assert received.endswith(b"\n\n")
        assert received == b"data: 1\n\ndata: 2\n\n"
        # The next one is sent only when the last was received: nothing waits for more.
        for number in range(3, 6):
            steps.pieces.put_nowait(b"9\r\ndata: %d\n\n\r\n" % number)
            assert await event() == b"data: %d\n\n" % number
        steps.pieces.put_nowait(b"0\r\n\r\n")
        steps.pieces.put_nowait(None)
        assert (await client.chunk() if version == "1.1" else await client.rest()) == b""


async def test_events_of_a_known_length_keep_it(anywhere: Edges) -> None:
    body = b"data: 1\n\ndata: 2\n\n"
    head = answer(f"Content-Length: {len(body)}", "Content-Type: text/event-stream", body=body)
    async with ScriptedOrigin(respond(head)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for _ in range(2):
            reply = await client.ask()
            assert (reply.head.one("Content-Length"), reply.body) == (str(len(body)), body)


async def test_a_byte_leaves_as_soon_as_it_came(anywhere: Edges) -> None:
    steps = Steps(answer("Content-Length: 3"))
    async with ScriptedOrigin(steps) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get()
        for byte in (b"a", b"b", b"c"):
            steps.pieces.put_nowait(byte)
            if byte == b"a":
                await client.head()
            assert await client.reader.readexactly(1) == byte
        steps.pieces.put_nowait(None)


async def test_responses_of_many_clients_at_once(edge: Edges) -> None:
    async def numbered(peer: Peer) -> None:
        while True:
            request = await peer.request()
            body = request.target.encode() * 10_000
            await peer.send(answer(f"Content-Length: {len(body)}", body=body))

    async with ScriptedOrigin(numbered) as origin:
        served = await edge.relay(origin.url)
        clients: list[RawClient] = [await edge.connect(served) for _ in range(40)]
        for turn in range(3):
            for number, client in enumerate(clients):
                await client.get(f"/{turn}/{number}")
            for number, client in enumerate(clients):
                assert await client.body(await client.head()) == f"/{turn}/{number}".encode() * 10_000
