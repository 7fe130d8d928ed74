"""What the edge itself refuses: one status and code for each fault, readable by a client that is still sending."""

import asyncio
import json

import pytest

from penstock.config import Edge, RouteLimits
from penstock.testing import ScriptedOrigin, respond
from support.client import answer
from support.edges import Edges
from support.origins import Recorder
from support.waiting import until

HOST = b"Host: gateway.test\r\n"
TIGHT = Edge(line_bytes=200, head_bytes=1024, head_fields=8, max_body=100, linger=30)

REFUSED = {
    "a bad head": (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "BAD_REQUEST_HEAD"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "BAD_HOST"),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "BAD_HOST"),
    "two lengths": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
        "BAD_REQUEST_FRAMING",
    ),
    "a bad chunk": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
        400,
        "BAD_REQUEST_BODY",
    ),
    "no route": (b"GET /nowhere/../x HTTP/1.1\r\n" + HOST + b"\r\n", 404, "NO_ROUTE"),
    "a large body": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 101\r\n\r\n",
        413,
        "REQUEST_TOO_LARGE",
    ),
    "a long target": (b"GET /" + b"x" * 300 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, "TARGET_TOO_LONG"),
    "an expectation": (b"GET / HTTP/1.1\r\n" + HOST + b"Expect: x\r\n\r\n", 417, "EXPECTATION_FAILED"),
    "a large head": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 2000, 431, "REQUEST_HEAD_TOO_LARGE"),
    "many fields": (b"GET / HTTP/1.1\r\n" + HOST + b"X: x\r\n" * 9, 431, "REQUEST_HEAD_TOO_LARGE"),
    "another coding": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        501,
        "UNSUPPORTED_CODING",
    ),
    "CONNECT": (b"CONNECT a.test:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501, "UNSUPPORTED_METHOD"),
    "another version": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505, "UNSUPPORTED_VERSION"),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "UNSUPPORTED_VERSION"),
    "TLS": (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n",
        400,
        "BAD_REQUEST_HEAD",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
async def test_a_refusal_says_what_is_wrong_and_ends_the_connection(edge: Edges, fault: str) -> None:
    message, status, name = REFUSED[fault]
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url, edge=TIGHT)
        client = await edge.connect(served)
        await client.send(message)
        head = await client.head()
        assert head.status == status
        assert head.one("Content-Type") == "application/problem+json"
        assert head.one("Cache-Control") == "no-store"
        assert head.one("Connection") == "close"
        assert (head.one("Date") or "").endswith(" GMT")
        assert head.one("Retry-After") is None
        said = json.loads(await client.body(head))
        assert (said["status"], said["name"], said["retryable"]) == (status, name, False)
        assert said["code"].startswith("0x6")
        assert "127.0.0.1" not in json.dumps(said)
        assert await client.rest() == b""
        client.abort()
        await until(lambda: served.connections == 0, "the connection is closed")
        assert served.native.counts().refused == 1
        # Others are served as before.
        assert (await (await edge.connect(served)).ask()).body == b"ok"
    assert len(recorder.arrivals) == 1


@pytest.mark.parametrize("fault", ["a bad head", "a large body", "no route", "a bad chunk"])
async def test_a_client_that_goes_on_sending_can_read_the_refusal(edge: Edges, fault: str) -> None:
    """RFC 9112, section 9.6: closed with bytes unread, the connection would be reset, and the answer lost."""
    message, status, _ = REFUSED[fault]
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url, edge=TIGHT))
        await client.send(message + b"x" * 5_000_000)
        await client.send(b"x" * 5_000_000)
        head = await client.head()
        assert head.status == status
        assert len(await client.body(head)) == int(head.one("Content-Length") or 0)
        assert await client.rest() == b""
        client.writer.write_eof()


async def test_a_client_that_never_stops_sending_is_cut_off(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(linger=0.1))
        client = await edge.connect(served)
        await client.send(REFUSED["no host"][0])
        assert (await client.head()).status == 400
        with pytest.raises(ConnectionError):
            while True:
                await client.send(b"x" * 100_000)
        await until(lambda: served.connections == 0, "the connection is closed")


async def test_a_refused_head_request_gets_no_body(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.serve([edge.gateway(origin.url).native("/vod/")]))
        await client.get("/nowhere", method="HEAD")
        head = await client.head()
        assert (head.status, int(head.one("Content-Length") or 0) > 0) == (404, True)
        assert await client.rest() == b""


async def test_a_head_that_drips_is_given_up_within_its_limit(edge: Edges) -> None:
    """From its first byte to its last, however many come in between."""
    async with ScriptedOrigin(Recorder()) as origin:
        client = await edge.connect(await edge.relay(origin.url, edge=Edge(head_timeout=0.15, linger=30)))
        await client.send(b"GET / HTTP/1.1\r\nX: ")
        refusal = asyncio.ensure_future(client.head())
        while not refusal.done():
            await client.send(b"x")
            # Well within the limit, and over and over: a limit that began anew with each byte would never end.
            await asyncio.wait([refusal], timeout=0.02)
        head = await refusal
        assert head.status == 408
        assert json.loads(await client.body(head))["name"] == "REQUEST_TIMEOUT"
        client.writer.write_eof()
        assert await client.rest() == b""


async def test_the_limit_of_a_head_begins_with_its_first_byte(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(head_timeout=0.1, idle_timeout=None))
        idle = await edge.connect(served)
        assert (await idle.ask()).body == b"ok"
        # The clock: a head that was begun after the other connection fell idle, and has run out of time.
        slow = await edge.connect(served)
        await slow.send(b"G")
        assert (await slow.head()).status == 408
        assert (await idle.ask()).body == b"ok"


async def test_an_empty_line_starts_no_head(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(head_timeout=0.1, idle_timeout=None))
        idle = await edge.connect(served)
        await idle.ask()
        await idle.send(b"\r\n")
        slow = await edge.connect(served)
        await slow.send(b"G")
        assert (await slow.head()).status == 408
        assert (await idle.ask()).body == b"ok"


async def test_an_idle_connection_is_closed_without_a_word(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(idle_timeout=0.1))
        fresh, used, empty = [await edge.connect(served) for _ in range(3)]
        assert (await used.ask()).body == b"ok"
        await empty.send(b"\r\n")
        for client in (fresh, used, empty):
            assert await client.rest() == b""
        await until(lambda: served.connections == 0, "the connections are closed")


async def test_no_more_requests_at_a_time_than_the_limit(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.relay(origin.url, limits=RouteLimits(concurrency=2))
        first, second, third = [await anywhere.connect(served) for _ in range(3)]
        for client in (first, second):
            await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\n")
        await origin.connection(1)
        refused = await third.ask()
        assert (refused.head.status, refused.head.one("Retry-After")) == (429, "1")
        assert json.loads(refused.body)["name"] == "TOO_MANY_REQUESTS"
        await first.send(b"x")
        assert await first.body(await first.head()) == b"ok"
        # The place is free with the last byte of its response, on every thread.
        assert (await (await anywhere.connect(served)).ask()).head.status == 200
        await second.send(b"x")
        assert await second.body(await second.head()) == b"ok"


async def test_a_place_is_given_back_when_a_client_leaves(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, limits=RouteLimits(concurrency=1))
        for number in range(3):
            client = await edge.connect(served)
            await client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\n")
            peer = await origin.connection(number)
            client.reset()
            await peer.wait_left()
            await until(lambda: served.connections == 0, "the connection is closed")


async def test_no_more_requests_a_second_than_the_limit(anywhere: Edges) -> None:
    async with ScriptedOrigin(respond(answer("Content-Length: 0"))) as origin:
        served = await anywhere.relay(origin.url, limits=RouteLimits(rate=0.001, burst=3))
        statuses = []
        for _ in range(5):
            client = await anywhere.connect(served)
            statuses.append((await client.ask()).head.status)
        assert statuses == [200, 200, 200, 429, 429]


async def test_a_rate_is_earned_again(edge: Edges) -> None:
    async with ScriptedOrigin(respond(answer("Content-Length: 0"))) as origin:
        served = await edge.relay(origin.url, limits=RouteLimits(rate=20, burst=1))

        async def until_answered_with(status: int) -> None:
            while (await (await edge.connect(served)).ask()).head.status != status:
                pass

        await until_answered_with(429)
        await until_answered_with(200)
