"""The demo's origin on its own: honest types and lifetimes, and the shape of a chat completion."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from penstock.demo.completion import ANSWERS, tokens
from penstock.demo.origin import MEDIA, make_origin

_QUESTION = "Where do the bytes go?"


@pytest.fixture
async def origin() -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose base is the embedded origin on a free port."""
    runner = web.AppRunner(make_origin())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with aiohttp.ClientSession(f"http://{host}:{port}/") as session:
            yield session
    finally:
        await runner.cleanup()


def _asked(**more: Any) -> dict[str, Any]:
    return {"model": "a-model", "messages": [{"role": "user", "content": _QUESTION}], **more}


async def test_playlists_and_segments_say_what_they_are_and_for_how_long(
    origin: aiohttp.ClientSession,
) -> None:
    async with origin.get("live/stream.m3u8") as response:
        assert response.content_type == "application/vnd.apple.mpegurl"
        assert "video.m3u8" in await response.text()
    async with origin.get("live/video.m3u8") as response:
        assert response.content_type == "application/vnd.apple.mpegurl"
        assert response.headers["Cache-Control"] == "no-cache"
        name = (await response.text()).splitlines()[-1]
    async with origin.get(f"live/{name}") as response:
        assert response.content_type == "video/mp4"
        assert "immutable" in response.headers["Cache-Control"]
        assert await response.read() in [each.read_bytes() for each in MEDIA.glob("*.m4s")]


async def test_a_segment_answers_a_range(origin: aiohttp.ClientSession) -> None:
    async with origin.get("live/init.mp4", headers={"Range": "bytes=4-7"}) as response:
        assert response.status == 206
        assert await response.read() == b"ftyp"


async def test_a_segment_that_is_not_made_yet_is_not_found_and_not_kept(
    origin: aiohttp.ClientSession,
) -> None:
    async with origin.get("live/segment-999999999.m4s") as response:
        assert response.status == 404
        assert response.headers["Cache-Control"] == "no-store"


async def test_a_streamed_completion_is_the_answer_token_by_token(origin: aiohttp.ClientSession) -> None:
    async with origin.post("v1/chat/completions", json=_asked(stream=True)) as response:
        assert response.content_type == "text/event-stream"
        events = (await response.text()).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(each.removeprefix("data: ")) for each in events[:-2]]
    assert {each["object"] for each in chunks} == {"chat.completion.chunk"}
    assert len({each["id"] for each in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    told = [each["choices"][0]["delta"].get("content", "") for each in chunks[:-1]]
    assert "".join(told) == ANSWERS[_QUESTION]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len(tokens(ANSWERS[_QUESTION]))


async def test_without_stream_the_completion_is_one_object(origin: aiohttp.ClientSession) -> None:
    async with origin.post("v1/chat/completions", json=_asked()) as response:
        answer = await response.json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "a-model"
    assert answer["choices"][0]["message"]["content"] == ANSWERS[_QUESTION]


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"messages": []}', '{"messages": ["hello"]}'])
async def test_what_is_no_completion_request_is_refused_with_a_reason(
    origin: aiohttp.ClientSession, body: str
) -> None:
    async with origin.post("v1/chat/completions", data=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
