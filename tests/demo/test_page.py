"""The page of `penstock demo` in a real browser: the video plays, the tokens come, the figures move.

With PENSTOCK_SCREENSHOT=FILE the page is also photographed, once it has something to show.
"""

import os
from pathlib import Path

import pytest

from support.browser import Page, open_browser

# A segment is two seconds long and playback starts at the beginning of one: four seconds later a boundary is
# passed.
_ADVANCE = 4.0


@pytest.mark.timeout(240)
async def test_the_page_plays_prints_and_measures(demo: str, chromium: str, tmp_path: Path) -> None:
    async with open_browser(chromium, tmp_path / "profile") as page:
        await page.open(demo)
        await _video_advances(page)
        await _tokens_arrive(page)
        await _figures_move(page)
        assert await page.evaluate("document.getElementById('trouble').textContent") == ""
        if target := os.environ.get("PENSTOCK_SCREENSHOT"):
            await _photograph(page, Path(target))
        assert page.complaints == []


async def _video_advances(page: Page) -> None:
    began = await page.until(
        "document.readyState == 'complete' && video.videoWidth && video.currentTime", seconds=30
    )
    assert await page.evaluate("[video.videoWidth, video.videoHeight]") == [480, 270]
    await page.until(f"video.currentTime > {began + _ADVANCE}", seconds=30)
    assert await page.evaluate("video.getVideoPlaybackQuality().totalVideoFrames") > _ADVANCE * 25 / 2
    assert await page.evaluate("video.error") is None
    # More than was there to start with: the player lives on what the origin makes while it plays.
    await page.until("Number(segments.textContent) > 3", seconds=10)


async def _tokens_arrive(page: Page) -> None:
    await page.until("answer.textContent.startsWith('A penstock is the gated pipe')", seconds=10)
    length = await page.evaluate("answer.textContent.length")
    await page.until(f"answer.textContent.length > {length} || Number(answers.textContent) > 0", seconds=10)
    # The page counts an answer only when [DONE] came and the usage chunk names as many tokens as were
    # printed.
    await page.until("Number(answers.textContent) > 0", seconds=30)


async def _figures_move(page: Page) -> None:
    await page.until("parseFloat(added.textContent) > 0", seconds=20)
    before = await page.evaluate("document.getElementById('streams-note').textContent")
    await page.until(f"document.getElementById('streams-note').textContent != {before!r}", seconds=10)
    await page.until("parseFloat(document.getElementById('bytes').textContent) > 0", seconds=10)
    await page.until("document.querySelectorAll('#bytes-line polyline').length == 1", seconds=10)


async def _photograph(page: Page, target: Path) -> None:
    # In the middle of an answer, with half a minute of figures drawn.
    await page.until("document.querySelector('#bytes-line polyline').points.length > 30", seconds=60)
    await page.until("answer.classList.contains('telling') && Number(tokens.textContent) > 60", seconds=60)
    await page.screenshot(1280, 790, scheme="light", target=target)
