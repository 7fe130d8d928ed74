"""Origins of HTTP/2: what they are asked, what comes of it, and what they may do to the gateway."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import h2.errors
import h2.settings
import pytest
import trustme

import penstock
from penstock.config import OriginHttp2, OriginLimits, OriginTls, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.edges import Edges
from support.http2_origin import Asked, Http2Origin
from support.leaks import engine_under_test
from support.waiting import in_time, until

CALL = "Content-Type: application/grpc"
Codes = h2.errors.ErrorCodes
Settings = h2.settings.SettingCodes


class Front:
    """An engine that asks an origin by HTTP/2, and a route to it."""

    def __init__(self, engine: penstock.Engine, edges: Edges, origin: Http2Origin) -> None:
        self.engine, self.edges, self.origin = engine, edges, origin

    def get(self, path: str = "/", **options: Any) -> Any:
        return self.engine.get(self.origin.url + path, **options)

    async def fetched(self, path: str = "/", **options: Any) -> bytes:
        async with self.get(path, **options) as response:
            body: bytes = await response.bytes()
            return body

    async def connect(self, **options: Any) -> RawClient:
        return await self.edges.connect(await self.edges.relay(self.origin.url, **options))

    def counts(self) -> Any:
        return self.engine.stats().origins[self.origin.url]


@asynccontextmanager
async def in_front(
    request: pytest.FixtureRequest,
    origin: Http2Origin,
    *,
    limits: OriginLimits | None = None,
    tls: OriginTls | None = None,
    **http2: Any,
) -> AsyncIterator[Front]:
    async with origin.listening():
        settings = OriginHttp2(origins=[origin.url], **http2)
        async with engine_under_test(request, http2=settings, limits=limits, tls=tls, threads=1) as engine:
            edges = Edges(engine)
            yield Front(engine, edges, origin)
            await edges.close()
            await origin.close()
            del edges
    assert origin.errors == []


async def failure(response: penstock.Response) -> str:
    """How a request fails, before its head or after."""
    try:
        async with response:
            await response.bytes()
    except penstock.PenstockError as error:
        return error.name
    pytest.fail("it has not failed")


async def ok(asked: Asked) -> None:
    await asked.answer(b"ok", ("x-path", asked.one(":path") or ""))


async def test_requests_share_a_connection(request: pytest.FixtureRequest) -> None:
    async with in_front(request, Http2Origin(ok)) as front:
        await front.fetched()
        assert await asyncio.gather(*(front.fetched(f"/{each}") for each in range(50))) == [b"ok"] * 50
        assert len(front.origin.connections) == 1
        counts = front.counts()
        assert (counts.opened, counts.reused, counts.active, counts.idle) == (1, 50, 0, 1)


async def test_requests_that_come_at_once_wait_for_one_connection(request: pytest.FixtureRequest) -> None:
    async with in_front(request, Http2Origin(ok)) as front:
        assert await asyncio.gather(*(front.fetched() for _ in range(60))) == [b"ok"] * 60
        assert len(front.origin.connections) == 1


async def test_a_request_is_one_of_http_2(request: pytest.FixtureRequest) -> None:
    async with in_front(request, Http2Origin(ok)) as front:
        async with front.engine.request(
            "POST", front.origin.url + "/a<b>?c=d", headers={"X-A": "1", "Cookie": "a=1; b=2"}, body=b"hello"
        ) as response:
            assert response.headers["x-path"] == "/a%3Cb%3E?c=d"
            assert await response.bytes() == b"ok"
        (asked,) = front.origin.asked
        assert await asked.whole() == b"hello"
        assert dict(asked.fields[:4]) == {
            ":method": "POST",
            ":scheme": "http",
            ":authority": front.origin.url.removeprefix("http://"),
            ":path": "/a%3Cb%3E?c=d",
        }
        assert (asked.one("x-a"), asked.one("cookie")) == ("1", "a=1; b=2")
        assert asked.one("content-length") == "5"
        names = {name for name, _ in asked.fields}
        assert not names & {"host", "connection", "transfer-encoding", "upgrade", "te"}


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385, 65_534, 65_535, 65_536, 1 << 20])
async def test_bodies_pass_both_ways_whatever_their_length(request: pytest.FixtureRequest, size: int) -> None:
    async def echo(asked: Asked) -> None:
        body = await asked.whole()
        await asked.head(("content-length", str(len(body))) if size % 2 else ("x-none", "1"))
        await asked.send(body, ends=True)

    body = bytes(range(256)) * (size // 256 + 1)
    async with in_front(request, Http2Origin(echo), window="16KiB") as front:
        client = await front.connect()
        head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()
        await client.send(head + body[:size])
        assert await client.body(await client.head()) == body[:size]


async def test_a_body_of_unknown_length_passes_as_it_comes(request: pytest.FixtureRequest) -> None:
    async def echo(asked: Asked) -> None:
        await asked.head()
        sent = 0
        while not asked.ended.is_set() or sent < len(asked.body):
            await in_time(asked.came.wait(), "more of the request")
            asked.came.clear()
            piece, sent = bytes(asked.body[sent:]), len(asked.body)
            await asked.send(piece)
            if sent == 6:
                break
        await asked.send(b"", ends=True)

    async with in_front(request, Http2Origin(echo)) as front:
        client = await front.connect()
        await client.send(
            f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{CALL}\r\n\r\n".encode()
        )
        await client.send(b"3\r\none\r\n")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"one"
        await client.send(b"3\r\ntwo\r\n")
        assert await client.chunk() == b"two"
        await client.send(b"0\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"0\r\n\r\n"


async def test_trailers_pass_both_ways(request: pytest.FixtureRequest) -> None:
    async def trailing(asked: Asked) -> None:
        await asked.whole()
        await asked.head(("content-type", "application/grpc"), ("content-length", "2"))
        await asked.send(b"ok")
        await asked.trail(("grpc-status", "0"), ("x-cost", "7"))

    async with in_front(request, Http2Origin(trailing)) as front:
        client = await front.connect()
        await client.send(
            f"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n{CALL}\r\n\r\n".encode()
            + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n"
        )
        assert (await client.head()).status == 200
        assert await client.chunk() == b"ok"
        assert await client.reader.readuntil(b"\r\n\r\n") == b"0\r\ngrpc-status: 0\r\nx-cost: 7\r\n\r\n"
        (asked,) = front.origin.asked
        assert (await asked.whole(), asked.trailers) == (b"hi", (("x-sum", "1"),))
        assert asked.one("te") == "trailers"


async def test_a_call_without_a_message_is_one(request: pytest.FixtureRequest) -> None:
    """Its end may come with its head, and then it looks as any request without a body."""

    async def trailing(asked: Asked) -> None:
        await asked.head(("content-type", "application/grpc"), ("grpc-status", "0"), ends=True)

    async with in_front(request, Http2Origin(trailing)) as front:
        client = await front.connect()
        await client.send(
            f"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 0\r\n{CALL}\r\n\r\n".encode()
        )
        assert (await client.head()).one("grpc-status") == "0"
        (asked,) = front.origin.asked
        assert await asked.whole() == b""
        assert (asked.one("te"), asked.one("content-length")) == ("trailers", None)


async def test_interim_responses_pass_and_do_not_end_the_exchange(request: pytest.FixtureRequest) -> None:
    async def early(asked: Asked) -> None:
        for _ in range(2):
            await asked.head(("link", "</a>"), status=103)
        await ok(asked)

    async with in_front(request, Http2Origin(early)) as front:
        client = await front.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [(await client.head()).status for _ in range(3)] == [103, 103, 200]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_what_has_no_body_gets_none(request: pytest.FixtureRequest, method: str, status: int) -> None:
    async def bare(asked: Asked) -> None:
        fields = (("content-length", "5"),) if status != 204 else ()
        await asked.head(*fields, status=status, ends=True)

    async with in_front(request, Http2Origin(bare)) as front:
        client = await front.connect()
        for _ in range(2):
            await client.send(f"{method} / HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head = await client.head()
            assert head.status == status
        assert len(front.origin.connections) == 1


async def test_a_response_that_is_broken_off_does_not_look_whole(request: pytest.FixtureRequest) -> None:
    async def broken(asked: Asked) -> None:
        await asked.head()
        await asked.send(b"half")
        await asked.break_off()

    async with in_front(request, Http2Origin(broken)) as front:
        assert await failure(front.get()) == "ORIGIN_RESET"
        assert len(front.origin.connections) == 1, "its other streams go on"


async def test_a_body_that_is_shorter_than_it_was_announced_does_not_look_whole(
    request: pytest.FixtureRequest,
) -> None:
    async def short(asked: Asked) -> None:
        await asked.head(("content-length", "5"))
        await asked.send(b"four", ends=True)

    async with in_front(request, Http2Origin(short)) as front:
        assert await failure(front.get()) == "ORIGIN_RESET"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_the_origin_has_refused_is_sent_again(request: pytest.FixtureRequest, method: str) -> None:
    async def refuse(asked: Asked) -> None:
        if len(front.origin.asked) == 1:
            await asked.break_off(Codes.REFUSED_STREAM)
        else:
            await ok(asked)

    async with in_front(request, Http2Origin(refuse)) as front:
        body = b"once" if method == "POST" else None
        async with front.engine.request(method, front.origin.url, body=body) as response:
            assert await response.bytes() == b"ok"
        assert len(front.origin.asked) == 2
        assert front.counts().retried == 1


async def test_what_may_have_been_done_is_not_sent_again(request: pytest.FixtureRequest) -> None:
    async def fail(asked: Asked) -> None:
        await asked.whole()
        await asked.break_off(Codes.INTERNAL_ERROR)

    async with in_front(request, Http2Origin(fail)) as front:
        assert await failure(front.engine.request("POST", front.origin.url, body=b"once")) == "ORIGIN_RESET"
        assert len(front.origin.asked) == 1


async def test_a_connection_that_says_goodbye_ends_after_its_streams(request: pytest.FixtureRequest) -> None:
    first = asyncio.Event()

    async def leave(asked: Asked) -> None:
        if len(front.origin.asked) == 1:
            await asked.head()
            await asked.connection.goodbye(asked.stream)
            await first.wait()
            await asked.send(b"ok", ends=True)
        else:
            await ok(asked)

    async with in_front(request, Http2Origin(leave)) as front:
        async with front.get() as response:
            # The frames come in order: what is asked now may not be sent there any more.
            assert await front.fetched() == b"ok"
            first.set()
            assert await response.bytes() == b"ok"
        assert len(front.origin.connections) == 2


async def test_the_origin_decides_how_many_streams_a_connection_has(request: pytest.FixtureRequest) -> None:
    gate = asyncio.Event()

    async def wait(asked: Asked) -> None:
        await gate.wait()
        await ok(asked)

    origin = Http2Origin(wait, settings={Settings.MAX_CONCURRENT_STREAMS: 2})
    async with in_front(request, origin, limits=OriginLimits(connections=2)) as front:
        gate.set()
        await front.fetched()
        gate.clear()
        asking = [asyncio.create_task(front.fetched()) for _ in range(6)]
        await origin.count(5)
        assert front.counts().waiting == 2
        gate.set()
        assert await asyncio.gather(*asking) == [b"ok"] * 6
        assert [connection.most for connection in origin.connections] == [2, 2]


async def test_a_second_connection_is_opened_before_the_first_is_full(request: pytest.FixtureRequest) -> None:
    gate = asyncio.Event()

    async def wait(asked: Asked) -> None:
        await gate.wait()
        await ok(asked)

    async with in_front(request, Http2Origin(wait), streams=10) as front:
        gate.set()
        await front.fetched()
        gate.clear()
        asking = [asyncio.create_task(front.fetched()) for _ in range(9)]
        await front.origin.count(10)
        assert [connection.most for connection in front.origin.connections] == [8, 1]
        gate.set()
        await asyncio.gather(*asking)


async def test_a_client_that_leaves_cancels_its_stream_alone(request: pytest.FixtureRequest) -> None:
    async def drip(asked: Asked) -> None:
        await asked.head()
        await asked.send(b"one")

    async with in_front(request, Http2Origin(drip)) as front:
        async with front.get() as kept, front.get() as left:
            assert bytes(await anext(left)) == b"one"
            await left.aclose()
            gone = front.origin.asked[1]
            await until(lambda: gone.reset == Codes.CANCEL, "the origin knows")
            await front.origin.asked[0].send(b"two", ends=True)
            assert await kept.bytes() == b"onetwo"
        assert len(front.origin.connections) == 1


async def test_a_response_that_is_not_read_holds_up_no_other(request: pytest.FixtureRequest) -> None:
    async def send(asked: Asked) -> None:
        await asked.head()
        await asked.send(bytes(8 << 20), ends=True)

    async with in_front(request, Http2Origin(send), window="64KiB") as front:
        stalled = [front.get() for _ in range(5)]
        async with stalled[0], stalled[1], stalled[2], stalled[3], stalled[4]:
            for _ in range(3):
                async with front.get() as response:
                    assert len(await response.bytes()) == 8 << 20
            for response in stalled:
                await response.aclose()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, OriginTls]:
    """What an origin has, and what it is verified by."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, OriginTls(roots=tmp_path / "ca.pem")


async def test_over_tls_an_origin_may_choose_http_2(
    request: pytest.FixtureRequest, tls: tuple[ssl.SSLContext, OriginTls]
) -> None:
    context, verified = tls
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with in_front(request, Http2Origin(ok, context=context), tls=verified) as front:
        assert await asyncio.gather(*(front.fetched() for _ in range(10))) == [b"ok"] * 10
        assert front.counts().opened == 1
        assert front.origin.asked[0].one(":scheme") == "https"


async def test_over_tls_an_origin_may_choose_http_1(
    request: pytest.FixtureRequest, tls: tuple[ssl.SSLContext, OriginTls]
) -> None:
    context, verified = tls
    context.set_alpn_protocols(["http/1.1"])

    async def old(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with AsyncExitStack() as stack:
        origin = await stack.enter_async_context(ScriptedOrigin(old, tls=context))
        http2 = OriginHttp2(origins=[origin.url])
        async with engine_under_test(request, http2=http2, tls=verified, threads=1) as engine:

            async def fetched() -> bytes:
                async with engine.get(origin.url) as response:
                    body: bytes = await response.bytes()
                    return body

            assert await asyncio.gather(*(fetched() for _ in range(10))) == [b"ok"] * 10
            assert await fetched() == b"ok"
            counts = engine.stats().origins[origin.url]
            assert counts.opened == counts.idle > 1
            assert counts.reused >= 1
            await stack.aclose()


async def test_all_who_wait_for_a_connection_learn_that_there_is_none(request: pytest.FixtureRequest) -> None:
    async with in_front(request, Http2Origin(ok)) as front:
        pass
    async with engine_under_test(request, http2=OriginHttp2(origins=[front.origin.url]), threads=1) as engine:
        failures = await asyncio.gather(*(failure(engine.get(front.origin.url)) for _ in range(20)))
        assert set(failures) == {"CONNECT_FAILED"}
        assert engine.stats().origins[front.origin.url].active == 0


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "ORIGIN_RESET"),
        (b"", "ORIGIN_RESET"),
        # SETTINGS, and then a frame that is longer than any may be.
        (b"\0\0\0\4\0\0\0\0\0" + b"\xff\xff\xff\0\0\0\0\0\1", "ORIGIN_RESET"),
        # PING without an end.
        (b"\0\0\0\4\0\0\0\0\0" + b"\0\0\x08\6\0\0\0\0\0abcdefgh" * 3000, "ORIGIN_RESET"),
    ],
)
async def test_an_origin_that_does_not_speak_http_2_is_an_error(
    request: pytest.FixtureRequest, sent: bytes, name: str
) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(sent)
        if sent:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, engine_under_test(request, http2=OriginHttp2(origins=[url]), threads=1) as engine:
        assert await failure(engine.get(url, timeouts=Timeouts(first_byte=10))) == name


async def test_an_idle_connection_is_closed(request: pytest.FixtureRequest) -> None:
    async with in_front(request, Http2Origin(ok), limits=OriginLimits(idle_timeout=0.1)) as front:
        await front.fetched()
        (connection,) = front.origin.connections
        await until(connection.reader.at_eof, "the gateway closes it")
        assert await front.fetched() == b"ok"
        assert len(front.origin.connections) == 2


async def test_a_connection_serves_so_many_requests(request: pytest.FixtureRequest) -> None:
    limits = OriginLimits(requests_per_connection=3)
    async with in_front(request, Http2Origin(ok), limits=limits) as front:
        for _ in range(7):
            await front.fetched()
        assert [len(connection.asked) for connection in front.origin.connections] == [3, 3, 1]


async def test_a_connection_that_the_origin_closes_costs_a_retry_at_most(
    request: pytest.FixtureRequest,
) -> None:
    async with in_front(request, Http2Origin(ok)) as front:
        for _ in range(3):
            assert await front.fetched() == b"ok"
            front.origin.connections[-1].writer.transport.abort()


@pytest.mark.parametrize("url", ["http://", "ftp://a", "http://a/b", "http://a?b"])
def test_what_is_no_origin_is_refused(url: str) -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"OriginHttp2\.origins"):
        OriginHttp2(origins=[url])
    with pytest.raises(penstock.ConfigurationError, match=r"OriginHttp2\.origins"):
        OriginHttp2(origins="http://a")
