"""Seeks in a film of 30 MB that ends with its index (moov), by ffmpeg, curl and Chromium through `penstock serve`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import RecordedRequest, ScriptedOrigin
from support.browser import open_browser
from support.client import answer
from support.programs import output_of, require
from support.ranges import Kind, Origin
from support.servers import running_gateway

_SIZE = 30_000_000
_SECONDS = 60
_PAGE = b"""<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>film</title>
<video src=/film.mp4 preload=metadata muted></video><script>
const video = document.querySelector('video'), failed = []
video.onerror = () => failed.push(video.error.message)
const seek = (time) => new Promise((done) => {
  video.onseeked = () => done(video.currentTime)
  video.currentTime = time
})
</script>"""

KINDS = {
    "stored": Kind(),
    "no strong tag": Kind(validator="weak"),
    "not stored": Kind(control="no-store"),
    "no ranges": Kind(ranges=False),
}


class Films(Origin):
    """A film made by ffmpeg, and a page that plays it."""

    def __init__(self, kind: Kind, body: bytes) -> None:
        super().__init__(kind)
        self.body = body

    def film(self, version: int) -> bytes:  # noqa: ARG002
        return self.body

    def says(self, request: RecordedRequest) -> tuple[bytes, bytes, str]:
        if request.target == "/":
            head = answer("Content-Type: text/html", f"Content-Length: {len(_PAGE)}")
            return head, _PAGE, "length"
        return super().says(request)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 MB, which a constant bit rate fills up."""
    ffmpeg, directory = require("ffmpeg", package="ffmpeg"), tmp_path_factory.mktemp("film")
    rate = ("-b:v", "4M", "-minrate", "4M", "-maxrate", "4M", "-bufsize", "4M")
    command = (
        *(ffmpeg, "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"),
        *("-t", str(_SECONDS), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "25"),
        *("-x264-params", "nal-hrd=cbr", *rate, "film.mp4"),
    )
    asyncio.run(output_of(*command, directory=directory))
    body = (directory / "film.mp4").read_bytes()
    assert 29_000_000 < len(body) < 32_000_000
    assert body.rindex(b"moov") > len(body) - 200_000
    return directory / "film.mp4"


@asynccontextmanager
async def gateway(film: Path, kind: str, *options: str) -> AsyncIterator[tuple[str, Films]]:
    origin = Films(KINDS[kind], film.read_bytes())
    async with (
        ScriptedOrigin(origin) as scripted,
        running_gateway(scripted.url, "--cache", "128MiB", *options) as url,
    ):
        yield url, origin


@pytest.mark.timeout(180)
@pytest.mark.parametrize("lane", ["native", "app"])
@pytest.mark.parametrize("kind", ["stored", "no strong tag", "not stored"])
async def test_ffmpeg_seeks(film: Path, kind: str, lane: str) -> None:
    ffmpeg = require("ffmpeg", package="ffmpeg")
    async with gateway(film, kind, "--lane", lane) as (url, origin):
        for seconds in ("45", "10", "45"):
            await output_of(
                *(ffmpeg, "-nostdin", "-v", "error", "-xerror", "-ss", seconds, "-i", f"{url}/film.mp4"),
                *("-frames:v", "1", "-f", "null", "-"),
            )
        if kind == "stored":
            # Three pictures cost no more than the film once, whatever the buffers of the kernel take beforehand.
            assert origin.sent < _SIZE + 2_000_000
            ranges = [request.get("Range") for request in origin.requests]
            assert len(ranges) == len(set(ranges)), "no slice is fetched twice"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", KINDS)
async def test_curl_goes_on_with_a_download(film: Path, kind: str, tmp_path: Path) -> None:
    curl = require("curl", package="curl")
    whole, part = film.read_bytes(), tmp_path / "part.mp4"
    async with gateway(film, kind) as (url, _):
        for have in (10_000_000, 29_000_000):
            part.write_bytes(whole[:have])
            await output_of(curl, "-sSf", "-C", "-", "-o", str(part), f"{url}/film.mp4")
            assert (part.read_bytes() == whole) is True


@pytest.mark.timeout(180)
async def test_a_hundred_bytes_do_not_cost_thirty_megabytes(film: Path) -> None:
    curl = require("curl", package="curl")
    for kind in KINDS:
        async with gateway(film, kind) as (url, origin):
            for _ in range(5):
                command = (
                    curl,
                    "-sSf",
                    "-r",
                    "1000-1099",
                    "-w",
                    "%{http_code} %{size_download}",
                    "-o",
                    "/dev/null",
                )
                assert await output_of(*command, f"{url}/film.mp4") == "206 100"
            # What is given up has filled the buffers of the kernel by then.
            most = 1_100_000 if kind == "stored" else _SIZE
            assert origin.sent < most, kind


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["stored", "no strong tag", "not stored"])
async def test_chromium_seeks(film: Path, kind: str, tmp_path: Path) -> None:
    chromium = require("chromium", package="chromium")
    async with (
        gateway(film, kind) as (url, origin),
        open_browser(chromium, tmp_path / "profile") as page,
    ):
        await page.open(f"{url}/")
        await page.until(
            "typeof video !== 'undefined' && (video.readyState >= 1 || failed.length > 0)", seconds=60
        )
        assert await page.evaluate("failed") == []
        assert await page.evaluate("Math.round(video.duration)") == _SECONDS
        for seconds in (45, 5, 55):
            assert await page.evaluate(f"seek({seconds})") == seconds
            assert await page.evaluate("[video.videoWidth, video.readyState >= 2]") == [320, True]
        assert await page.evaluate("failed") == []
        if kind == "stored":
            ranges = [request.get("Range") for request in origin.requests if request.target == "/film.mp4"]
            assert len(ranges) == len(set(ranges)), "no slice is fetched twice"
