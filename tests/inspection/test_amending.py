"""What is added to requests on every way to relay them, and what is left as it is."""

import gzip
import json
from typing import Any

import pytest

from penstock.config import Inspection
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.origins import JSON, Recorder, chunk
from support.ways import Way

from .gateways import USAGE, inspecting

ASKS = b'{"model":"m", "stream":true,"temperature":1.50,"messages":[{"role":"user","content":"h\\u00e9"}]}'
AMENDED = b'{"stream_options":{"include_usage":true},' + ASKS[1:]


async def reply(client: RawClient) -> int:
    head = await client.head()
    await client.body(head)
    return head.status


async def sent_on(way: Way, body: bytes, inspect: Inspection = USAGE, *fields: str) -> tuple[bytes, bool]:
    """What the origin gets of `body`, and whether it is said to be amended."""
    script = Recorder()
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, inspect)
        client = await chat.post(body, *fields)
        assert await reply(client) == 200
        seen = await chat.inspected()
        (asked,) = origin.requests
        (arrived,) = script.bodies
        assert asked.get("Content-Length") == str(len(arrived))
    return arrived, seen.amended


@pytest.mark.parametrize("size", [0, 100_000, 1_000_000], ids=["small", "above a read", "above a window"])
async def test_what_is_missing_is_added(way: Way, size: int) -> None:
    padding = b" " * size
    assert await sent_on(way, ASKS + padding) == (AMENDED + padding, True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m"}',
        b'{"stream":false}',
        b'{"stream":true,"stream":true}',
        b'{"stream":true,"stream_options":{"include_usage":false}}',
        b'{"stream":true',
        b'[{"stream":true}]',
        b"\xff",
    ],
)
async def test_what_is_no_stream_or_not_clear_stays_as_it_is(way: Way, body: bytes) -> None:
    assert await sent_on(way, body) == (body, False)


async def test_what_the_client_has_said_gives_way_where_it_is_insisted(way: Way) -> None:
    insistent = Inspection(amend='{"stream_options": {"include_usage": true}}', insist=True)
    said = b'{"stream":true,"stream_options":{"include_usage":false,"x":[1]}}'
    assert await sent_on(way, said, insistent) == (said.replace(b"false", b"true"), True)


async def test_digests_of_the_request_are_not_passed_on(way: Way) -> None:
    script = Recorder()
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, USAGE)
        assert (
            await reply(await chat.post(ASKS, "Content-MD5: x", "Digest: md5=x", "Content-Digest: md5=:x:"))
            == 200
        )
        (asked,) = origin.requests
        names = {name.lower() for name, _ in asked.fields}
        assert not names & {"content-md5", "digest", "content-digest", "repr-digest"}


async def test_a_body_in_chunks_that_is_awaited_by_100_continue(way: Way) -> None:
    script = Recorder()
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, USAGE)
        client = await way.connect(chat.relay.port)
        await client.get("/", JSON, "Transfer-Encoding: chunked", "Expect: 100-continue", method="POST")
        assert (await client.head()).status == 100
        for at in range(0, len(ASKS), 10):
            await client.send(chunk(ASKS[at : at + 10]))
        await client.send(b"0\r\n\r\n")
        assert await reply(client) == 200
        assert script.bodies == [AMENDED]
        # The connection serves on.
        await client.get("/", JSON, f"Content-Length: {len(ASKS)}", method="POST")
        await client.send(ASKS)
        assert await reply(client) == 200
        assert script.bodies == [AMENDED, AMENDED]


@pytest.mark.parametrize("announced", [True, False], ids=["with a length", "in chunks"])
async def test_a_request_above_the_limit_is_refused(way: Way, announced: bool) -> None:
    limited = Inspection(amend={"a": 1}, max_request=50_000)
    async with ScriptedOrigin(Recorder()) as origin:
        chat = await inspecting(way, origin.url, limited)
        client = await way.connect(chat.relay.port)
        body = ASKS + b" " * 50_000
        framing = f"Content-Length: {len(body)}" if announced else "Transfer-Encoding: chunked"
        await client.get("/", JSON, framing, method="POST")
        await client.send(body if announced else chunk(body) + b"0\r\n\r\n")
        head = await client.head()
        assert head.status == 413
        problem = json.loads(await client.body(head))
        assert problem["name"] == "REQUEST_TOO_LARGE"
        end = await chat.end()
        assert origin.connections == []
    assert end.status is None
    assert end.error is not None
    assert end.error.name == "REQUEST_TOO_LARGE"  # type: ignore[attr-defined]


async def test_a_request_as_large_as_the_limit_is_amended(way: Way) -> None:
    body = ASKS + b" " * (50_000 - len(ASKS))
    limited = Inspection(amend={"stream_options": {"include_usage": True}}, max_request=50_000)
    arrived, amended = await sent_on(way, body, limited)
    assert (amended, arrived.strip()) == (True, AMENDED)


async def test_what_is_no_json_is_passed_on_as_it_comes(way: Way) -> None:
    script = Recorder()
    limited = Inspection(amend={"a": 1}, max_request=10)
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, limited)
        client = await way.connect(chat.relay.port)
        body = ASKS * 1000
        await client.get(
            "/", "Content-Type: multipart/form-data", f"Content-Length: {len(body)}", method="POST"
        )
        await client.send(body)
        assert await reply(client) == 200
        assert script.bodies == [body]


async def test_a_request_without_a_body(way: Way) -> None:
    script = Recorder()
    async with ScriptedOrigin(script) as origin:
        chat = await inspecting(way, origin.url, USAGE)
        client = await way.connect(chat.relay.port)
        await client.get("/", JSON)
        assert await reply(client) == 200
        assert not (await chat.inspected()).amended
        assert script.bodies == [b""]


async def test_a_coded_request_stays_as_it_is_or_is_decoded_before(way: Way) -> None:
    """aiohttp's servers decode requests, unless told otherwise; the engine never does."""
    body = gzip.compress(ASKS)
    arrived, amended = await sent_on(way, body, USAGE, "Content-Encoding: gzip")
    assert (arrived, amended) == ((body, False) if way.name == "native" else (AMENDED, True))


async def test_a_client_that_leaves_within_its_request(way: Way) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        chat = await inspecting(way, origin.url, USAGE)
        client = await way.connect(chat.relay.port)
        # The handler has the request: one that is broken off before that has no end to tell of.
        await client.get("/", JSON, "Expect: 100-continue", f"Content-Length: {len(ASKS)}", method="POST")
        assert (await client.head()).status == 100
        await client.send(ASKS[:20])
        client.abort()
        end = await chat.end()
        assert origin.connections == []
    assert end.status is None
    assert end.error is not None
    assert end.inspected is None


async def test_bytes_that_are_kept_are_counted(way: Way) -> None:
    before = way.engine.stats().pool.bytes_copied["inspection"]
    await sent_on(way, ASKS)
    after = way.engine.stats().pool.bytes_copied["inspection"]
    # An application's request is Python's anyway.
    assert after - before == (len(ASKS) if way.name == "native" else 0)


BAD: list[dict[str, Any]] = [
    {"usage": ("",)},
    {"usage": ("a..b",)},
    {"usage": ('a"b',)},
    {"usage": "usage"},
    {"usage": (), "usage_start": ()},
    {"usage": ("üsage",)},
    {"tokens": "delta"},
    {"amend": []},
    {"amend": "[]"},
    {"amend": "{"},
    {"amend": {"x": float("nan")}},
    {"amend": {"x": object()}},
    {"insist": 1},
    {"max_request": 0},
    {"max_response": -1},
]


@pytest.mark.parametrize("settings", BAD, ids=lambda settings: str(settings).partition(" object at")[0])
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Inspection"):
        Inspection(**settings)


def test_an_amendment_is_kept_as_text() -> None:
    assert Inspection(amend={"a": 1}).amend == '{"a":1}'
    assert Inspection(amend='{"a":1}') == Inspection(amend={"a": 1})
