"""Trailers through a relay, and calls of gRPC as far as HTTP/1.1 shows them."""

import asyncio
from typing import Any

import pytest

from penstock.config import Forwarding, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.edges import Edges, Served
from support.origins import refusing

CALL = "Content-Type: application/grpc"
TRAILERS = Forwarding(trailers=True)
RESPONSE = answer("Transfer-Encoding: chunked", body=b"2\r\nok\r\n0\r\nDigest: x\r\nX-Cost: 7\r\n\r\n")


def post(*fields: str) -> bytes:
    return "\r\n".join(("POST /a.B/C HTTP/1.1", "Host: gateway.test", *fields, "", "")).encode()


async def serve(edge: Edges, origin: str, **options: Any) -> Served:
    return await edge.serve([edge.gateway(origin, **options).native("/")])


class Keeper:
    """An origin that keeps the request with all that follows its head, and answers with trailers."""

    def __init__(self, *ends: bytes) -> None:
        self.ends = ends or (b"0\r\n\r\n",)
        self.sent: list[bytes] = []
        self.fields: list[tuple[str | None, ...]] = []

    async def __call__(self, peer: Peer) -> None:
        for end in self.ends:
            request = await peer.request()
            self.fields.append(tuple(request.get(name) for name in ("TE", "Connection", "grpc-timeout")))
            body = b""
            while not body.endswith(end):
                body += await peer.read(1)
            self.sent.append(body)
            await peer.send(RESPONSE)


@pytest.mark.parametrize(
    ("forwarding", "fields", "passes", "came"),
    [
        (TRAILERS, ("TE: trailers",), True, "trailers"),
        (TRAILERS, ("TE: gzip, trailers",), True, "trailers"),
        (TRAILERS, (), False, None),
        (Forwarding(), ("TE: trailers",), False, None),
        (Forwarding(), ("TE: trailers", CALL), True, "trailers"),
    ],
)
async def test_a_client_that_takes_trailers_gets_those_of_the_origin(
    edge: Edges, forwarding: Forwarding, fields: tuple[str, ...], passes: bool, came: str | None
) -> None:
    keeper = Keeper()
    async with ScriptedOrigin(keeper) as origin:
        client = await edge.connect(await serve(edge, origin.url, forwarding=forwarding))
        await client.send(post("Transfer-Encoding: chunked", *fields) + b"2\r\nhi\r\n0\r\n\r\n")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"ok"
        rest = await client.reader.readuntil(b"\r\n\r\n")
        assert rest == (b"0\r\nDigest: x\r\nX-Cost: 7\r\n\r\n" if passes else b"0\r\n\r\n")
        assert keeper.fields == [(came, came and "TE", None)]


@pytest.mark.parametrize(
    ("forwarding", "fields", "passes"),
    [(TRAILERS, (), True), (Forwarding(), (), False), (Forwarding(), (CALL,), True)],
)
async def test_the_trailers_of_a_request_reach_the_origin(
    edge: Edges, forwarding: Forwarding, fields: tuple[str, ...], passes: bool
) -> None:
    end = b"0\r\nX-Sum: 1\r\n\r\n" if passes else b"0\r\n\r\n"
    keeper = Keeper(end)
    async with ScriptedOrigin(keeper) as origin:
        client = await edge.connect(await serve(edge, origin.url, forwarding=forwarding))
        await client.send(post("Transfer-Encoding: chunked", *fields) + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n")
        assert await client.body(await client.head()) == b"ok"
        assert keeper.sent == [b"2\r\nhi\r\n" + end]


async def test_the_time_of_a_call_is_told_on(edge: Edges) -> None:
    keeper = Keeper()
    async with ScriptedOrigin(keeper) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(post("Transfer-Encoding: chunked", CALL, "grpc-timeout: 50S") + b"0\r\n\r\n")
        assert await client.body(await client.head()) == b"ok"
        (told,) = (time for _, _, time in keeper.fields)
        assert told is not None
        assert told[-1] == "u"
        assert 45_000_000 < int(told[:-1]) <= 50_000_000


async def test_a_call_whose_time_is_over_is_told_so_in_its_own_words(edge: Edges) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.stall()

    async with ScriptedOrigin(silent) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        await client.send(post("Content-Length: 5", CALL, "grpc-timeout: 50m") + bytes(5))
        head = await client.head()
        assert (head.status, head.one("Content-Type"), head.one("grpc-status")) == (
            200,
            "application/grpc",
            "4",
        )
        assert head.one("grpc-message") == "The whole exchange took longer than its limit."


async def test_a_call_may_be_silent_for_longer_than_other_requests(edge: Edges) -> None:
    async def slow(peer: Peer) -> None:
        await peer.request()
        assert await peer.read(10) == b"5\r\nhello\r\n", "at once, though more is to come"
        await asyncio.sleep(0.3)
        await peer.send(answer("Transfer-Encoding: chunked", body=b"2\r\nok\r\n"))
        await asyncio.sleep(0.3)
        assert await peer.read(5) == b"0\r\n\r\n"
        await peer.send(b"0\r\n\r\n")

    limits = Timeouts(first_byte=0.1, between_bytes=0.1)
    async with ScriptedOrigin(slow) as origin:
        client = await edge.connect(await serve(edge, origin.url, timeouts=limits))
        await client.send(post("Transfer-Encoding: chunked", CALL) + b"5\r\nhello\r\n")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"ok"
        await client.send(b"0\r\n\r\n")
        assert await client.chunk() == b""


async def test_an_origin_that_cannot_be_reached_is_unavailable(edge: Edges) -> None:
    with refusing() as url:
        client = await edge.connect(await edge.relay(url))
        await client.send(post("Content-Length: 5", CALL) + bytes(5))
        head = await client.head()
        assert (head.status, head.one("grpc-status"), head.one("Content-Length")) == (200, "14", "0")


@pytest.mark.parametrize("value", ["1", "123456789S", "1s", "-1S"])
async def test_a_malformed_time_is_refused(edge: Edges, value: str) -> None:
    with refusing() as url:
        client = await edge.connect(await edge.relay(url))
        await client.send(post("Content-Length: 5", CALL, f"grpc-timeout: {value}") + bytes(5))
        assert (await client.head()).one("grpc-status") == "3"
