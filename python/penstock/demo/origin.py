"""The demo's origin: a live HLS stream and a chat completion, on plain aiohttp.

It knows nothing of penstock, so that what the gateway in front of it shows is what it would show in front of
any origin. Made by `penstock.demo.app` and by the tests of the page.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from .completion import TOKENS_PER_SECOND, Completion
from .live import LiveStream

MEDIA = Path(__file__).with_name("media")

_LIVE = web.AppKey("live", LiveStream)

_PLAYLIST_TYPE = "application/vnd.apple.mpegurl"  # RFC 8216 §4
_MODEL = "penstock-demo"

# What a player has to know before it fetches anything else: avc1.4D4015 is H.264 Main at level 2.1, mp4a.40.2
# AAC-LC.
_MULTIVARIANT = """\
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-STREAM-INF:BANDWIDTH=290000,CODECS="avc1.4D4015,mp4a.40.2",RESOLUTION=480x270,FRAME-RATE=25.000
video.m3u8
"""


def make_origin() -> web.Application:
    """The origin as an application: `/live/*`, `/v1/chat/completions` and `/probe`."""
    app = web.Application()
    app[_LIVE] = LiveStream(MEDIA)
    app.router.add_get("/live/stream.m3u8", _multivariant)
    app.router.add_get("/live/video.m3u8", _playlist)
    app.router.add_get("/live/init.mp4", _initialisation)
    app.router.add_get(r"/live/segment-{number:\d{1,15}}.m4s", _segment)
    app.router.add_get("/v1/chat/completions", _completion)
    app.router.add_post("/v1/chat/completions", _completion)
    app.router.add_get("/probe", _probe)
    return app


async def _multivariant(_request: web.Request) -> web.Response:
    headers = {"Cache-Control": "public, max-age=60"}
    return web.Response(text=_MULTIVARIANT, content_type=_PLAYLIST_TYPE, headers=headers)


async def _playlist(request: web.Request) -> web.Response:
    # A new segment can be due at any moment, and max-age counts whole seconds: half a segment's worth of
    # staleness on every hop adds up to a viewer who stalls.
    headers = {"Cache-Control": "no-cache"}
    return web.Response(text=request.app[_LIVE].playlist(), content_type=_PLAYLIST_TYPE, headers=headers)


async def _initialisation(_request: web.Request) -> web.FileResponse:
    return _immutable(MEDIA / "init.mp4")


async def _segment(request: web.Request) -> web.FileResponse:
    path = request.app[_LIVE].segment(int(request.match_info["number"]))
    if path is None:
        raise web.HTTPNotFound(
            text="no such segment: not made yet, or expired\n", headers={"Cache-Control": "no-store"}
        )
    return _immutable(path)


def _immutable(path: Path) -> web.FileResponse:
    """A file whose content never changes under its name (RFC 8246)."""
    headers = {"Content-Type": "video/mp4", "Cache-Control": "public, max-age=60, immutable"}
    return web.FileResponse(path, headers=headers)


async def _completion(request: web.Request) -> web.StreamResponse:
    try:
        question, model, streamed = await _asked(request)
    except ValueError as problem:
        error = {"message": str(problem), "type": "invalid_request_error", "param": None, "code": None}
        return web.json_response({"error": error}, status=400)
    completion = Completion(question, model)
    if not streamed:
        return web.json_response(completion.whole())
    response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
    response.content_type = "text/event-stream"
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    due = loop.time()
    try:
        for event in completion.events():
            await response.write(event)
            # By deadline and not by pause, so that the rate holds however long a write takes.
            due += 1 / TOKENS_PER_SECOND
            await asyncio.sleep(due - loop.time())
    except ConnectionResetError:
        pass  # The reader has left.
    return response


async def _asked(request: web.Request) -> tuple[str, str, bool]:
    """The question, the model and whether to stream. A GET (an EventSource can do no other) always streams.

    Raises:
        ValueError: the body is not a chat completion request; the message says why.
    """
    if request.method == "GET":
        return request.query.get("question", ""), _MODEL, True
    try:
        body: Any = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"the body is not JSON: {problem}") from None
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise ValueError("'messages' must be a list with at least one message")
    return (
        str(messages[-1].get("content", "")),
        str(body.get("model", _MODEL)),
        bool(body.get("stream", False)),
    )


async def _probe(_request: web.Request) -> web.Response:
    """The smallest useful answer, for `penstock.demo.latency`."""
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})
