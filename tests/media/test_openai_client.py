"""openai's own client, streaming chat completions through `penstock serve` from an origin that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trustme

from penstock.testing import Peer, Script, ScriptedOrigin
from support.certificates import trust, written
from support.programs import require_package
from support.servers import running_gateway

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_WORDS = ["A", " penstock", " is", " the", " gated", " pipe", "."]
_USAGE = {"prompt_tokens": 5, "completion_tokens": len(_WORDS), "total_tokens": 5 + len(_WORDS)}
_QUESTION: dict[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "What is a penstock?"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
_SECONDS = 30.0


@pytest.fixture
def openai() -> ModuleType:
    return require_package("openai")


@dataclass(frozen=True)
class Way:
    """How the client reaches the origin."""

    options: tuple[str, ...]
    """Of the gateway."""
    client: dict[str, Any]
    """Of the client's connections."""


@pytest.fixture(params=["native", "app", "native over HTTP/2", "app over HTTP/2"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    lane, _, over = request.param.partition(" over ")
    if not over:
        return Way(("--lane", lane), {})
    authority = trustme.CA()
    cert, key = written(authority, tmp_path, "127.0.0.1")
    options = ("--lane", lane, "--tls-cert", str(cert), "--tls-key", str(key))
    return Way(options, {"http1": False, "http2": True, "verify": trust(authority)})


def _event(data: bytes) -> bytes:
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def _chunk(*choices: dict[str, Any], usage: dict[str, int] | None = None) -> bytes:
    known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    return _event(json.dumps({**known, "choices": choices, "usage": usage}).encode())


def _word(text: str) -> bytes:
    return _chunk({"index": 0, "delta": {"content": text}, "finish_reason": None})


@asynccontextmanager
async def _asking(openai: ModuleType, way: Way, script: Script) -> AsyncIterator[tuple[Any, ScriptedOrigin]]:
    """A client of the gateway, and the origin behind it."""
    async with (
        ScriptedOrigin(script) as origin,
        running_gateway(origin.url, *way.options) as url,
        openai.DefaultAsyncHttpxClient(**way.client) as http,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0, http_client=http) as client,
        asyncio.timeout(_SECONDS),
    ):
        yield client, origin


@pytest.mark.timeout(90)
async def test_a_completion_comes_word_by_word_and_with_its_usage(openai: ModuleType, way: Way) -> None:
    asked: list[Any] = []
    # The origin says a word when the one before has been read: a relay that holds one back stops it for good.
    turn = asyncio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.append(json.loads(await peer.read_body()))
        await peer.send(_HEAD)
        for word in _WORDS:
            await turn.acquire()
            await peer.send(_word(word))
        await peer.send(_chunk({"index": 0, "delta": {}, "finish_reason": "stop"}))
        await peer.send(_chunk(usage=_USAGE) + _event(b"[DONE]") + b"0\r\n\r\n")

    async with _asking(openai, way, script) as (client, origin):
        stream = await client.chat.completions.create(**_QUESTION)
        turn.release()
        heard, reasons, usage = [], [], None
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                reasons.append(choice.finish_reason)
                if choice.delta.content is not None:
                    heard.append(choice.delta.content)
                    turn.release()
        assert heard == _WORDS
        assert reasons[-1] == "stop"
        assert usage.model_dump(exclude_none=True) == _USAGE
        assert asked == [_QUESTION]
        [request] = origin.requests
        assert (request.method, request.target) == ("POST", "/v1/chat/completions")
        assert request.get("Authorization") == "Bearer secret"


@pytest.mark.timeout(90)
async def test_an_abort_half_way_closes_the_connection_to_the_origin(openai: ModuleType, way: Way) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(_HEAD + b"".join(map(_word, _WORDS[:3])))
        # It says no more: that the client has left is all that it could learn it from.
        await peer.wait_left()

    async with _asking(openai, way, script) as (client, origin):
        stream = await client.chat.completions.create(**_QUESTION)
        heard = [(await anext(stream)).choices[0].delta.content for _ in range(3)]
        assert heard == _WORDS[:3]
        peer = await origin.connection()
        assert not peer.left
        await stream.close()
        if way.client:
            # httpcore 1 never resets a stream of HTTP/2: the origin hears of it when the connection ends.
            await client.close()
        await peer.wait_left()


@pytest.mark.timeout(90)
async def test_a_completion_that_breaks_off_is_an_error_for_the_client(openai: ModuleType, way: Way) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(_HEAD + _word(_WORDS[0]))
        await heard.wait()
        peer.reset()

    heard = asyncio.Event()
    async with _asking(openai, way, script) as (client, _):
        stream = await client.chat.completions.create(**_QUESTION)
        assert (await anext(stream)).choices[0].delta.content == _WORDS[0]
        heard.set()
        with pytest.raises(openai.APIConnectionError):
            await anext(stream)


@pytest.mark.timeout(90)
async def test_a_refusal_of_the_origin_is_the_clients_to_read(openai: ModuleType, way: Way) -> None:
    said = json.dumps({"error": {"message": "slow down", "type": "requests", "code": "rate_limit"}}).encode()
    head = b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 7\r\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.read_body()
        await peer.send(head + b"Content-Length: %d\r\n\r\n" % len(said) + said)

    async with _asking(openai, way, script) as (client, _):
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            await client.chat.completions.create(**_QUESTION)
        assert caught.value.response.headers["Retry-After"] == "7"
        assert caught.value.code == "rate_limit"
