"""The players of `penstock load` beside the players that they are named after: the same film over the same link.

The link is the server's: so many bits a second, and a round trip before each response. What counts is the rendition on
which players settle. How long they took to the first frame is said: `-s` shows it.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from support.browser import Page
from support.programs import output_of, require

SECONDS, SEGMENT = 30, 2
LADDER = (150, 600, 2400)
"""kbit/s of the renditions."""
RATE, ROUND_TRIP = 1_100_000, 0.08
PIECE = 1400
PLAYERS = {
    "hls.js": """<script src=/packages/hls.js/dist/hls.min.js></script><script>
start = () => {
  const hls = new Hls({ enableWorker: false })
  hls.loadSource('/film/master.m3u8')
  hls.attachMedia(video)
}
</script>""",
    "dash.js": """<script src=/packages/dashjs/dist/legacy/umd/dash.all.min.js></script><script>
start = () => { dashjs.MediaPlayer().create().initialize(video, '/film/manifest.mpd', true) }
</script>""",
}
PAGE = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>film</title><video muted></video><script>
const video = document.querySelector('video')
let start = null, began = 0, shown = null
video.addEventListener('playing', () => { shown ??= (performance.now() - began) / 1000 })
const play = () => { began = performance.now(); start(); video.play().catch(() => null) }
</script>"""


def film(ffmpeg: str) -> tuple[str, ...]:
    """The command that makes a film of renditions with constant bitrates, for HLS and DASH, in the working directory."""
    renditions = [
        part
        for at, rate in enumerate(LADDER)
        for part in (
            *("-map", "0:v", f"-b:v:{at}", f"{rate}k", f"-minrate:v:{at}", f"{rate}k"),
            *(f"-maxrate:v:{at}", f"{rate}k", f"-bufsize:v:{at}", f"{rate}k"),
        )
    ]
    pictures = 25 * SEGMENT
    return (
        *(ffmpeg, "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"),
        *("-t", str(SECONDS), *renditions, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"),
        *("-x264-params", "nal-hrd=cbr:force-cfr=1", "-g", str(pictures), "-keyint_min", str(pictures)),
        *("-sc_threshold", "0", "-f", "dash", "-seg_duration", str(SEGMENT), "-use_template", "1"),
        *("-use_timeline", "0", "-hls_playlist", "1", "-adaptation_sets", "id=0,streams=v", "manifest.mpd"),
    )


class Link:
    """A server of a film that sends no faster than a link carries."""

    def __init__(self, film: Path) -> None:
        self.film = film
        self.asked: list[tuple[int, int]] = []
        """Rendition and number of segments, from 1 on."""
        self.ended = asyncio.Event()
        self.url = ""
        self._free = 0.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        match = re.fullmatch(r"chunk-stream(\d)-(\d+)\.m4s", name)
        if match:
            self.asked.append((int(match[1]), int(match[2])))
        body = (self.film / name).read_bytes()
        kind = "application/dash+xml" if name.endswith(".mpd") else "application/octet-stream"
        fields = {"content-length": str(len(body)), "content-type": kind, "cache-control": "no-store"}
        await asyncio.sleep(ROUND_TRIP)
        response = web.StreamResponse(headers=fields)
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        for at in range(0, len(body), PIECE):
            piece = body[at : at + PIECE]
            self._free = max(self._free, loop.time() - 0.02) + len(piece) * 8 / RATE
            await asyncio.sleep(max(0.0, self._free - loop.time()))
            await response.write(piece)
        if match and int(match[2]) == SECONDS // SEGMENT:
            self.ended.set()
        return response


@asynccontextmanager
async def serving(link: Link, player: str, packages: Path) -> AsyncIterator[str]:
    app = web.Application()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE + PLAYERS[player], content_type="text/html")

    app.add_routes(
        [web.get("/", page), web.static("/packages", packages), web.get("/film/{name}", link.answer)]
    )
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def loaded(url: str, player: str, directory: Path) -> float:
    """Plays the film with the player of `penstock load`; seconds to the first frame."""
    scenario = directory / "scenario.toml"
    scenario.write_text(
        '[hls.viewer]\npath = "/film/master.m3u8"\narrivals = { curve = "trace", times = [0.0] }\n'
        f'player = {{ profile = "{player}", startup = 1 }}\nwatch = {{ median = 1000, sigma = 0 }}\n'
        "[void]\nlateness = 10\ncpu = 1.0\nothers = 1.0\n"
    )
    arguments = (
        "load",
        "run",
        str(scenario),
        "--target",
        url,
        "--duration",
        "120",
        "--out",
        str(directory / "run"),
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "penstock",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    (line,) = (directory / "run" / "sessions.ndjson").read_text().splitlines()
    session = json.loads(line)
    assert session["ended"] == "completed"
    return float(session["qoe"]["startup"])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("player", PLAYERS)
async def test_players_settle_on_the_rendition_on_which_the_browser_does(
    tab: Page, packages: Path, tmp_path: Path, player: str
) -> None:
    root = tmp_path / "film"
    root.mkdir()
    await output_of(*film(require("ffmpeg", package="ffmpeg")), directory=root)
    in_browser, in_load = Link(root), Link(root)
    async with serving(in_browser, player, packages) as url:
        await tab.open(url)
        await tab.until("document.readyState === 'complete'", seconds=60)
        await tab.evaluate("play()")
        async with asyncio.timeout(120):
            await in_browser.ended.wait()
        startup = await tab.until("shown", seconds=60)
    async with serving(in_load, player, packages) as url:
        ours = await loaded(url, player, tmp_path)
    levels = ["".join(str(level) for level, _ in link.asked) for link in (in_browser, in_load)]
    sys.stdout.write(
        f"\n{player}: {startup:.2f} s to the first frame in Chromium, {ours:.2f} s in penstock load; renditions "
        f"{levels[0]} and {levels[1]}\n"
    )
    assert in_browser.asked[-1] == in_load.asked[-1] == (1, SECONDS // SEGMENT)
