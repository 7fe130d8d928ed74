"""Real media through `penstock serve`: HLS that ffmpeg made and nginx serves, by byte and by frame."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from support.packaging import CONTAINERS, PICTURES_PER_SECOND, counting, live, on_demand, playing
from support.programs import output_of, require
from support.servers import running_gateway, running_nginx

_SECONDS = 60
_LIVE_SECONDS = 10


@pytest.fixture(scope="module")
def ffmpeg() -> str:
    return require("ffmpeg", package="ffmpeg")


@pytest.fixture(scope="module")
def ffprobe() -> str:
    return require("ffprobe", package="ffmpeg")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory that the origin serves."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
async def gateway(root: Path, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a penstock in front of an nginx in front of `root`."""
    run = tmp_path / "nginx"
    run.mkdir()
    async with (
        running_nginx(require("nginx", package="nginx"), root, run) as origin,
        running_gateway(origin) as url,
    ):
        yield url


@pytest.mark.timeout(120)
@pytest.mark.parametrize("container", CONTAINERS)
async def test_a_recorded_minute_comes_through_byte_for_byte_and_frame_for_frame(
    container: str, ffmpeg: str, ffprobe: str, root: Path, gateway: str
) -> None:
    await output_of(*on_demand(ffmpeg, container, _SECONDS), directory=root)
    async with aiohttp.ClientSession() as session:
        fetched = await _fetch_all(session, f"{gateway}/main.m3u8")
    made = _digests(root)
    assert len(made) >= 2 + _SECONDS // 2
    assert fetched == made

    through = await output_of(*counting(ffprobe, f"{gateway}/media.m3u8"))
    assert f"h264,{_SECONDS * PICTURES_PER_SECOND}" in through
    assert through == await output_of(*counting(ffprobe, root / "media.m3u8"))


def _digests(directory: Path) -> dict[str, str]:
    """The SHA-256 of each file, by name."""
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in directory.iterdir()}


async def _fetch_all(session: aiohttp.ClientSession, playlist: str) -> dict[str, str]:
    """The SHA-256 of a playlist and of all that it names, and what that names in turn, by file name."""
    digests: dict[str, str] = {}
    wanted = [playlist]
    while wanted:
        url = wanted.pop()
        async with session.get(url, raise_for_status=True) as response:
            body = await response.read()
        base, _, name = url.rpartition("/")
        digests[name] = hashlib.sha256(body).hexdigest()
        if name.endswith(".m3u8"):
            lines = body.decode().splitlines()
            named = [each for each in lines if each and not each.startswith("#")]
            named += re.findall(r'URI="([^"]+)"', body.decode())
            wanted += [f"{base}/{each}" for each in named]
    return digests


@pytest.mark.timeout(120)
async def test_ffmpeg_plays_a_live_stream_to_its_end(ffmpeg: str, root: Path, gateway: str) -> None:
    async with asyncio.timeout(_LIVE_SECONDS + 45), asyncio.TaskGroup() as group:
        for container in CONTAINERS:
            group.create_task(_play_live(ffmpeg, container, root, gateway))


async def _play_live(ffmpeg: str, container: str, root: Path, gateway: str) -> None:
    directory = root / container
    directory.mkdir()
    producing = asyncio.create_task(output_of(*live(ffmpeg, container, _LIVE_SECONDS), directory=directory))
    try:
        await _appears(directory / "live.m3u8", producing)
        progress = await output_of(*playing(ffmpeg, f"{gateway}/{container}/live.m3u8"))
        await producing
    finally:
        producing.cancel()
    assert "#EXT-X-ENDLIST" in (directory / "live.m3u8").read_text()
    assert "#EXT-X-MEDIA-SEQUENCE:0\n" not in (directory / "live.m3u8").read_text(), "the window never moved"
    decoded = re.findall(r"^frame=\s*(\d+)$", progress, re.MULTILINE)
    assert int(decoded[-1]) == _LIVE_SECONDS * PICTURES_PER_SECOND
    assert progress.rstrip().endswith("progress=end")


async def _appears(path: Path, producing: asyncio.Task[str]) -> None:
    """Return when `path` exists; what ends before it made it is at fault."""
    while not path.exists():
        assert not producing.done(), f"ffmpeg ended without {path.name}: {producing.result()}"
        await asyncio.sleep(0.02)
