"""What is not the relay's business passes as it is: requests with their bodies and ids, errors, fields of the head."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from penstock.config import EventRelay
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer
from support.origins import chunk
from support.ways import Way

ONE = b"data: 1\n\n"
WHOLE = EventRelay()


def says(response: bytes, received: list[tuple[RecordedRequest, bytes]] | None = None) -> Any:
    async def script(peer: Peer) -> None:
        while True:
            head = await peer.request()
            body = await peer.read_body()
            if received is not None:
                received.append((head, body))
            await peer.send(response)

    return script


def stream(*fields: str) -> bytes:
    head = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream; charset=utf-8", *fields)
    return head + chunk(ONE) + b"0\r\n\r\n"


async def test_proxies_are_told_to_let_events_pass(way: Way) -> None:
    async with ScriptedOrigin(says(stream())) as origin:
        client = await (await way.relay(origin.url, events=WHOLE)).ask()
        head = await client.head()
        assert (head.one("X-Accel-Buffering"), head.one("Cache-Control")) == ("no", "no-cache")
        assert await client.body(head) == ONE


async def test_what_the_origin_says_stands(way: Way) -> None:
    async with ScriptedOrigin(says(stream("cache-control: no-store", "X-ACCEL-BUFFERING: yes"))) as origin:
        client = await (await way.relay(origin.url, events=WHOLE)).ask()
        head = await client.head()
        assert (head.one("X-Accel-Buffering"), head.one("Cache-Control")) == ("yes", "no-store")


async def test_what_the_route_says_stands(way: Way) -> None:
    if not way.is_route:
        pytest.skip("a relay changes no fields")
    async with ScriptedOrigin(says(stream())) as origin:
        changes = {"Cache-Control": "private", "x-accel-buffering": None}
        relay = await way.relay(origin.url, events=WHOLE, response_headers=changes)
        head = await (await relay.ask()).head()
        assert (head.one("X-Accel-Buffering"), head.one("Cache-Control")) == (None, "private")
        relay = await way.relay(
            origin.url, events=WHOLE, add_response_headers=[("Cache-Control", "no-transform")]
        )
        assert (await (await relay.ask()).head()).one("Cache-Control") == "no-transform"


OTHERS = {
    "no policy": (None, stream()),
    "not asked for": (EventRelay(unbuffered=False), stream()),
    "compressed": (WHOLE, stream("Content-Encoding: gzip")),
    "no events": (WHOLE, answer("Content-Length: 2", "Content-Type: text/html", body=b"ok")),
    "a length": (WHOLE, answer("Content-Length: 9", "Content-Type: text/event-stream", body=ONE)),
    "no content": (WHOLE, answer(status="204 No Content")),
    "a longer type": (
        WHOLE,
        answer("Transfer-Encoding: chunked", "Content-Type: text/event-streamx") + chunk(ONE) + b"0\r\n\r\n",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
async def test_nothing_is_said_of_what_is_relayed_as_it_is(way: Way, what: str) -> None:
    policy, response = OTHERS[what]
    async with ScriptedOrigin(says(response)) as origin:
        client = await (await way.relay(origin.url, events=policy)).ask()
        head = await client.head()
        assert (head.one("X-Accel-Buffering"), head.one("Cache-Control")) == (None, None)
        assert await client.body(head) in {ONE, b"ok", b""}


async def test_a_head_without_its_body_is_one_of_events(way: Way) -> None:
    async with ScriptedOrigin(says(answer("Content-Type: text/event-stream"))) as origin:
        relay = await way.relay(origin.url, events=EventRelay(heartbeat=0.01))
        client = await way.connect(relay.port)
        for _ in range(2):
            await client.get(method="HEAD")
            assert (await client.head()).status == 200


COMPLETION = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "é\u2028\\u0000 "}]}


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_request_for_a_completion_passes_as_it_is(way: Way, framing: str) -> None:
    received: list[tuple[RecordedRequest, bytes]] = []
    body = json.dumps(COMPLETION, ensure_ascii=False, indent=1).encode() * 100
    response = stream("X-Request-Id: req_7", "OpenAI-Processing-Ms: 12")
    async with ScriptedOrigin(says(response, received)) as origin:
        relay = await way.relay(origin.url, events=WHOLE)
        client = await way.connect(relay.port)
        fields = ("Content-Type: application/json", "Authorization: Bearer k", "X-Request-Id: abc-1")
        if framing == "length":
            await client.get("/v1/chat/completions", *fields, f"Content-Length: {len(body)}", method="POST")
            await client.send(body)
        else:
            await client.get("/v1/chat/completions", *fields, "Transfer-Encoding: chunked", method="POST")
            for start in range(0, len(body), 1000):
                await client.send(chunk(body[start : start + 1000]))
            await client.send(b"0\r\n\r\n")
        head = await client.head()
        assert head.all("X-Request-Id") == ["req_7"]
        assert head.one("OpenAI-Processing-Ms") == "12"
        assert await client.body(head) == ONE
    [(asked, sent)] = received
    assert (asked.method, asked.target) == ("POST", "/v1/chat/completions")
    assert asked.get_all("X-Request-Id") == ["abc-1"]
    assert asked.get("Authorization") == "Bearer k"
    assert sent == body


async def test_no_id_is_made_for_a_request_without_one(way: Way) -> None:
    received: list[tuple[RecordedRequest, bytes]] = []
    async with ScriptedOrigin(says(stream(), received)) as origin:
        client = await (await way.relay(origin.url, events=WHOLE)).ask()
        head = await client.head()
        assert head.all("X-Request-Id") == []
        await client.body(head)
    assert received[0][0].get_all("X-Request-Id") == []


ERRORS = {
    "429 Too Many Requests": ("Retry-After: 20", "x-ratelimit-remaining-tokens: 0"),
    "401 Unauthorized": ("WWW-Authenticate: Bearer",),
    "500 Internal Server Error": (),
    "503 Service Unavailable": ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT",),
    "529 Overloaded": ("retry-after-ms: 1500",),
}


@pytest.mark.parametrize("status", ERRORS)
async def test_errors_of_the_origin_pass_as_they_are(way: Way, status: str) -> None:
    body = b'{"error": {"message": "no", "type": "requests", "code": null}}'
    fields = (*ERRORS[status], "Content-Type: application/json", "X-Request-Id: req_9")
    response = answer(*fields, f"Content-Length: {len(body)}", status=status, body=body)
    async with ScriptedOrigin(says(response)) as origin:
        client = await (await way.relay(origin.url, events=WHOLE)).ask()
        head = await client.head()
        assert (f"{head.status} {head.reason}", await client.body(head)) == (status, body)
        for name, value in (field.split(": ", 1) for field in fields):
            assert head.all(name) == [value]
        assert head.one("Cache-Control") is None


async def test_an_error_that_is_a_stream_of_events_passes_as_one(way: Way) -> None:
    """Some model servers say no in the form that was asked for."""
    said = b'event: error\ndata: {"type":"error"}\n\n'
    head = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream", status="400 Bad Request")
    async with ScriptedOrigin(says(head + chunk(said) + b"0\r\n\r\n")) as origin:
        client = await (await way.relay(origin.url, events=WHOLE)).ask()
        answered = await client.head()
        assert (answered.status, await client.body(answered)) == (400, said)


async def test_middlewares_that_change_the_head_see_the_policy(way: Way) -> None:
    """On the way by `on_response_prepare` the engine does not write the head."""
    if way.is_route:
        pytest.skip("a route has none")
    async with ScriptedOrigin(says(stream())) as origin:
        gateway = await way.gateway(origin.url, events=WHOLE)
        app = web.Application()
        app.router.add_get("/", gateway.relay)

        async def mark(_: web.Request, response: web.StreamResponse) -> None:
            await asyncio.sleep(0)
            response.headers["X-Mark"] = response.headers["X-Accel-Buffering"]

        app.on_response_prepare.append(mark)
        client = await (await way.serve(app)).ask()
        head = await client.head()
        assert head.one("X-Mark") == "no"
        assert await client.body(head) == ONE
