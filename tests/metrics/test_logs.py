"""The state of a log that hubs of several processes share."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

import penstock
from penstock import Hub, RedisLog
from penstock.config import History
from support.brokers.redis_server import RedisServer, a_redis
from support.scraping import Metrics

from .conftest import Serve


@pytest.fixture
async def redis() -> AsyncIterator[RedisServer]:
    """A Redis of the test's own, which runs."""
    async with a_redis() as server:
        yield server


async def test_a_log_that_goes_and_comes_back(
    engine: penstock.Engine, serve: Serve, redis: RedisServer
) -> None:
    settings = RedisLog(redis.url, timeout=5.0, longest_wait=0.1)
    hub = Hub(engine=engine, history=History(memory="2MiB"), log=settings)
    app = web.Application()
    app.add_routes([hub.native("/events/", name="events")])
    served = await serve(engine, app)
    pages = served.pages
    metrics = await pages.metrics()
    assert metrics.get("hub_logs", state="away") == 1, "the hub has not been entered"
    async with hub:
        metrics = await pages.metrics()
        assert metrics.get("hub_logs", state="ready") == 1
        assert metrics.get("hub_logs", state="away") == 0
        assert metrics.get("hub_log_connections_total") == 1
        client = await served.connect()
        await client.get("/events/news")
        await client.head()
        for number in range(3):
            await hub.publish("news", str(number))
        await client.reader.readuntil(b"data: 2\n\n")
        metrics = await pages.until(
            lambda metrics: metrics.get("hub_log_entries_total") == 3, "what came is counted"
        )
        assert metrics.get("hub_log_events_total", outcome="published") == 3
        assert metrics.get("hub_log_topics") == 1
        assert metrics.get("hub_log_topics_behind") == 0
        redis.kill()
        metrics = await pages.until(
            lambda metrics: metrics.get("hub_logs", state="away") == 1, "it is seen to be away"
        )
        assert metrics.get("hub_logs", state="ready") == 0
        with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE"):
            await hub.publish("news", "refused")
        await pages.until(lambda metrics: _refused(metrics) == 1, "the refusal is counted")
        await redis.start()
        metrics = await pages.until(
            lambda metrics: metrics.get("hub_logs", state="ready") == 1, "it is seen to be back"
        )
        assert metrics.get("hub_log_connections_total") == 2
        client.abort()
    await pages.until(
        lambda metrics: metrics.get("hub_logs", state="away") == 1, "no reader follows it any more"
    )
    hub.close()
    del hub
    metrics = await pages.metrics()
    assert _refused(metrics) == 1, "a hub that is gone takes no count back"


def _refused(metrics: Metrics) -> float:
    return metrics.get("hub_log_events_total", outcome="refused")
