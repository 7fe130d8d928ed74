"""Dashboards, drawn in a browser from a Prometheus' answers: pictures for the documentation.

Who calls this has the modules of dashboards/ on the path.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

from boards.shape import Page as Dashboard
from boards.shape import Panel
from support.browser import Page
from support.prometheus import Prometheus

HERE = Path(__file__).parent
WIDTH = 1280
EMPTY = """[...document.querySelectorAll('section')]
    .filter((section) => !section.querySelector('.legend span, .number, .bars i'))
    .map((section) => section.innerText)"""
"""What a drawn page is asked: the panels on which there is nothing to see."""
_POINTS = 120


async def draw(
    dashboard: Dashboard, prometheus: Prometheus, span: tuple[float, float], page: Page, target: Path
) -> None:
    """Draw a dashboard over `span`, its start and its end, to the PNG `target`."""
    step = (span[1] - span[0]) / _POINTS
    shown = {
        "title": dashboard.title,
        "about": dashboard.about,
        "start": span[0],
        "end": span[1],
        "step": step,
        "rows": [
            {
                "title": row.title,
                "panels": [await _panel(panel, prometheus, span, step) for panel in row.panels],
            }
            for row in dashboard.rows
        ],
    }
    # A script of the page: no text of it may end it.
    content = json.dumps(shown).replace("</", "<\\/")
    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.with_suffix(".html")
    drawing = f"<script>{(HERE / 'draw.js').read_text()}</script>"
    html = (HERE / "page.html").read_text().replace("/*PAGE*/null", content)
    source.write_text(html.replace('<script src="draw.js"></script>', drawing))
    try:
        await page.size(WIDTH, 100, scale=1)
        await page.open(source.as_uri())
        count = len(dashboard.panels)
        await page.until(f"document.body && document.body.dataset.drawn == {count}", seconds=30)
        height = math.ceil(await page.evaluate("document.documentElement.scrollHeight"))
        await page.screenshot(WIDTH, height, scheme="light", target=target, scale=1)
    finally:
        source.unlink()
    assert page.complaints == [], page.complaints


async def _panel(
    panel: Panel, prometheus: Prometheus, span: tuple[float, float], step: float
) -> dict[str, Any]:
    series = []
    for line in panel.lines:
        for found in await prometheus.over(line.expression, *span, step):
            points = [(time, float(value)) for time, value in found["values"] if math.isfinite(float(value))]
            series.append({"name": named(line.legend, found["metric"]), "points": points})
    return {
        "title": panel.title,
        "kind": panel.kind,
        "unit": panel.unit,
        "width": panel.width,
        "height": panel.height,
        "stacked": panel.stacked,
        "least": panel.least,
        "most": panel.most,
        "colours": panel.colours,
        "steps": panel.steps,
        "series": series,
    }


def named(legend: str, labels: dict[str, str]) -> str:
    """A legend with the values of labels; a label that the series does not have is a KeyError."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels[found[1]], legend)
