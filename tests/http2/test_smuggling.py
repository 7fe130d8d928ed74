"""Requests that could be read as two, or as others, once they are HTTP/1.1 (RFC 9113, sections 8.2 and 8.3)."""

import hpack
import pytest
from hyperframe.frame import DataFrame, HeadersFrame

from penstock.testing import ScriptedOrigin
from support.origins import Recorder

from .conftest import Serve

METHOD, SCHEME, HOST, PATH = (
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "localhost"),
    (":path", "/native/a"),
)
USUAL = (METHOD, SCHEME, HOST, PATH)
POST = ((":method", "POST"), SCHEME, HOST, PATH)

HEADS: dict[str, tuple[tuple[str, str], ...]] = {
    "transfer-encoding": (*USUAL, ("transfer-encoding", "chunked")),
    "connection": (*USUAL, ("connection", "x-y")),
    "keep-alive": (*USUAL, ("keep-alive", "timeout=5")),
    "proxy-connection": (*USUAL, ("proxy-connection", "close")),
    "upgrade": (*USUAL, ("upgrade", "websocket")),
    "te of another coding": (*USUAL, ("te", "gzip")),
    "a name in upper case": (*USUAL, ("X-Y", "z")),
    "a name with a blank": (*USUAL, ("x y", "z")),
    "a name with a colon": (*USUAL, ("x:y", "z")),
    "a name with a line end": (*USUAL, ("x\r\ny", "z")),
    "an empty name": (*USUAL, ("", "z")),
    "a value with a line end": (*USUAL, ("x", "y\r\nTransfer-Encoding: chunked")),
    "a value with a line feed": (*USUAL, ("x", "y\nz: 1")),
    "a value with a return": (*USUAL, ("x", "y\rz")),
    "a value with a NUL": (*USUAL, ("x", "y\0z")),
    "a value that begins with a blank": (*USUAL, ("x", " y")),
    "a value that ends with a tab": (*USUAL, ("x", "y\t")),
    "a cookie with a line end": (*USUAL, ("cookie", "a=1\r\nX: y")),
    "a pseudo-field after a field": (METHOD, SCHEME, HOST, ("x", "y"), PATH),
    "two paths": (*USUAL, (":path", "/native/b")),
    "two methods": (*USUAL, (":method", "POST")),
    "two authorities": (*USUAL, (":authority", "localhost")),
    "an unknown pseudo-field": (*USUAL, (":protocol2", "x")),
    "a status": (*USUAL, (":status", "200")),
    "no path": (METHOD, SCHEME, HOST),
    "no method": (SCHEME, HOST, PATH),
    "no scheme": (METHOD, HOST, PATH),
    "an empty path": (METHOD, SCHEME, HOST, (":path", "")),
    "a path without a slash": (METHOD, SCHEME, HOST, (":path", "native/a")),
    "a URL as the path": (METHOD, SCHEME, HOST, (":path", "https://other.example/native/a")),
    "a path with a blank": (METHOD, SCHEME, HOST, (":path", "/native/a HTTP/1.1")),
    "a path with a line end": (METHOD, SCHEME, HOST, (":path", "/native/a HTTP/1.1\r\nX: y")),
    "an asterisk for GET": (METHOD, SCHEME, HOST, (":path", "*")),
    "a method with a blank": ((":method", "GET /x HTTP/1.1\r\nX: y\r\n\r\nGET"), SCHEME, HOST, PATH),
    "a host that is another one": (*USUAL, ("host", "other.example")),
    "two hosts": (*USUAL, ("host", "localhost"), ("host", "localhost")),
    "an authority with a line end": (METHOD, SCHEME, (":authority", "localhost\r\nX: y"), PATH),
    "an authority with a user": (METHOD, SCHEME, (":authority", "a@localhost"), PATH),
    "no host at all": (METHOD, SCHEME, PATH),
    "a length that is no number": (*POST, ("content-length", "5x")),
    "two lengths": (*POST, ("content-length", "5"), ("content-length", "6")),
    "a negative length": (*POST, ("content-length", "-5")),
    "a length that is too short": (*POST, ("content-length", "4")),
    "a length that is too long": (*POST, ("content-length", "6")),
    "a length and no body": (*POST, ("content-length", "0")),
}


@pytest.mark.parametrize("name", HEADS)
async def test_what_could_be_read_otherwise_does_not_reach_an_origin(serve: Serve, name: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await serve(origin.url)
        client = await served.connect()
        head = HEADS[name]
        has_body = head[0][1] == "POST"
        data = hpack.Encoder().encode(list(head), huffman=False)
        flags = ["END_HEADERS", *([] if has_body else ["END_STREAM"])]
        # hyper-h2 has to know of the stream.
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, USUAL, end_stream=not has_body)
        client.h2.clear_outbound_data_buffer()
        await client.frames(HeadersFrame(stream, data=data, flags=flags))
        if has_body:
            await client.frames(DataFrame(stream, data=b"hello", flags=["END_STREAM"]))
        got = client.answers[stream]
        await client.until(
            lambda: got.ended or got.reset is not None or client.goodbye is not None, "the request is refused"
        )
        refused = got.reset is not None or client.goodbye is not None or got.status in (400, 421, 501)
        assert refused, got
        assert [arrival.body for arrival in recorder.arrivals] == []
        other = await served.connect()
        assert (await other.ask("/describe")).status == 200


async def test_a_host_field_alone_is_the_host(serve: Serve) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await (await serve(origin.url)).connect()
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, [METHOD, SCHEME, PATH, ("host", "localhost")], end_stream=True)
        await client.flush()
        assert (await client.answer(stream)).status == 200
        (arrival,) = recorder.arrivals
        assert arrival.head.get("X-Forwarded-Host") == "localhost"


async def test_a_fragment_is_refused_as_over_http_1(serve: Serve) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await (await serve(origin.url)).connect()
        assert (await client.ask("/native/a#/../b")).status == 400
        assert recorder.arrivals == []
