"""The text as others read it, and the documentation of it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web

import penstock
from penstock.config import TLS, Cache, Caching, Edge, Inspection, Tracing
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway
from support.certificates import written
from support.hooks import TOKEN, Hook
from support.origins import Recorder
from support.programs import require
from support.scraping import Metrics

from .conftest import Serve

sys.path.insert(0, str(Path(__file__).parents[2] / "dashboards"))

from boards.table import METRICS, Metric


@pytest.fixture
async def everything(serve: Serve, tmp_path: Path) -> AsyncIterator[penstock.Engine]:
    """An engine that has all that can be counted, and has served a request of each kind."""
    cache = Cache(memory="2MiB", disk=tmp_path / "cache", disk_budget="8MiB")
    async with (
        penstock.Engine(memory="8MiB", threads=2, cache=cache, tracing=Tracing()) as engine,
        ScriptedOrigin(Recorder()) as origin,
    ):
        gateway = Gateway(origin.url, engine=engine)
        # Nothing listens there: a log that is away has every metric of a log.
        hub = penstock.Hub(engine=engine, log=penstock.RedisLog("redis://127.0.0.1:1", timeout=0.5))
        await hub.__aenter__()
        origins = penstock.Origins([origin.url])
        app = web.Application()
        app.add_routes(
            [
                gateway.native("/quoted/", name='a "quoted" \\ name\nof two lines'),
                gateway.native("/vod/", name="vod", caching=Caching()),
                gateway.native("/chat/", name="chat", inspect=Inspection()),
                gateway.native("/several/", name="several", origin=origins),
                gateway.native("/asked/", name="asked", authorise=Hook(), decision_key=TOKEN),
                hub.native("/events/", name="events"),
                web.get("/{path:.*}", gateway.relay),
            ]
        )
        served = await serve(engine, app)
        certificate = TLS(*written(trustme.CA(), tmp_path, "localhost"))
        secured = await serve(engine, web.Application(), edge=Edge(tls=certificate))
        client = await served.connect()
        for path in ("/vod/a", "/chat/a", "/a", "/quoted/a"):
            assert (await client.ask(path)).head.status == 200
        assert (await client.ask("/several/a")).head.status == 200
        assert (await client.ask("/asked/a", "Token: good-a")).head.status == 200
        client.abort()
        down = await served.connect()
        await down.get("/nothing", "Host: another")
        assert (await down.head()).status == 400
        down.abort()
        # With a sample in every family.
        with pytest.raises(penstock.PenstockError):
            await engine.get("http://127.0.0.1:1")
        await served.pages.until(
            lambda metrics: metrics.get("requests_total", lane="edge", route="none", status="400") == 1,
            "the last request is counted",
        )
        yield engine
        await hub.__aexit__(None, None, None)
        hub.close()
        await served.runner.cleanup()
        await secured.runner.cleanup()


async def test_names_of_routes_come_back_as_they_are(everything: penstock.Engine) -> None:
    text = penstock.metrics.text(everything)
    openmetrics = penstock.metrics.text(everything, openmetrics=True)
    for metrics in (Metrics(text), Metrics(openmetrics, strict=True)):
        assert 'a "quoted" \\ name\nof two lines' in metrics.values("route")
        assert all(len(family.samples) > 0 for family in metrics.families.values())


async def test_promtool_finds_nothing_wrong(everything: penstock.Engine) -> None:
    promtool = require("promtool", package="prometheus")
    process = await asyncio.create_subprocess_exec(
        promtool,
        "check",
        "metrics",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate(penstock.metrics.text(everything).encode())
    assert (process.returncode, said.decode()) == (0, "")


async def test_every_metric_is_documented_as_it_is(everything: penstock.Engine) -> None:
    metrics = Metrics(penstock.metrics.text(everything))
    found = {}
    for family in metrics.families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = Metric(family.type, frozenset(labels), family.documentation)
    assert found == METRICS
