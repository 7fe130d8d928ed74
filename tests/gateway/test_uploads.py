"""Request bodies on their way up: framing, back-pressure, and what happens when one side leaves."""

import asyncio
import gzip
import hashlib
import json

import pytest
from aiohttp import web

import penstock
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import FAILURE, Gateway
from support.client import RawClient, answer

from .conftest import Connect
from .server import Serving

OK = answer("Content-Length: 2", body=b"ok")


class Receiver:
    """An origin's script that keeps bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.bodies.append(await peer.read_body())
            await peer.send(OK)


async def test_a_length_stays_a_length(serving: Serving, connect: Connect) -> None:
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        client = await connect(await serving.gateway(origin.url))
        for body in (b"", b"x", b"y" * 100_000):
            await client.send(
                b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            head = await client.head()
            assert await client.body(head) == b"ok"
            request = origin.requests[-1]
            assert (request.get("Content-Length"), request.get("Transfer-Encoding")) == (str(len(body)), None)
            assert receiver.bodies[-1] == body


async def test_a_length_stays_one_when_the_body_comes_late(serving: Serving, connect: Connect) -> None:
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get("/", "Content-Length: 8", method="PUT")
        peer = await origin.connection()
        await client.send(b"half")
        await client.send(b"half")
        assert (await client.head()).status == 200
        assert peer.requests[0].get("Content-Length") == "8"
        assert receiver.bodies == [b"halfhalf"]


async def test_chunks_stay_chunks(serving: Serving, connect: Connect) -> None:
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get("/", "Transfer-Encoding: chunked", method="POST")
        peer = await origin.connection()
        await client.send(b"4\r\nfour\r\n")
        await client.send(b"5;e=1\r\nseven\r\n0\r\nX-T: 1\r\n\r\n")
        assert (await client.head()).status == 200
        assert (peer.requests[0].get("Transfer-Encoding"), peer.requests[0].get("Content-Length")) == (
            "chunked",
            None,
        )
        assert receiver.bodies == [b"fourseven"]


async def test_a_body_that_the_handler_has_read_is_relayed_whole(
    serving: Serving, connect: Connect, engine: penstock.Engine
) -> None:
    """As a handler that chooses the origin by the model that a request names."""
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        gateway = Gateway(origin.url, engine=engine)

        async def choose(request: web.Request) -> web.StreamResponse:
            assert (await request.json())["model"] == "small"
            return await gateway.relay(request)

        client = await connect(await serving.handler(choose))
        body = json.dumps({"model": "small", "input": "y" * 100_000}).encode()
        for framing in ("Content-Length", "Transfer-Encoding"):
            field = (
                f"Content-Length: {len(body)}"
                if framing == "Content-Length"
                else "Transfer-Encoding: chunked"
            )
            await client.get("/", field, "Content-Type: application/json", method="POST")
            await client.send(
                body if framing == "Content-Length" else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            )
            head = await client.head()
            assert await client.body(head) == b"ok"
            assert receiver.bodies[-1] == body


async def test_a_request_without_a_body_has_no_framing(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(Receiver()) as origin:
        client = await connect(await serving.gateway(origin.url))
        for method in ("GET", "OPTIONS", "DELETE"):
            await client.ask(method=method)
            assert not origin.requests[-1].get_all("Content-Length")
            assert not origin.requests[-1].get_all("Transfer-Encoding")


@pytest.mark.parametrize("decoding", [True, False])
async def test_a_coded_body(serving: Serving, connect: Connect, decoding: bool) -> None:
    plain = b"text " * 1000
    coded = gzip.compress(plain)
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        served = await serving.gateway(origin.url, server={"auto_decompress": decoding})
        client = await connect(served)
        await client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(coded)
            + coded
        )
        assert (await client.head()).status == 200
    request = origin.requests[0]
    if decoding:
        assert receiver.bodies == [plain], "aiohttp has decoded it"
        assert request.get("Content-Encoding") is None
    else:
        assert receiver.bodies == [coded]
        assert request.get("Content-Encoding") == "gzip"


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_large_body_is_the_same(serving: Serving, connect: Connect, framing: str) -> None:
    piece = bytes(range(256)) * 251
    count = 300
    receiver = Receiver()
    async with ScriptedOrigin(receiver) as origin:
        client = await connect(await serving.gateway(origin.url))
        if framing == "length":
            await client.get("/", f"Content-Length: {len(piece) * count}", method="PUT")
            for _ in range(count):
                await client.send(piece)
        else:
            await client.get("/", "Transfer-Encoding: chunked", method="PUT")
            for _ in range(count):
                await client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            await client.send(b"0\r\n\r\n")
        assert (await client.head()).status == 200
    assert hashlib.sha256(receiver.bodies[0]).digest() == hashlib.sha256(piece * count).digest()


async def test_an_origin_that_does_not_read_holds_the_client_back(
    serving: Serving, connect: Connect, engine
) -> None:
    """Bounded by a count: far less is taken of an endless body than the client would send."""
    most = 64 * 1024 * 1024
    go_on = asyncio.Event()
    piece = bytes(64 * 1024)
    sent = 0

    async def script(peer: Peer) -> None:
        await peer.request()
        await go_on.wait()
        await peer.read_body()
        await peer.send(OK)

    async def upload(client: RawClient) -> None:
        nonlocal sent
        client.writer.transport.set_write_buffer_limits(high=0)
        await client.get("/", f"Content-Length: {most}", method="PUT")
        while sent < most:
            await client.send(piece)
            sent += len(piece)

    async with ScriptedOrigin(script) as origin:
        client = await connect(await serving.gateway(origin.url))
        uploading = asyncio.create_task(upload(client))
        await origin.connection()
        # Whole requests pass beside it while the upload stands still.
        other = Receiver()
        async with ScriptedOrigin(other) as second:
            beside = await connect(await serving.gateway(second.url))
            before = -1
            while before != sent:
                before = sent
                for _ in range(100):
                    assert (await beside.ask()).body == b"ok"
        assert before < most // 2
        assert engine.stats().pool.live_bytes <= 4 * 1024 * 1024
        go_on.set()
        await uploading
        assert (await client.head()).status == 200


async def test_an_early_answer_ends_the_upload(serving: Serving, connect: Connect) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.read(4)
        await peer.send(
            answer("Content-Length: 7", "Connection: close", status="413 Too Big", body=b"too big")
        )
        await peer.stall()

    async with ScriptedOrigin(refuse, respond(OK)) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get("/", "Content-Length: 1000000", method="PUT")
        await client.send(b"four")
        head = await client.head()
        assert (head.status, await client.body(head)) == (413, b"too big")
        await (await origin.connection()).wait_left()
        # What the client sends of it now is read and thrown away, and its connection stays good.
        await client.send(bytes(1000000 - 4))
        assert (await client.ask()).body == b"ok"


async def test_a_client_that_leaves_while_uploading_cancels(serving: Serving, connect: Connect) -> None:
    for leave in (RawClient.reset, RawClient.abort):

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.stall()

        async with ScriptedOrigin(script) as origin:
            served = await serving.gateway(origin.url)
            client = await connect(served)
            await client.get("/", "Content-Length: 1000000", method="PUT")
            await client.send(b"four")
            peer = await origin.connection()
            leave(client)
            await peer.wait_left()
            assert isinstance(await served.outcomes.get(), asyncio.CancelledError)


async def test_a_body_that_cannot_be_decoded_is_the_clients_fault(serving: Serving, connect: Connect) -> None:
    failures = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.stall()

    async with ScriptedOrigin(script) as origin:
        gateway = Gateway(origin.url, engine=serving.engine)

        async def handler(request):
            response = await gateway.relay(request)
            failures.append(request[FAILURE].error.name)
            return response

        client = await connect(await serving.handler(handler))
        await client.get("/", "Content-Length: 100", "Content-Encoding: gzip", method="POST")
        peer = await origin.connection()
        await client.send(b"this is not gzip")
        assert (await client.head()).status == 400
        await peer.wait_left()
        assert failures == ["UPLOAD_FAILED"]
