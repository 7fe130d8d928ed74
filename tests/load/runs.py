"""Runs of `penstock load` against servers of a test, and a server that serves titles and knows who asked for what."""

import asyncio
import json
import ssl
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

LADDER = (100_000, 400_000)
SEGMENT = 0.2


def multivariant(ladder: Sequence[int]) -> str:
    """The playlist of renditions of these bits a second."""
    lines = [f"#EXT-X-STREAM-INF:BANDWIDTH={rate}\n{at}.m3u8" for at, rate in enumerate(ladder)]
    return "#EXTM3U\n" + "\n".join(lines)


def media(level: str, segment: float, count: int) -> str:
    """The playlist of a rendition, of so many segments of so many seconds."""
    rows = [f"#EXTINF:{segment},\n{level}/{at}.m4s" for at in range(count)]
    return "\n".join(("#EXTM3U\n#EXT-X-TARGETDURATION:1", *rows, "#EXT-X-ENDLIST"))


@dataclass
class Titles:
    """A server of titles of three segments of 0.2 s, in two renditions."""

    segments: int = 3
    asked: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The paths that each session asked for, in their order."""
    fields: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Of the next requests for segments."""
    cut: bool = False
    """Whether the next segment is cut off, once."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.headers["cmcd-session"]].append(request.path)
        self.fields.append(dict(request.headers))
        name = request.path.rpartition("/")[2]
        if name == "master.m3u8":
            return web.Response(text=multivariant(LADDER))
        if name.endswith(".m3u8"):
            return web.Response(text=media(name.removesuffix(".m3u8"), SEGMENT, self.segments))
        if self.statuses:
            return web.Response(status=self.statuses.pop(0))
        level = int(request.path.split("/")[-2])
        body = bytes(int(LADDER[level] * SEGMENT / 8))
        if not self.cut:
            return web.Response(body=body)
        self.cut = False
        response = web.StreamResponse(headers={"content-length": str(len(body))})
        await response.prepare(request)
        await response.write(body[:100])
        assert request.transport is not None
        request.transport.abort()
        return response


@asynccontextmanager
async def serving(handler: Any, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve all paths by `handler` on a free port."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def titles(tls: ssl.SSLContext | None = None, **settings: Any) -> AsyncIterator[Titles]:
    server = Titles(**settings)
    async with serving(server.answer, tls) as url:
        server.url = url
        yield server


@dataclass
class Ended:
    status: int
    output: str
    errors: str
    directory: Path

    @property
    def summary(self) -> dict[str, Any]:
        assert (self.directory / "summary.json").exists(), self.errors
        return json.loads((self.directory / "summary.json").read_text())

    @property
    def sessions(self) -> list[dict[str, Any]]:
        lines = (self.directory / "sessions.ndjson").read_text().splitlines()
        return sorted((json.loads(line) for line in lines), key=lambda each: each["index"])


async def penstock(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "penstock", *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def load(directory: Path, scenario: str, *arguments: str, seed: int = 7, duration: float = 3) -> Ended:
    """Run a scenario; a machine that is busy with other tests makes no run void."""
    directory.mkdir(exist_ok=True)
    path = directory / "scenario.toml"
    path.write_text(scenario + "\n[void]\nlateness = 10\ncpu = 1.0\nothers = 1.0\n")
    told = ("--duration", str(duration), "--seed", str(seed), "--out", str(directory / "run"))
    status, output, errors = await penstock("load", "run", path, *told, *arguments)
    return Ended(status, output, errors, directory / "run")


def viewers(times: list[float], player: str = 'profile = "fixed"', more: str = "") -> str:
    """A scenario of sessions that play to the end."""
    return f"""
[hls.viewers]
arrivals = {{ curve = "trace", times = {times} }}
titles = 50
player = {{ startup = 0.2, resume = 0.2, retry_delay = 0.05, {player} }}
watch = {{ median = 100, sigma = 0 }}
{more}"""
