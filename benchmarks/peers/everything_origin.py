"""An origin of titles and of tokens, with the faults that a gateway can mend: `python everything_origin.py PORT SEED`.

Of the requests for segments one in a hundred is answered with 503, one in two hundred is cut off within its body, and
one in two hundred stands still in it for two seconds. A stream of tokens has 50, 20 ms apart, and no fault.
"""

import asyncio
import random
import sys

from aiohttp import web

HOST = "127.0.0.1"
BITRATES = (300_000, 1_000_000, 3_000_000)
SEGMENT_SECONDS, SEGMENTS = 2, 60
FAILS, CUT, STALLS = 0.01, 0.005, 0.005
STALL_SECONDS = 2.0
TOKENS, TOKEN_SECONDS = 50, 0.02
KEPT = {"Cache-Control": "max-age=120"}


def body_of(level: int, number: int) -> bytes:
    """A segment's. Its bytes say which one it is, so that a body of two would be seen."""
    size = BITRATES[level] * SEGMENT_SECONDS // 8
    part = b"%d/%d " % (level, number)
    return (part * (size // len(part) + 1))[:size]


class Origin:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def master(self, _: web.Request) -> web.Response:
        rows = [f"#EXT-X-STREAM-INF:BANDWIDTH={rate}\n{level}.m3u8" for level, rate in enumerate(BITRATES)]
        return web.Response(text="\n".join(("#EXTM3U", *rows, "")), headers=KEPT)

    async def playlist(self, request: web.Request) -> web.Response:
        level = request.match_info["level"]
        rows = [f"#EXTINF:{SEGMENT_SECONDS},\n{level}/{number}.m4s" for number in range(SEGMENTS)]
        head = ("#EXTM3U", f"#EXT-X-TARGETDURATION:{SEGMENT_SECONDS}")
        return web.Response(text="\n".join((*head, *rows, "#EXT-X-ENDLIST", "")), headers=KEPT)

    async def segment(self, request: web.Request) -> web.StreamResponse:
        chance = self._random.random()
        if chance < FAILS:
            return web.Response(status=503)
        level, number = (int(request.match_info[name]) for name in ("level", "number"))
        body, fields = body_of(level, number), KEPT | {"ETag": f'"{level}-{number}"'}
        first = request.http_range.start or 0
        if chance > FAILS + CUT + STALLS or first:
            if not first:
                return web.Response(body=body, headers=fields | {"Accept-Ranges": "bytes"})
            fields["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            return web.Response(status=206, body=body[first:], headers=fields)
        response = web.StreamResponse(
            headers=fields | {"Accept-Ranges": "bytes", "Content-Length": str(len(body))}
        )
        await response.prepare(request)
        half = len(body) // 2
        await response.write(body[:half])
        if chance > FAILS + CUT:
            await asyncio.sleep(STALL_SECONDS)
            await response.write(body[half:])
        elif request.transport is not None:
            request.transport.abort()
        return response

    async def tokens(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(TOKENS):
            event = b'data: {"choices": [{"delta": {"content": "t%d"}}]}\n\n' % number
            await response.write(event)
            await asyncio.sleep(TOKEN_SECONDS)
        await response.write(b"data: [DONE]\n\n")
        return response


def main() -> None:
    port, seed = map(int, sys.argv[1:])
    origin, app = Origin(seed), web.Application()
    app.add_routes(
        [
            web.get("/vod/{title}/master.m3u8", origin.master),
            web.get("/vod/{title}/{level}.m3u8", origin.playlist),
            web.get("/vod/{title}/{level}/{number}.m4s", origin.segment),
            web.post("/v1/chat/completions", origin.tokens),
        ]
    )
    web.run_app(app, host=HOST, port=port, print=lambda *_: None, access_log=None)


if __name__ == "__main__":
    main()
