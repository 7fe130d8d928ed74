"""Requests and responses over HTTP/2, on a native route, by a handler, and from the cache."""

import json
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import FRESH, Recorder

from .conftest import BODY, Serve

SIZES = [0, 1, 9, 16_374, 16_375, 16_376, 16_384, 65_534, 65_535, 65_536, 1_000_000]
WAYS = ["/native/a", "/relay/a", "/cached/a"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a_response_arrives_whole(serve: Serve, framing: str, size: int) -> None:
    body = (BODY * 4)[:size]

    async def say(peer: Peer) -> None:
        while True:
            await peer.request()
            if framing == "length":
                await peer.send(answer(f"Content-Length: {size}", FRESH, body=body))
            elif framing == "chunked":
                framed = (b"%x\r\n%s\r\n" % (size, body) if size else b"") + b"0\r\n\r\n"
                await peer.send(answer("Transfer-Encoding: chunked", FRESH, body=framed))
            else:
                await peer.send(answer(FRESH, body=body))
                return

    async with ScriptedOrigin(say) as origin:
        client = await (await serve(origin.url)).connect()
        for path in (*WAYS, "/cached/a"):
            got = await client.ask(path)
            assert (got.status, got.reset) == (200, None), path
            assert got.body == body, path
            assert got.one("content-length") in ((str(size),) if framing == "length" else (None, str(size)))
            assert got.one("transfer-encoding") is None
            assert got.one("connection") is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("known", [True, False], ids=["length", "no length"])
async def test_a_request_body_arrives_whole(serve: Serve, size: int, known: bool) -> None:
    body = (BODY * 4)[:size]
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await (await serve(origin.url)).connect()
        fields = [("content-length", str(size))] if known else []
        for path in ("/native/a", "/relay/a"):
            got = await client.ask(path, *fields, method="POST", body=body)
            assert (got.status, bytes(got.body)) == (200, b"ok")
        assert recorder.bodies == [body, body]
        lengths = {arrival.head.get("Content-Length") for arrival in recorder.arrivals}
        # One that is whole before a connection is taken is sent with its length.
        assert lengths <= ({str(size)} if known else {str(size), None})
        got = await client.ask("/describe", *fields, method="POST", body=body)
        assert json.loads(got.body)["body"] == size


async def test_a_body_streams_both_ways_at_once(serve: Serve) -> None:
    client = await (await serve()).connect()
    stream = await client.request("/stream", method="POST", ends=False)
    for piece in (b"one", b"two", BODY):
        before = len(client.answers[stream].body)
        await client.send(stream, piece, ends=False)
        await client.until(
            lambda before=before, piece=piece: len(client.answers[stream].body) == before + len(piece),
            "the piece is back",
        )
    await client.send(stream, b"", ends=True)
    got = await client.answer(stream)
    assert bytes(got.body) == b"onetwo" + BODY


async def test_an_application_sees_an_ordinary_request(serve: Serve) -> None:
    client = await (await serve()).connect()
    got = await client.ask("/describe", ("cookie", "a=1"), ("x-y", "z"), ("cookie", "b=2"), ("cookie", "c=3"))
    seen = json.loads(got.body)
    assert (seen["scheme"], seen["host"], seen["version"]) == ("https", "localhost", [1, 1])
    assert seen["fields"]["cookie"] == "a=1; b=2; c=3"
    assert seen["fields"]["x-y"] == "z"


async def test_an_origin_is_told_of_http_2(serve: Serve) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await (await serve(origin.url)).connect()
        await client.ask("/native/a")
        (arrival,) = recorder.arrivals
        assert arrival.head.get("Via") == "2.0 penstock"
        assert arrival.head.get("X-Forwarded-Proto") == "https"


async def test_responses_without_a_body_end_with_their_head(serve: Serve) -> None:
    response = answer("Content-Length: 5", body=b"hello")
    async with ScriptedOrigin(Recorder(response=response)) as origin:
        client = await (await serve(origin.url)).connect()
        for path, method, status in (
            ("/native/a", "HEAD", 200),
            ("/empty", "GET", 204),
            ("/describe", "HEAD", 200),
        ):
            got = await client.ask(path, method=method)
            assert (got.status, got.pieces, bytes(got.body)) == (status, 0, b""), path
    assert (await client.ask("/native/none")).status == 502


async def test_a_file_is_served(serve: Serve) -> None:
    client = await (await serve()).connect()
    assert (await client.ask("/file")).body == (Path(__file__).parent / "conftest.py").read_bytes()
    got = await client.ask("/file", ("range", "bytes=0-9"))
    assert (got.status, len(got.body)) == (206, 10)


async def test_interim_responses_pass(serve: Serve) -> None:
    async def say(peer: Peer) -> None:
        await peer.request()
        await peer.send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
            + answer("Content-Length: 2", body=b"ok")
        )
        await peer.stall()

    async with ScriptedOrigin(say) as origin:
        client = await (await serve(origin.url)).connect()
        got = await client.ask("/native/a")
        assert [dict(fields)[":status"] for fields in got.interim] == ["103"]
        assert dict(got.interim[0])["link"] == "</a>; rel=preload"
        assert bytes(got.body) == b"ok"
        stream = await client.request("/describe", ("expect", "100-continue"), method="POST", ends=False)
        got = client.answers[stream]
        await client.until(lambda: bool(got.interim), "100 (Continue)")
        await client.send(stream, b"hello")
        assert json.loads((await client.answer(stream)).body)["body"] == 5


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "not taken"])
async def test_trailers_pass_to_a_client_of_grpc(serve: Serve, taken: bool) -> None:
    body = b"5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: 0\r\nGrpc-Message: fine\r\n\r\n"
    response = answer("Transfer-Encoding: chunked", "Content-Type: application/grpc", body=body)
    async with ScriptedOrigin(Recorder(response=response)) as origin:
        client = await (await serve(origin.url)).connect()
        fields = [("content-type", "application/grpc"), *([("te", "trailers")] if taken else [])]
        got = await client.ask("/native/a.B/C", *fields, method="POST", body=bytes(5))
        assert bytes(got.body) == bytes(5)
        assert got.trailers == ((("grpc-status", "0"), ("grpc-message", "fine")) if taken else ())


async def test_an_error_of_a_call_is_one_head(serve: Serve) -> None:
    client = await (await serve()).connect()
    got = await client.ask(
        "/native/a.B/C", ("content-type", "application/grpc+proto"), method="POST", body=bytes(5)
    )
    assert (got.status, got.one("grpc-status"), got.pieces) == (200, "14", 0)


async def test_connect_is_not_offered(serve: Serve) -> None:
    client = await (await serve()).connect()
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "CONNECT"), (":authority", "localhost:1")])
    await client.flush()
    assert (await client.answer(stream)).status == 501


async def test_a_host_of_another_certificate_is_misdirected(serve: Serve) -> None:
    client = await (await serve()).connect()
    stream = client.h2.get_next_available_stream_id()
    head = [(":method", "GET"), (":scheme", "https"), (":authority", "other.example"), (":path", "/describe")]
    client.h2.send_headers(stream, head, end_stream=True)
    await client.flush()
    assert (await client.answer(stream)).status == 421
    assert (await client.ask("/describe")).status == 200


async def test_a_head_that_is_too_large_is_refused_and_costs_no_other_stream(serve: Serve) -> None:
    client = await (await serve()).connect()
    assert (await client.ask("/describe", ("x", "y" * 70_000))).status == 431
    assert (await client.ask("/" + "a" * 20_000)).status == 414
    assert (await client.ask("/describe", *((f"x-{number}", "y") for number in range(129)))).status == 431
    assert (await client.ask("/describe")).status == 200
