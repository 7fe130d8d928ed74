"""gRPC-Web of browsers in front of an origin of gRPC."""

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import penstock
from penstock.config import Forwarding, GrpcWeb, OriginHttp2, RouteLimits
from penstock.web import Gateway
from support.client import Head, RawClient
from support.edges import Edges
from support.http2_origin import Asked, Http2Origin
from support.leaks import engine_under_test

WEB, TEXT = "application/grpc-web", "application/grpc-web-text"
PAGE = "https://app.example"


def message(data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(data)) + data


def messages(body: bytes) -> list[tuple[int, bytes]]:
    """The messages of a body, with their flags."""
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        assert len(body) >= 5 + size
        found.append((flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def decoded(text: bytes) -> bytes:
    """A body of text, each part of which may be padded."""
    return b"".join(
        base64.b64decode(text[start : start + 4], validate=True) for start in range(0, len(text), 4)
    )


async def echo(asked: Asked) -> None:
    body = await asked.whole()
    await asked.head(("content-type", asked.one("content-type") or ""), ("x-first", "1"))
    await asked.send(body)
    await asked.trail(("grpc-status", "0"), ("grpc-message", "done"), ("X-Last-Bin".lower(), "AAE"))


class Front:
    def __init__(self, client: RawClient, origin: Http2Origin) -> None:
        self.client, self.origin = client, origin

    async def call(
        self, body: bytes, *fields: str, kind: str = WEB, chunked: bool = False
    ) -> tuple[Head, bytes]:
        await self.send(body, *fields, kind=kind, chunked=chunked)
        head = await self.client.head()
        return head, await self.client.body(head)

    async def send(self, body: bytes, *fields: str, kind: str = WEB, chunked: bool = False) -> None:
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        lines = (
            "POST /test.Test/Call HTTP/1.1",
            "Host: a",
            f"Content-Type: {kind}",
            framing,
            *fields,
            "",
            "",
        )
        await self.client.send("\r\n".join(lines).encode())
        if chunked:
            for byte in body:
                await self.client.send(b"1\r\n%c\r\n" % byte)
            await self.client.send(b"0\r\n\r\n")
        else:
            await self.client.send(body)


@asynccontextmanager
async def in_front(
    request: pytest.FixtureRequest,
    script: Any = echo,
    *,
    web: GrpcWeb | None = GrpcWeb(origins=[PAGE]),  # noqa: B008 (it is frozen)
    **options: Any,
) -> AsyncIterator[Front]:
    async with Http2Origin(script).listening() as origin:
        http2 = OriginHttp2(origins=[origin.url])
        async with engine_under_test(request, http2=http2, threads=1) as engine:
            edges = Edges(engine)
            gateway = Gateway(origin.url, engine=engine, forwarding=Forwarding(grpc_web=web))
            served = await edges.serve([gateway.native("/", **options)])
            yield Front(await edges.connect(served), origin)
            await edges.close()
            await origin.close()
            del edges, gateway, served


@pytest.mark.parametrize("kind", [WEB, f"{WEB}+proto", "Application/GRPC-Web+json"])
@pytest.mark.parametrize("size", [0, 1, 100_000])
async def test_trailers_are_the_last_message(request: pytest.FixtureRequest, kind: str, size: int) -> None:
    async with in_front(request) as front:
        for _ in range(2):
            head, body = await front.call(message(bytes(size)), kind=kind)
            assert (head.status, head.one("x-first")) == (200, "1")
            suffix = kind[len(WEB) :]
            assert head.one("content-type") == WEB + suffix
            assert messages(body) == [
                (0, bytes(size)),
                (0x80, b"grpc-status:0\r\ngrpc-message:done\r\nx-last-bin:AAE\r\n"),
            ]
        asked = front.origin.asked[0]
        assert (asked.one("content-type"), asked.one("te")) == ("application/grpc" + suffix, "trailers")
        assert await asked.whole() == message(bytes(size))


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("parts", [(b"", b"a", b"bc"), (b"abc" * 700,), (b"",)])
async def test_text_may_be_padded_in_the_middle(
    request: pytest.FixtureRequest, parts: tuple[bytes, ...], chunked: bool
) -> None:
    sent = message(b"".join(parts))
    split = [sent[:5], *(sent[start : start + 7] for start in range(5, len(sent), 7))]
    text = b"".join(base64.b64encode(part) for part in split)
    async with in_front(request) as front:
        head, body = await front.call(text, kind=f"{TEXT}+proto", chunked=chunked)
        assert head.one("content-type") == f"{TEXT}+proto"
        assert messages(decoded(body))[0] == (0, b"".join(parts))
        (asked,) = front.origin.asked
        assert (asked.one("content-type"), await asked.whole()) == ("application/grpc+proto", sent)


@pytest.mark.parametrize(
    ("kind", "accept", "is_text"),
    [(WEB, TEXT, True), (TEXT, WEB, False), (TEXT, "*/*", True), (WEB, "*/*", False)],
)
async def test_the_client_says_what_it_reads(
    request: pytest.FixtureRequest, kind: str, accept: str, is_text: bool
) -> None:
    body = message(b"hello")
    async with in_front(request) as front:
        sent = base64.b64encode(body) if kind == TEXT else body
        head, came = await front.call(sent, f"Accept: {accept}", kind=kind)
        assert head.one("content-type") == (TEXT if is_text else WEB)
        assert messages(decoded(came) if is_text else came)[0] == (0, b"hello")


@pytest.mark.parametrize("text", [b"YWI", b"====", b"!!!!", b"YW=I"])
async def test_what_is_no_text_is_refused(request: pytest.FixtureRequest, text: bytes) -> None:
    async with in_front(request) as front:
        head, body = await front.call(text, f"Origin: {PAGE}", kind=TEXT)
        assert (head.status, head.one("grpc-status"), body) == (200, "3", b"")
        assert head.one("content-type") == TEXT
        assert head.one("access-control-allow-origin") == PAGE
        assert front.origin.asked == []


async def test_text_has_a_limit(request: pytest.FixtureRequest) -> None:
    async with in_front(request) as front:
        head, _ = await front.call(base64.b64encode(bytes(5 << 20)), kind=TEXT)
        assert head.one("grpc-status") == "8"


async def test_an_error_without_a_message_stands_in_the_head(request: pytest.FixtureRequest) -> None:
    async def fail(asked: Asked) -> None:
        await asked.whole()
        await asked.head(("content-type", "application/grpc"), ("grpc-status", "5"), ends=True)

    async with in_front(request, fail) as front:
        head, body = await front.call(message(b"hello"), f"Origin: {PAGE}")
        assert (head.status, head.one("grpc-status"), body) == (200, "5", b"")
        assert head.one("content-type") == WEB
        assert (
            head.one("access-control-expose-headers") == "grpc-status, grpc-message, grpc-status-details-bin"
        )


async def test_a_call_that_breaks_off_does_not_look_whole(request: pytest.FixtureRequest) -> None:
    has_come = asyncio.Event()

    async def broken(asked: Asked) -> None:
        await asked.head(("content-type", "application/grpc"))
        await asked.send(message(b"half"))
        # Before it has gone on, the gateway would tell the client in the head.
        await has_come.wait()
        await asked.break_off()

    async with in_front(request, broken) as front:
        await front.send(message(b"hello"))
        head = await front.client.head()
        assert head.one("grpc-status") is None
        assert await front.client.chunk() == message(b"half")
        has_come.set()
        with pytest.raises((EOFError, ConnectionError)):
            await front.client.chunk()


async def test_what_is_no_response_of_grpc_passes_as_it_is(request: pytest.FixtureRequest) -> None:
    async def page(asked: Asked) -> None:
        await asked.whole()
        await asked.answer(b"<p>", ("content-type", "text/html"), status=503)

    async with in_front(request, page) as front:
        head, body = await front.call(message(b"hello"))
        assert (head.status, head.one("content-type"), body) == (503, "text/html", b"<p>")


async def test_a_page_asks_first(request: pytest.FixtureRequest) -> None:
    async with in_front(request) as front:

        async def asked(origin: str) -> Head:
            lines = (
                *("OPTIONS /test.Test/Call HTTP/1.1", "Host: a", f"Origin: {origin}"),
                *(
                    "Access-Control-Request-Method: POST",
                    "Access-Control-Request-Headers: x-grpc-web,x-key",
                    "",
                    "",
                ),
            )
            await front.client.send("\r\n".join(lines).encode())
            return await front.client.head()

        head = await asked(PAGE)
        assert head.status == 204
        assert head.one("access-control-allow-origin") == PAGE
        assert head.one("access-control-allow-methods") == "POST"
        assert head.one("access-control-allow-headers") == "x-grpc-web,x-key"
        assert head.one("access-control-max-age") == "7200"
        assert head.one("vary") == "Origin"
        head = await asked("https://evil.example")
        assert (head.status, head.one("access-control-allow-origin")) == (204, None)
        assert front.origin.asked == []


@pytest.mark.parametrize(("page", "allowed"), [(PAGE, PAGE), ("https://evil.example", None), (None, None)])
async def test_a_page_may_read_what_it_is_let_read(
    request: pytest.FixtureRequest, page: str | None, allowed: str | None
) -> None:
    async def boastful(asked: Asked) -> None:
        await asked.whole()
        await asked.head(("content-type", "application/grpc"), ("access-control-allow-origin", "https://own"))
        await asked.trail(("grpc-status", "0"))

    async with in_front(request, boastful) as front:
        fields = (f"Origin: {page}",) if page else ()
        head, _ = await front.call(message(b""), *fields)
        assert head.one("access-control-allow-origin") == (allowed or "https://own")


async def test_errors_of_the_gateway_can_be_read(request: pytest.FixtureRequest) -> None:
    async with in_front(request, limits=RouteLimits(body=1024)) as front:
        head, body = await front.call(message(bytes(2000)), f"Origin: {PAGE}", kind=f"{WEB}+proto")
        assert (head.status, head.one("grpc-status"), body) == (200, "8", b"")
        assert head.one("content-type") == f"{WEB}+proto"
        assert head.one("access-control-allow-origin") == PAGE


async def test_without_the_setting_it_passes_as_it_is(request: pytest.FixtureRequest) -> None:
    async with in_front(request, web=None) as front:
        head, body = await front.call(message(b"hello"))
        assert head.one("content-type") == WEB
        assert messages(body) == [(0, b"hello")]


async def test_a_page_reads_the_fields_that_are_named(request: pytest.FixtureRequest) -> None:
    async with in_front(request, web=GrpcWeb(origins=[PAGE], expose=["x-first", "X-Other"])) as front:
        head, _ = await front.call(message(b""), f"Origin: {PAGE}")
        exposed = "grpc-status, grpc-message, grpc-status-details-bin, x-first, X-Other"
        assert head.one("access-control-expose-headers") == exposed


@pytest.mark.parametrize("expose", ["x-first", [""], ["a b"], ["a\r\nb"], [1]])
def test_what_is_no_name_of_a_field_is_refused(expose: Any) -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"GrpcWeb\.expose"):
        GrpcWeb(expose=expose)


@pytest.mark.parametrize("origins", ["*", ["app.example"], ["https://app.example/"], ["https://a/b"], [1]])
def test_what_is_no_origin_of_pages_is_refused(origins: Any) -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"GrpcWeb\.origins"):
        GrpcWeb(origins=origins)
