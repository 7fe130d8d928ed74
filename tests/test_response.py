"""A response read as text and as JSON, and the error of one with a status of an error."""

import pickle
import warnings

import pytest

import penstock
from penstock.testing import ScriptedOrigin, respond


def answer(status: str, body: bytes = b"", *fields: str) -> bytes:
    head = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain", "grün".encode(), "grün"),
        ("text/plain; charset=iso-8859-1", "grün".encode("latin-1"), "grün"),
        ('text/plain; format=flowed; CHARSET="ISO-8859-1"', "grün".encode("latin-1"), "grün"),
        ("text/plain; charset=utf-16", "grün".encode("utf-16"), "grün"),
        ("text/plain; charset=no-such", "grün".encode(), "grün"),
        ("text/plain; charset=", "grün".encode(), "grün"),
        (";;;", b"ok", "ok"),
        ("", b"", ""),
    ],
)
async def test_text_is_read_by_the_charset_of_its_content_type(
    engine: penstock.Engine, kind: str, body: bytes, text: str
) -> None:
    async with ScriptedOrigin(respond(answer("200 OK", body, f"Content-Type: {kind}"))) as origin:
        # The head is waited for where it was not.
        assert await engine.get(origin.url).text() == text


async def test_text_in_an_encoding_that_the_caller_names(engine: penstock.Engine) -> None:
    body = "grün".encode("latin-1")
    async with ScriptedOrigin(respond(answer("200 OK", body))) as origin:
        assert await engine.get(origin.url).text("latin-1") == "grün"
        assert await engine.get(origin.url).text(errors="replace") == "gr\ufffdn"
        with pytest.raises(LookupError):
            await engine.get(origin.url).text("no-such")


async def test_bytes_that_are_no_text_are_an_error_with_a_code(engine: penstock.Engine) -> None:
    async with ScriptedOrigin(respond(answer("200 OK", b"gr\xfcn"))) as origin:
        with pytest.raises(penstock.DecodeError) as caught:
            await engine.get(f"{origin.url}/a?token=secret").text()
    error = caught.value
    assert (error.code, error.name, error.source, error.origin) == (
        0x304,
        "BODY_UNDECODABLE",
        "origin",
        origin.url,
    )
    assert isinstance(error, ValueError)
    assert "the body of GET /a is no text in utf-8" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '{"grün": [1, 2.5, null]}'.encode()),
        ("application/json; charset=latin-1", '{"grün": [1, 2.5, null]}'.encode("latin-1")),
        ("text/plain", '{"grün": [1, 2.5, null]}'.encode("utf-16")),
    ],
)
async def test_json_is_read_whatever_its_content_type(
    engine: penstock.Engine, kind: str, body: bytes
) -> None:
    async with ScriptedOrigin(respond(answer("200 OK", body, f"Content-Type: {kind}"))) as origin:
        assert await engine.get(origin.url).json() == {"grün": [1, 2.5, None]}
        assert await engine.get(origin.url).json(loads=len) > 10


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"\xff\xff\xff"])
async def test_what_is_no_json_is_an_error_that_says_what_came(engine: penstock.Engine, body: bytes) -> None:
    async with ScriptedOrigin(respond(answer("502 Bad Gateway", body, "Content-Type: text/html"))) as origin:
        with pytest.raises(penstock.DecodeError) as caught:
            await engine.get(f"{origin.url}/a").json()
    assert caught.value.name == "BODY_UNDECODABLE"
    assert "the body of GET /a is no JSON" in str(caught.value)
    assert "status 502, Content-Type text/html" in str(caught.value)


async def test_a_body_that_is_cut_off_is_no_text(engine: penstock.Engine) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1, 2]"

    async def truncated(peer: penstock.testing.Peer) -> None:
        await peer.request()
        await peer.send(cut)

    async with ScriptedOrigin(truncated) as origin:
        with pytest.raises(penstock.BodyTruncatedError):
            await engine.get(origin.url).json()


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified", "399 Odd"])
async def test_a_good_status_raises_nothing(engine: penstock.Engine, status: str) -> None:
    head = (
        f"HTTP/1.1 {status}\r\n" + ("" if status[0:3] in {"204", "304"} else "Content-Length: 0\r\n") + "\r\n"
    )
    async with ScriptedOrigin(respond(head.encode())) as origin, engine.get(origin.url) as response:
        assert response.raise_for_status() is response


@pytest.mark.parametrize(
    ("status", "retryable"), [("404 Not Found", False), ("429 ", True), ("503 Service Unavailable", True)]
)
async def test_a_bad_status_is_an_error_with_status_method_and_origin(
    engine: penstock.Engine, status: str, retryable: bool
) -> None:
    async with ScriptedOrigin(respond(answer(status, b"why"))) as origin:
        url = origin.url.replace("//", "//user:password@") + "/a?token=secret"
        async with engine.request("POST", url) as response:
            with pytest.raises(penstock.ResponseStatusError) as caught:
                response.raise_for_status()
            # What the origin says about it can still be read.
            assert await response.text() == "why"
    error = caught.value
    assert (error.code, error.name, error.source) == (0x220, "BAD_STATUS", "origin")
    assert (error.status, error.retryable, error.origin) == (int(status[:3]), retryable, origin.url)
    assert str(error) == f"0x220 BAD_STATUS: POST /a was answered {status.rstrip()} (origin {origin.url})"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, str(again)) == (type(error), error.status, str(error))


async def test_a_bad_status_outside_of_a_block_closes_the_response(engine: penstock.Engine) -> None:
    async with ScriptedOrigin(respond(answer("500 Oh", b"x" * 1000))) as origin:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            response = await engine.get(origin.url)
            with pytest.raises(penstock.ResponseStatusError):
                response.raise_for_status()
            with pytest.raises(penstock.StateError):
                await response.bytes()
            del response


async def test_a_status_before_the_head_is_no_status(engine: penstock.Engine) -> None:
    async with ScriptedOrigin(respond(answer("200 OK"))) as origin:
        response = engine.get(origin.url)
        with pytest.raises(AttributeError, match="has no head yet"):
            response.raise_for_status()
        await response.aclose()
