"""The origins of the dashboards' load: films, segments that may not be stored, tokens, and failures."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

_FILM = random.Random(7).randbytes(400_000)
_TOKENS = 40


class Origin:
    """One of them. `fails` is the share of requests below /media/ that get a 500, or no answer."""

    def __init__(self) -> None:
        self.fails = 0.0
        self.url = ""
        self._chance = random.Random(11)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Origin"]:
        """On a free port, until the block ends."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/check", self._small),
                # It is the collector of traces as well.
                web.post("/v1/traces", self._small),
                web.get("/vod/{number}", self._film),
                web.get("/media/{number}", self._failing),
                web.get("/chat/{number}", self._tokens),
                web.get("/{path:.*}", self._segment),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = "http://{}:{}".format(*runner.addresses[0])
            yield self
        finally:
            await runner.cleanup()

    async def _small(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    async def _film(self, request: web.Request) -> web.Response:
        size = 40_000 + int(request.match_info["number"]) * 1009 % 300_000
        return web.Response(body=_FILM[:size], headers={"Cache-Control": "max-age=300"})

    async def _segment(self, _request: web.Request) -> web.Response:
        await asyncio.sleep(self._chance.expovariate(80))
        return web.Response(body=_FILM[:100_000], headers={"Cache-Control": "no-store"})

    async def _failing(self, request: web.Request) -> web.Response:
        if self._chance.random() < self.fails:
            if self._chance.random() < 0.5:
                return web.Response(status=500)
            assert request.transport is not None
            request.transport.abort()
        return await self._segment(request)

    async def _tokens(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        # The client, or the gateway for it, may leave.
        with suppress(ConnectionError):
            await self._write_tokens(response)
        return response

    async def _write_tokens(self, response: web.StreamResponse) -> None:
        await asyncio.sleep(0.02 + self._chance.expovariate(30))
        for number in range(_TOKENS):
            delta = {"choices": [{"delta": {"content": f"token {number} "}}], "usage": None}
            await response.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
            await asyncio.sleep(self._chance.expovariate(100))
        usage = {"choices": [], "usage": {"completion_tokens": _TOKENS}}
        await response.write(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")
