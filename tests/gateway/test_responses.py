"""What reaches the client of a response: status, fields and body as the origin sent them, but for the
hop's."""

import asyncio
import gzip
import hashlib

import pytest

from penstock.testing import Peer, ScriptedOrigin, respond
from support.client import Reply, answer
from support.origins import says

from .conftest import Connect
from .server import Serving


@pytest.fixture
def relayed(serving: Serving, connect: Connect):
    async def relayed(response: bytes, *fields: str, method: str = "GET", version: str = "1.1") -> Reply:
        """Have `response` relayed and return what the client got of it."""
        async with ScriptedOrigin(respond(response)) as origin:
            client = await connect(await serving.gateway(origin.url))
            return await client.ask("/", *fields, method=method, version=version)

    return relayed


CHUNKED = b"4\r\nfour\r\n3;ext=1\r\nand\r\n0\r\nX-Trailer: x\r\n\r\n"


@pytest.mark.parametrize(
    "status", ["200 OK", "206 Partial Content", "404 Empty Room", "503 Busy", "299 ", "799 Odd"]
)
async def test_status_and_reason_pass(relayed, status: str) -> None:
    reply = await relayed(answer("Content-Length: 2", status=status, body=b"ok"))
    assert f"{reply.head.status} {reply.head.reason}" == status
    assert reply.body == b"ok"


async def test_redirects_are_not_followed(relayed) -> None:
    reply = await relayed(answer("Location: http://elsewhere/", "Content-Length: 0", status="302 Found"))
    assert (reply.head.status, reply.head.one("Location")) == (302, "http://elsewhere/")


async def test_a_length_stays_a_length(relayed) -> None:
    reply = await relayed(answer("Content-Length: 4", body=b"four"))
    assert (reply.head.one("Content-Length"), reply.head.one("Transfer-Encoding"), reply.body) == (
        "4",
        None,
        b"four",
    )


@pytest.mark.parametrize("lengths", [("4", "4"), ("4, 4",)])
async def test_equal_lengths_become_one(relayed, lengths: tuple[str, ...]) -> None:
    reply = await relayed(answer(*(f"Content-Length: {length}" for length in lengths), body=b"four"))
    assert (reply.head.one("Content-Length"), reply.body) == ("4", b"four")


async def test_chunks_become_chunks_without_trailers(relayed) -> None:
    reply = await relayed(answer("Transfer-Encoding: chunked", "Trailer: X-Trailer", body=CHUNKED))
    assert reply.head.one("Transfer-Encoding") == "chunked"
    assert reply.head.one("Content-Length") is None
    assert reply.head.one("Trailer") is None
    assert reply.body == b"fourand"


async def test_a_body_that_ends_with_the_connection_becomes_chunked(
    serving: Serving, connect: Connect
) -> None:
    async def close_delimited(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(body=b"until the end"))

    async with ScriptedOrigin(close_delimited) as origin:
        client = await connect(await serving.gateway(origin.url))
        reply = await client.ask()
        assert (reply.head.one("Transfer-Encoding"), reply.body) == ("chunked", b"until the end")
        assert (await client.ask()).body == b"until the end", "the client's connection is kept"


class TestOldClients:
    async def test_a_length_passes(self, relayed) -> None:
        reply = await relayed(answer("Content-Length: 4", body=b"four"), version="1.0")
        assert (reply.head.one("Content-Length"), reply.body) == ("4", b"four")

    async def test_chunks_end_with_the_connection(self, relayed) -> None:
        reply = await relayed(answer("Transfer-Encoding: chunked", body=CHUNKED), version="1.0")
        assert reply.head.one("Transfer-Encoding") is None
        assert reply.head.one("Content-Length") is None
        assert reply.body == b"fourand"

    async def test_a_connection_is_kept_if_both_want_it(self, serving: Serving, connect: Connect) -> None:
        async with ScriptedOrigin(respond(answer("Content-Length: 4", body=b"four"))) as origin:
            client = await connect(await serving.gateway(origin.url))
            for _ in range(2):
                reply = await client.ask("/", "Connection: keep-alive", version="1.0")
                assert reply.body == b"four"
                assert reply.head.one("Connection") == "keep-alive"


class TestWithoutBody:
    async def test_head_keeps_the_length(self, serving: Serving, connect: Connect) -> None:
        response = answer("Content-Length: 1000000", 'ETag: "x"', "Content-Type: video/mp4")
        async with ScriptedOrigin(respond(response)) as origin:
            client = await connect(await serving.gateway(origin.url))
            for _ in range(2):
                reply = await client.ask(method="HEAD")
                assert (reply.head.one("Content-Length"), reply.head.one("ETag")) == ("1000000", '"x"')
            assert len(origin.connections) == 1, "the origin's connection is kept"

    async def test_head_of_chunks_has_no_length(self, relayed) -> None:
        reply = await relayed(answer("Transfer-Encoding: chunked"), method="HEAD")
        assert reply.head.one("Content-Length") is None

    @pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
    async def test_204_and_304(self, serving: Serving, connect: Connect, status: str) -> None:
        async with ScriptedOrigin(respond(answer('ETag: "x"', status=status))) as origin:
            client = await connect(await serving.gateway(origin.url))
            for _ in range(2):
                head = (await client.ask("/", 'If-None-Match: "x"')).head
                assert (f"{head.status} {head.reason}", head.one("ETag")) == (status, '"x"')
                assert head.one("Transfer-Encoding") is None
                assert head.one("Content-Length") is None
            assert origin.requests[0].get("If-None-Match") == '"x"'

    async def test_an_empty_body_is_empty(self, relayed) -> None:
        reply = await relayed(answer("Content-Length: 0"))
        assert (reply.head.one("Content-Length"), reply.body) == ("0", b"")


class TestFields:
    async def test_ranges_pass(self, serving: Serving, connect: Connect) -> None:
        fields = ("Content-Range: bytes 2-5/10", "Accept-Ranges: bytes", "Content-Length: 4")
        async with ScriptedOrigin(
            respond(answer(*fields, status="206 Partial Content", body=b"cdef"))
        ) as origin:
            client = await connect(await serving.gateway(origin.url))
            reply = await client.ask("/", "Range: bytes=2-5", 'If-Range: "x"')
            assert (reply.head.status, reply.head.one("Content-Range")) == (206, "bytes 2-5/10")
            assert reply.body == b"cdef"
            assert origin.requests[0].get("Range") == "bytes=2-5"
            assert origin.requests[0].get("If-Range") == '"x"'

    async def test_end_to_end_fields_pass_in_order(self, relayed) -> None:
        fields = (
            "Date: Mon, 01 Jan 2024 00:00:00 GMT",
            "Server: origin/1",
            "Set-Cookie: a=1; Path=/",
            "X-Custom: v",
            "Set-Cookie: b=2; Expires=Mon, 01 Jan 2024 00:00:00 GMT",
            "Set-Cookie: c=3",
            "Vary: Accept",
            "Vary: Origin",
            "Cache-Control: max-age=1",
            "Content-Type: video/iso.segment",
            "WWW-Authenticate: Basic",
            "X-UTF8: \xc3\xa9",
        )
        reply = await relayed(answer(*fields, "Content-Length: 0"))
        received = [f"{name}: {value}" for name, value in reply.head.fields]
        assert [field for field in received if field in fields] == list(fields)

    async def test_what_is_not_utf_8_passes_or_is_read_as_iso_8859_1(self, relayed, transport: str) -> None:
        reply = await relayed(answer("X-Latin: caf\xe9", "Content-Length: 0"))
        received = reply.head.one("X-Latin").encode("latin-1")
        # aiohttp writes UTF-8, and the engine what the origin sent.
        assert received == (b"caf\xe9" if transport != "stock" else "café".encode())

    async def test_hop_by_hop_fields_stop(self, relayed) -> None:
        hop = ("Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Upgrade", "X-Nominated", "Via-Not")
        reply = await relayed(
            answer(
                *(f"{name}: x" for name in hop),
                "Connection: keep-alive, x-nominated",
                "Connection: Via-Not",
                "Content-Length: 0",
                "X-Kept: 1",
            )
        )
        for name in (*hop, "Connection"):
            assert not reply.head.all(name), name
        assert reply.head.one("X-Kept") == "1"

    async def test_via_is_added(self, relayed) -> None:
        reply = await relayed(answer("Via: 1.1 cache", "Content-Length: 0"))
        assert reply.head.all("Via") == ["1.1 cache, 1.1 penstock"]

    async def test_a_missing_content_type_stays_missing(self, relayed) -> None:
        assert (await relayed(answer("Content-Length: 2", body=b"ok"))).head.one("Content-Type") is None

    async def test_content_codings_are_not_touched(self, relayed) -> None:
        body = gzip.compress(b"x" * 10_000)
        response = answer("Content-Encoding: gzip", f"Content-Length: {len(body)}", body=body)
        reply = await relayed(response, "Accept-Encoding: gzip")
        assert reply.head.one("Content-Encoding") == "gzip"
        assert reply.body == body


HINTS = answer("Link: </a.css>; rel=preload", "Connection: x-hop", "X-Hop: 1", status="103 Early Hints")


async def test_interim_responses_pass_as_they_come(serving: Serving, connect: Connect) -> None:
    """Before the head is there, and each once."""
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HINTS)
        await go_on.wait()
        await peer.send(HINTS + HINTS + answer("Content-Length: 2", body=b"ok"))
        await peer.stall()

    async with ScriptedOrigin(script) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get()
        for _ in range(3):
            hints = await client.head()
            assert (hints.status, hints.reason) == (103, "Early Hints")
            assert hints.fields == (("Link", "</a.css>; rel=preload"), ("Via", "1.1 penstock"))
            go_on.set()
        head = await client.head()
        assert (head.status, head.all("Link"), await client.body(head)) == (200, [], b"ok")
        assert await served.error() is None


async def test_a_failure_after_an_interim_response_is_reported(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(says(HINTS)) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get()
        assert (await client.head()).status == 103
        assert (await client.head()).status == 502


async def test_a_client_of_http_1_0_gets_no_interim_response(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(respond(HINTS + answer("Content-Length: 2", body=b"ok"))) as origin:
        client = await connect(await serving.gateway(origin.url))
        reply = await client.ask(version="1.0")
        assert (reply.head.status, reply.head.all("Link"), reply.body) == (200, [], b"ok")


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_large_body_is_the_same(serving: Serving, connect: Connect, framing: str) -> None:
    piece = bytes(range(256)) * 251  # no multiple of any slab
    count = 200

    async def script(peer: Peer) -> None:
        await peer.request()
        if framing == "length":
            await peer.send(answer(f"Content-Length: {len(piece) * count}"))
            for _ in range(count):
                await peer.send(piece)
        else:
            await peer.send(answer("Transfer-Encoding: chunked"))
            for _ in range(count):
                await peer.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
            await peer.send(b"0\r\n\r\n")

    async with ScriptedOrigin(script) as origin:
        reply = await (await connect(await serving.gateway(origin.url))).ask()
    assert hashlib.sha256(reply.body).digest() == hashlib.sha256(piece * count).digest()


async def test_a_heartbeat_passes_when_it_arrives(serving: Serving, connect: Connect) -> None:
    """It is a comment line without a blank line after it, and says nothing of when the next event comes."""
    passed = asyncio.Event()
    lines = (b":\n", b": still here\r\n", b"data: one\n\n", b":\n")

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Type: text/event-stream"))
        for line in lines:
            await peer.send(line)
            await passed.wait()
            passed.clear()

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get()
        assert (await client.head()).status == 200
        for line in lines:
            assert await client.chunk() == line
            passed.set()
        assert await client.chunk() == b""


async def test_pipelined_requests_are_answered_in_order(serving: Serving, connect: Connect) -> None:
    async def echo(peer: Peer) -> None:
        while True:
            target = (await peer.request()).target.encode()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(target), target))

    async with ScriptedOrigin(echo) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(10)))
        for number in range(10):
            head = await client.head()
            assert await client.body(head) == b"/%d" % number


async def test_a_redirect_to_the_origin_itself_leads_through_the_gateway(
    serving: Serving, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            location = f"http://{request.get('Host')}/base{request.target.removeprefix('/base')}/next?a=b"
            await peer.send(answer(f"Location: {location}", "Content-Length: 0", status="302 Found"))

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serving.gateway(f"{origin.url}/base", prefix="/live"))
        reply = await client.ask("/live/a")
        assert (reply.head.status, reply.head.one("Location")) == (302, "/live/a/next?a=b")
