"""Draws docs/images/status-light.png and status-dark.png: the status page of a gateway under load, in Chromium.

    make status-page-images

Everything runs in this process: origins of films, tokens and searches, a gateway, and clients that read films,
chats and topics.
"""

import argparse
import asyncio
import json
import logging
import math
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

import penstock
from penstock import Origins
from penstock.config import Cache, Caching, Check, Status
from penstock.web import Allow, Gateway, NativeRequest, Site

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.browser import open_browser  # noqa: E402 (it is among the tests)

_SEGMENT = bytes(96 * 1024)
_TOKENS = "data: " + json.dumps({"choices": [{"delta": {"content": "turbine "}}]}) + "\n\n"
_TOPICS = ("final/score", "final/comments", "cup/group-a", "cup/group-b", "weather/alps")


async def film(request: web.Request) -> web.Response:
    """A segment or a playlist."""
    await asyncio.sleep(random.uniform(0.002, 0.03))
    if request.path.endswith(".m3u8"):
        return web.Response(text="#EXTM3U\n", headers={"Cache-Control": "max-age=1"})
    return web.Response(body=_SEGMENT, headers={"Cache-Control": "max-age=20"})


async def chat(request: web.Request) -> web.StreamResponse:
    """Tokens, after some thought."""
    await asyncio.sleep(random.choice((0.3, 0.6, 0.9, 5.0)))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(random.randint(100, 600)):
        await response.write(_TOKENS.encode())
        await asyncio.sleep(0.05)
    return response


async def report(_request: web.Request) -> web.Response:
    """A handler that takes its time."""
    await asyncio.sleep(random.uniform(3, 12))
    return web.json_response({"rows": 1024})


async def hello(_request: web.Request) -> web.Response:
    return web.json_response({"ok": True})


async def flaky(_request: web.Request) -> web.Response:
    if random.random() < 0.2:
        return web.Response(status=503)
    await asyncio.sleep(random.uniform(0.01, 0.08))
    return web.json_response([1, 2, 3])


async def customer(request: NativeRequest) -> Allow:
    """A tenant by the token."""
    (key,) = request.key
    return Allow(str(key).partition(" ")[2] or "guest")


@asynccontextmanager
async def origin(handler: object, port: int = 0) -> AsyncIterator[str]:
    """An origin that answers everything by `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


class Load:
    """Clients, until they are cancelled."""

    def __init__(self, session: aiohttp.ClientSession, url: str, hub: penstock.Hub) -> None:
        self.session, self.url, self.hub = session, url, hub

    async def read(self, path: str, method: str = "GET", **more: object) -> None:
        with suppress(aiohttp.ClientError):
            async with self.session.request(method, self.url + path, **more) as response:  # type: ignore[arg-type]
                await response.read()

    async def viewer(self, number: int) -> None:
        """Plays a film: a playlist and a segment at a time."""
        pace = random.Random(number)
        for position in range(pace.randint(0, 40), 1_000_000):
            await self.read(f"/vod/film-{number % 7}/playlist.m3u8")
            await self.read(f"/vod/film-{number % 7}/segment-{position % 400:04}.m4s")
            wave = 1.0 + 0.7 * math.sin(asyncio.get_running_loop().time() / 14)
            await asyncio.sleep(0.12 * wave * pace.uniform(0.5, 1.5))

    async def reader(self, topic: str) -> None:
        while True:
            await self.read(f"/events/{topic}")

    async def writer(self, number: int) -> None:
        while True:
            headers = {"Authorization": f"Bearer {random.choice(('acme', 'globex', 'initech'))}"}
            await self.read("/v1/chat/completions", "POST", data=b"{}", headers=headers)
            await asyncio.sleep(random.uniform(0, 2) + number * 0.02)

    async def publisher(self, topic: str, rate: float) -> None:
        while True:
            await self.hub.publish(topic, json.dumps({"minute": 73, "home": 2, "away": 1}))
            await asyncio.sleep(random.expovariate(rate))

    async def caller(self, path: str, pause: float) -> None:
        while True:
            await self.read(path)
            await asyncio.sleep(random.expovariate(1 / pause))

    async def stuck(self) -> None:
        """A client that reads nothing of a long response."""
        host, port = self.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(b"GET /archive/all.tar?token=never-shown HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readexactly(16)
        await asyncio.Event().wait()

    def all(self) -> list["asyncio.Task[None]"]:
        """Begin with everything."""
        works = [
            *(self.viewer(number) for number in range(24)),
            *(self.writer(number) for number in range(14)),
            *(self.publisher(topic, rate) for topic, rate in zip(_TOPICS, (6, 14, 2, 1.5, 0.3), strict=True)),
            *(
                self.reader(topic)
                for topic, count in zip(_TOPICS, (42, 17, 9, 6, 2), strict=True)
                for _ in range(count)
            ),
            self.caller("/api/hello", 0.05),
            self.caller("/api/report?quarter=3", 2),
            self.caller("/api/report?quarter=4", 3),
            self.caller("/search/?q=dam", 0.08),
            self.stuck(),
        ]
        return [asyncio.create_task(work) for work in works]


async def archive(request: web.Request) -> web.StreamResponse:
    """A body that is too long to be read to its end."""
    response = web.StreamResponse(headers={"Content-Length": str(64 << 30)})
    await response.prepare(request)
    while True:
        await response.write(_SEGMENT)


@asynccontextmanager
async def gateway() -> AsyncIterator[tuple[Site, penstock.Hub]]:
    """A site with everything that the page can show."""
    async with (
        penstock.Engine(memory="256MiB", threads=2, cache=Cache(memory="64MiB")) as engine,
        origin(film) as first,
        origin(film) as second,
        origin(chat) as tokens,
        origin(flaky) as search,
        origin(archive) as attic,
    ):
        films = Origins(
            [first, second, "http://127.0.0.1:9"], name="http://films", check=Check(path="/up.m3u8")
        )
        vod = Gateway(films, engine=engine, caching=Caching())
        chats = Gateway(tokens, engine=engine)
        hub = penstock.Hub(engine=engine)
        app = web.Application()
        app.add_routes(
            [
                vod.native("/vod/", name="vod"),
                chats.native("/v1/", name="chat", authorise=customer, decision_key="header:Authorization"),
                Gateway(search, engine=engine).native("/search/", name="search"),
                Gateway(attic, engine=engine).native("/archive/", name="archive"),
                hub.native("/events/", name="events"),
                web.get("/api/hello", hello),
                web.get("/api/report", report),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        site = Site(runner, "127.0.0.1", 0, engine=engine, status=Status(listen="127.0.0.1:0"))
        await site.start()
        yield site, hub
        hub.close()
        await runner.cleanup()


async def draw(seconds: float, width: int, height: int, target: Path) -> None:
    """Write the images after `seconds` of load."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is missing: install the package chromium")
    with tempfile.TemporaryDirectory() as profile:
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            gateway() as (site, hub),
            aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as session,
            open_browser(program, Path(profile) / "profile") as page,
        ):
            tasks = Load(session, f"http://127.0.0.1:{site.port}", hub).all()
            await page.open(f"{site.status_url}/penstock/")
            await asyncio.sleep(seconds)
            for scheme in ("light", "dark"):
                await page.screenshot(width, height, scheme=scheme, target=target / f"status-{scheme}.png")
            if page.complaints:
                sys.exit(f"the page complains: {page.complaints}")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=185, help="how long the load runs before")
    arguments.add_argument("--width", type=int, default=1280)
    arguments.add_argument("--height", type=int, default=1500)
    arguments.add_argument("--target", type=Path, default=HERE / "images", help="directory of the images")
    given = arguments.parse_args()
    # Servers tell of clients that are cut off at the end.
    logging.disable(logging.CRITICAL)
    asyncio.run(draw(given.seconds, given.width, given.height, given.target))
