"""No client can make series: whatever it sends, the page is as long as before."""

import pytest
from aiohttp import web

import penstock
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway
from support.origins import Recorder
from support.scraping import Metrics

from .conftest import Serve, Served

# By the name of a code, of which there is a table: when a client closes decides which of them there are.
FAILURES = "penstock_request_failures_total"


def series(metrics: Metrics) -> set[str]:
    """What is told apart, without the buckets."""
    return {
        f"{name} {sorted(labels)}"
        for name, labels in metrics.samples
        if name != FAILURES and not name.endswith("_bucket")
    }


async def strange(served: Served, number: int) -> None:
    """A request of which a client can choose everything, twice on a connection."""
    client = await served.connect()
    try:
        name = f"x{number}"
        fields = (f"User-Agent: {name}", f"Cookie: {name}", f"X-{name}: {name}", f"Accept: {name}/{name}")
        for path in (f"/vod/{name}?{name}={name}", f"/{name}"):
            method = "GET" if number % 2 else f"X{number}"
            await client.send(
                "\r\n".join(
                    (f"{method} {path} HTTP/1.1", f"Host: {name}.test:{number + 1}", *fields, "", "")
                ).encode()
            )
            head = await client.head()
            await client.body(head)
    finally:
        client.abort()


async def test_a_thousand_paths_hosts_and_methods_make_no_series(
    engine: penstock.Engine, serve: Serve
) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app)
        # One of each kind, so that all series there can be are there.
        await strange(served, 0)
        await strange(served, 1)

        def count(metrics: Metrics) -> float:
            names = ("penstock_requests_total",)
            return sum(value for (name, _), value in metrics.samples.items() if name in names)

        before = series(await served.pages.until(lambda metrics: count(metrics) == 4, "two of each"))
        for number in range(2, 500):
            await strange(served, number)
        metrics = await served.pages.until(lambda metrics: count(metrics) == 1000, "all are counted")
        assert series(metrics) == before
        assert metrics.values("code") <= {code.name for code in penstock.error_codes()}
        assert metrics.values("route") == {"vod", "application", "none"}
        assert metrics.values("origin") == {origin.url}


@pytest.mark.parametrize("threads", [1, 3], ids=["one thread", "three threads"])
async def test_origins_beyond_the_bound_are_counted_together(threads: int, serve: Serve) -> None:
    async with (
        penstock.Engine(memory="4MiB", threads=threads) as engine,
        ScriptedOrigin(Recorder()) as origin,
    ):
        declared = Gateway(origin.url, engine=engine).native("/vod/", name="vod")
        app = web.Application()
        app.add_routes([declared])
        served = await serve(engine, app)
        asked = 600
        for number in range(asked):
            # Nothing listens there: all of 127/8 is this machine's.
            with pytest.raises(penstock.PenstockError, match="CONNECT_FAILED"):
                await engine.get(f"http://127.0.{1 + number // 250}.{1 + number % 250}:1/")
        metrics = await served.pages.metrics()
        origins = metrics.values("origin")
        assert {"other", origin.url} <= origins
        assert len(origins) <= 128 * threads + 1
        failures = [
            value for (name, _), value in metrics.samples.items() if name == "penstock_origin_failures_total"
        ]
        assert sum(failures) == asked, "none is lost"
        assert (
            metrics.get("origin_failures_total", origin="other", code="CONNECT_FAILED")
            >= asked - 128 * threads
        )
        await served.runner.cleanup()
