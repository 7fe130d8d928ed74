"""What an operator sees of the wheel in a fresh directory: a trace in OpenTelemetry's collector, and a dashboard."""

import asyncio
import os
import re
import sys
import time
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.browser import open_browser
from support.client import RawClient
from support.otel_collector import check_relay, collecting
from support.programs import output_of, require
from support.prometheus import Prometheus, scraping
from support.waiting import DEADLINE

from .conftest import Fresh, origin

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "dashboards"))

from boards import PAGES  # noqa: E402
from support.drawing import EMPTY, draw  # noqa: E402

# `make test-wheel` has it built, which takes minutes once.
COLLECTOR = os.environ.get("PENSTOCK_COLLECTOR")
STATUS = re.compile(r"status on http://([\d.]+:\d+)")
REQUESTS = 'sum(rate(penstock_requests_total{status="200"}[$__rate_interval]))'
# A line of two seconds.
STEP, POINTS = 0.1, 20
# What any gateway that relays has something on.
SHOWN = ("Requests by route", "First byte by route, p99", "Sent to clients", "Statuses", "Connections")


@pytest.mark.skipif(
    not COLLECTOR, reason="PENSTOCK_COLLECTOR names no collector of OpenTelemetry: run 'make test-wheel'"
)
@pytest.mark.timeout(300)
async def test_a_trace_is_in_a_collector(fresh: Fresh, tmp_path: Path) -> None:
    curl = require("curl", package="curl")
    async with ScriptedOrigin(origin) as server, collecting(Path(str(COLLECTOR)), tmp_path) as collector:
        traces = ("--traces", collector.url, "--traces-ratio", "1")
        async with fresh.serve("--origin", server.url, *traces) as running:
            assert await output_of(curl, "-sSf", f"{running.url}/segment") == "ok"
            check_relay(await collector.count(2), "/segment")


async def relayed(port: int, prometheus: Prometheus, begun: float) -> None:
    """Ask until Prometheus has enough of the answers for a line."""
    client = await RawClient.connect(port)
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                assert (await client.ask("/segment")).body == b"ok"
                found = await prometheus.over(REQUESTS, begun, time.time(), STEP)
                if found and sum(float(value) > 0 for _, value in found[0]["values"]) >= POINTS:
                    return
                await asyncio.sleep(0.02)
    finally:
        client.abort()


@pytest.mark.timeout(300)
async def test_a_dashboard_is_drawn(fresh: Fresh, tmp_path: Path) -> None:
    program, chromium = (require(name, package=name) for name in ("prometheus", "chromium"))
    (overview,) = (page for page in PAGES if page.name == "overview")
    picture = tmp_path / "overview.png"
    begun = time.time()
    async with (
        ScriptedOrigin(origin) as server,
        fresh.serve("--origin", server.url, "--status-listen", "127.0.0.1:0", "--no-access-log") as running,
    ):
        targets = {"gateway:9145": (await running.wait_for(STATUS))[1]}
        rules = ROOT / "dashboards" / "prometheus" / "penstock.yml"
        async with (
            scraping(program, tmp_path, rules, targets) as prometheus,
            open_browser(chromium, tmp_path / "profile") as page,
        ):
            await relayed(running.port, prometheus, begun)
            await draw(overview, prometheus, (begun, time.time()), page, picture)
            empty = {text.splitlines()[0] for text in await page.evaluate(EMPTY)}
    assert not empty & set(SHOWN), empty
    assert picture.read_bytes().startswith(b"\x89PNG")
