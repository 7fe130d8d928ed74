"""Every expression of the dashboards and rules, asked of a Prometheus that has scraped gateways under load.

With PENSTOCK_PICTURES=DIRECTORY the load runs for a minute and a half, and each dashboard is drawn there.
"""

import asyncio
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from boards import PAGES
from boards.rules import ALERTS, RECORDED
from boards.shape import Line
from generate import HERE as GENERATED
from support.browser import open_browser
from support.drawing import EMPTY, draw, named
from support.programs import missing, output_of, require
from support.prometheus import Prometheus
from support.waiting import DEADLINE

from .rig import Rig, running

_WATCHED = 90.0
"""Seconds of load that pictures show."""
_DRAWN = 6.0
"""Seconds of load that are drawn by a test."""

_LINES = [
    (f"{page.name}: {panel.title}", line) for page in PAGES for panel in page.panels for line in panel.lines
]
_RULES = [
    *((recorded.name, Line(recorded.name, "")) for recorded in RECORDED),
    *((alert.name, Line(condition.expression, "")) for alert in ALERTS for condition in alert.conditions),
]


@pytest.mark.timeout(300)
async def test_every_expression_returns_series_and_every_panel_is_drawn(tmp_path: Path) -> None:
    pictures = os.environ.get("PENSTOCK_PICTURES")
    async with running(tmp_path, GENERATED / "prometheus" / "penstock.yml") as rig:
        begun = time.time()
        answered = await _all_answered(rig.prometheus)
        for name, line in _LINES:
            for series in answered[line.expression]:
                # A label that the series do not have is an error.
                assert named(line.legend, series["metric"]), name
        watched, into = (_WATCHED, Path(pictures).resolve()) if pictures else (_DRAWN, tmp_path)
        await _drawn(rig, begun, watched, tmp_path / "profile", into)


async def _all_answered(prometheus: Prometheus) -> dict[str, list[dict[str, Any]]]:
    """The series of every expression, once each has some with a number."""
    answered: dict[str, list[dict[str, Any]]] = {}
    left = [*_LINES, *_RULES]
    # Of what is sampled a full machine has little: one class may have nothing in an interval.
    end = time.monotonic() + 4 * DEADLINE
    while left:
        for _, line in left:
            answered[line.expression] = await prometheus.query(line.expression)
        left = [(name, line) for name, line in left if not _has_number(answered[line.expression])]
        if time.monotonic() > end:
            pytest.fail("no series:\n" + "\n".join(f"{name}: {line.expression}" for name, line in left))
        await asyncio.sleep(0.2)
    return answered


def _has_number(series: list[dict[str, Any]]) -> bool:
    return any(math.isfinite(float(each["value"][1])) for each in series)


async def _make_smaller(picture: Path) -> None:
    """With 128 colours, which takes a third of the bytes."""
    ffmpeg = require("ffmpeg", package="ffmpeg")
    colours = "split[a][b];[a]palettegen=max_colors=128[p];[b][p]paletteuse=dither=none"
    smaller = picture.with_suffix(".smaller.png")
    await output_of(
        *(ffmpeg, "-loglevel", "error", "-y", "-i", str(picture), "-vf", colours),
        *("-compression_level", "100", "-pred", "none", str(smaller)),
    )
    smaller.replace(picture)


async def _reached(when: float) -> None:
    await asyncio.sleep(max(0.0, when - time.time()))


async def _drawn(rig: Rig, begun: float, watched: float, profile: Path, into: Path) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        missing("no Chromium found: install the package 'chromium'")
    # Load has to pass before it can be seen, and an incident.
    rig.spare.fails = 0.02
    await _reached(begun + watched * 0.5)
    rig.spare.fails = 0.6
    await _reached(begun + watched * 0.65)
    psutil.Process(rig.site.process.pid).children()[0].kill()
    rig.spare.fails = 0.02
    await _reached(begun + watched)
    end = time.time()
    async with open_browser(program, profile) as page:
        for dashboard in PAGES:
            target = into / f"dashboard-{dashboard.name}.png"
            await draw(dashboard, rig.prometheus, (end - watched * 0.9, end), page, target)
            assert await page.evaluate(EMPTY) == []
            if os.environ.get("PENSTOCK_PICTURES"):
                await _make_smaller(target)
