"""Which bytes of a request reach the origin, however they arrive, and whether the connection stays open."""

import asyncio
import random

import pytest

from penstock.testing import ScriptedOrigin, respond
from support.client import RawClient, answer, drained
from support.edges import Edges
from support.origins import Recorder

HOST = b"Host: gateway.test\r\n"


async def replies(client: RawClient, count: int, method: str = "GET") -> list[bytes]:
    """The bodies of `count` responses, all of them 200."""
    found = []
    for _ in range(count):
        head = await client.head()
        assert head.status == 200
        found.append(await client.body(head, method))
    return found


async def test_a_connection_serves_one_request_after_the_other(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for number in range(3):
            reply = await client.ask(f"/{number}?q={number}")
            assert reply.head.status == 200
            assert reply.head.one("Connection") is None
            assert reply.body == b"ok"
        assert [arrival.head.target for arrival in recorder.arrivals] == ["/0?q=0", "/1?q=1", "/2?q=2"]
        assert len(origin.connections) == 1
        assert await drained(client) == b""


async def test_requests_of_one_segment_are_answered_in_their_order(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.send(
            b"".join(
                b"POST /%d HTTP/1.1\r\n%sContent-Length: 1\r\n\r\n%d" % (number, HOST, number)
                for number in range(9)
            )
        )
        assert await replies(client, 9) == [b"ok"] * 9
        assert [(arrival.head.target, arrival.body) for arrival in recorder.arrivals] == [
            (f"/{number}", b"%d" % number) for number in range(9)
        ]


async def test_more_heads_than_one_read_holds(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        padding = b"x" * 1000
        await client.send(
            b"".join(b"GET /%d HTTP/1.1\r\n%sX: %s\r\n\r\n" % (number, HOST, padding) for number in range(50))
        )
        await replies(client, 50)
        assert [arrival.head.target for arrival in recorder.arrivals] == [f"/{n}" for n in range(50)]


async def test_a_head_and_a_body_that_come_byte_by_byte(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        message = (
            b"POST /drip HTTP/1.1\r\n"
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
        )
        for byte in message:
            await client.send(bytes((byte,)))
        assert await replies(client, 1) == [b"ok"]
        assert recorder.arrivals[0].body == b"abcde"
        assert (await client.ask("/next")).body == b"ok"


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
async def test_a_body_and_the_next_head_in_one_segment(anywhere: Edges, body: bytes) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.send(b"POST /first HTTP/1.1\r\n" + HOST)
        await client.send(body + b"GET /second HTTP/1.1\r\n" + HOST + b"\r\n")
        await replies(client, 2)
        assert [(arrival.head.target, arrival.body) for arrival in recorder.arrivals] == [
            ("/first", b"hello"),
            ("/second", b""),
        ]


async def test_http_1_0_closes_unless_asked_to_keep_the_connection(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.relay(origin.url)
        client = await anywhere.connect(served)
        reply = await client.ask(version="1.0")
        assert (reply.head.status, reply.body) == (200, b"ok")
        assert await client.rest() == b""

        kept = await anywhere.connect(served)
        for _ in range(2):
            reply = await kept.ask("/", "Connection: Keep-Alive", version="1.0")
            assert (reply.head.one("Connection") or "").lower() == "keep-alive"
            assert reply.body == b"ok"


async def test_http_1_0_without_a_host(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.send(b"GET /old HTTP/1.0\r\n\r\n")
        assert await replies(client, 1) == [b"ok"]
        assert await client.rest() == b""
        (request,) = origin.requests
        assert request.get("Host") == f"127.0.0.1:{origin.port}"


async def test_close_is_honoured_and_said(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.get("/last", "Connection: close")
        head = await client.head()
        assert (head.one("Connection") or "").lower() == "close"
        assert await client.body(head) == b"ok"
        assert await client.rest() == b""
        assert origin.requests[0].get("Connection") is None, "it is of the hop"


async def test_requests_after_connection_close_are_not_read(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(
            b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\nGET /b HTTP/1.1\r\n" + HOST + b"\r\n"
        )
        await replies(client, 1)
        assert await client.rest() == b""
        assert [arrival.head.target for arrival in recorder.arrivals] == ["/a"]


async def test_head_gets_the_head_alone(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for _ in range(2):
            await client.get("/it", method="HEAD")
            head = await client.head()
            assert (head.status, head.one("Content-Length")) == (200, "2")
        assert (await client.ask("/it")).body == b"ok"


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_statuses_without_a_body(anywhere: Edges, status: str) -> None:
    async with ScriptedOrigin(respond(answer("ETag: x", status=status))) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for _ in range(2):
            await client.get()
            head = await client.head()
            assert f"{head.status} {head.reason}" == status
            assert head.one("ETag") == "x"
            assert head.one("Transfer-Encoding") is None


async def test_a_304_says_how_long_a_200_would_be(edge: Edges) -> None:
    async with ScriptedOrigin(respond(answer("Content-Length: 1234", status="304 Not Modified"))) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        for _ in range(2):
            await client.get()
            assert (await client.head()).one("Content-Length") == "1234"


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("http://a.test/p?q", "/p?q"),
        ("HTTP://a.test/p", "/p"),
        ("http://a.test", "/"),
        ("http://a.test/", "/"),
        ("http://a.test?q=1", "/?q=1"),
    ],
)
async def test_absolute_form_names_the_host_and_is_sent_in_origin_form(
    edge: Edges, target: str, sent: str
) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        assert (await client.ask(target)).head.status == 200
        (request,) = origin.requests
        assert (request.target, request.get("X-Forwarded-Host")) == (sent, "a.test")


async def test_options_of_the_whole_server_matches_no_native_route(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url)
        for target in ("*", "http://a.test"):
            client = await edge.connect(served)
            assert (await client.ask(target, method="OPTIONS")).head.status == 404
        client = await edge.connect(served)
        assert (await client.ask("/p", method="OPTIONS")).head.status == 200
    assert [arrival.head.target for arrival in recorder.arrivals] == ["/p"]


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"]
)
async def test_methods_go_through(edge: Edges, method: str) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        assert (await client.ask(method=method)).head.status == 200
        assert origin.requests[0].method == method


async def test_a_client_that_leaves_within_a_head_loses_no_response(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.get()
        assert await client.reader.readexactly(1) == b"H"
        await client.send(b"GET /hal")
        client.writer.write_eof()
        assert (await client.rest()).endswith(b"\r\n\r\nok"), "and the end is no reset"


async def test_an_empty_line_after_a_body_is_skipped(edge: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        for _ in range(2):
            await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nhi\r\n")
            await replies(client, 1)
        assert await drained(client) == b""
    assert [arrival.body for arrival in recorder.arrivals] == [b"hi", b"hi"]


@pytest.mark.parametrize("size", [1, 1000, 60_000])
async def test_a_large_head_arrives_whole_however_it_is_cut(edge: Edges, size: int) -> None:
    value = "".join(chr(97 + index % 26) for index in range(60_000))
    message = f"GET /large HTTP/1.1\r\nHost: a\r\nX-Large: {value}\r\n\r\n".encode()
    if size == 1:
        message = message.replace(value.encode(), value[:3000].encode())
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        for _ in range(2):
            for start in range(0, len(message), size):
                await client.send(message[start : start + size])
            assert await replies(client, 1) == [b"ok"]
        sent = value if size > 1 else value[:3000]
        assert [request.get("X-Large") for request in origin.requests] == [sent] * 2


async def test_no_more_fields_than_the_limit(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        for count, status in ((127, 200), (128, 431)):
            client = await edge.connect(served)
            assert (
                await client.ask("/", *(f"X-{number}: 1" for number in range(count)))
            ).head.status == status


@pytest.mark.parametrize("seed", range(10))
async def test_requests_do_not_depend_on_where_they_are_cut(edge: Edges, seed: int) -> None:
    """Random requests in a row, in random segments, with the responses read meanwhile."""
    chance = random.Random(seed)
    expected = []
    message = b""
    for number in range(30):
        body = chance.randbytes(chance.choice((0, 1, 10, 1000, 70_000)))
        target = f"/{number}?{'q' * chance.randrange(300)}"
        expected.append((target, body))
        if chance.random() < 0.5:
            framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        else:
            framed = b"Transfer-Encoding: chunked\r\n\r\n"
            start = 0
            while start < len(body):
                piece = body[start : start + chance.randrange(1, 20_000)]
                framed += b"%x;x=y\r\n%s\r\n" % (len(piece), piece)
                start += len(piece)
            framed += b"0\r\nX-Trailer: 1\r\n\r\n"
        message += f"POST {target} HTTP/1.1\r\n".encode() + HOST + framed
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))

        async def send() -> None:
            start = 0
            while start < len(message):
                size = chance.choice((1, 2, 3, 100, 4096, 50_000))
                await client.send(message[start : start + size])
                start += size

        sending = asyncio.ensure_future(send())
        assert await replies(client, 30) == [b"ok"] * 30
        await sending
    assert [(arrival.head.target, arrival.body) for arrival in recorder.arrivals] == expected
