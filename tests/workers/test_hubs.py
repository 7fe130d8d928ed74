"""Hubs that workers declare, and that share a log with other processes: the parent has the log."""

import asyncio

import pytest

import penstock
from penstock import Hub, config
from support.brokers.redis_server import RedisServer
from support.family import Family
from support.waiting import until


def the_parents(family: Family) -> Hub:
    (hub,) = (entry.made for entry in family.declarations._entries.values() if isinstance(entry.made, Hub))
    return hub


async def ready(hub: Hub) -> None:
    await until(lambda: (log := hub.stats().log) is not None and log.state == "ready", "the log is there")


async def test_the_parent_follows_the_log(family: Family, server: RedisServer) -> None:
    log = config.RedisLog(server.url)
    several = [await family.worker() for _ in range(2)]
    hubs = []
    for worker in several:
        with worker.inside():
            hub = Hub(engine=family.engine, log=log)
        assert hub._reader is None
        # It would wait for the parent, which is on this loop.
        await asyncio.to_thread(worker.declared.number, hub)
        async with hub:
            await family.serve(worker, hub.native("/events/"))
        hubs.append(hub)
    await ready(the_parents(family))
    client = await family.connect()
    await client.get("/events/news")
    assert (await client.head()).status == 200
    async with Hub(engine=family.engine, log=log) as other:
        await ready(other)
        await other.publish("news", "of another process")
        await hubs[0].publish("news", "of a worker")
        text = b""
        while b"of a worker" not in text:
            text += await client.chunk()
        assert text.index(b"of another process") < text.index(b"of a worker")
    # What one worker releases is the others' still.
    assert await hubs[1].publish("news", "more")
    assert (await asyncio.to_thread(hubs[1].stats)).log is not None


async def test_what_the_log_refuses_is_told_by_its_code(family: Family, server: RedisServer) -> None:
    worker = await family.worker()
    with worker.inside():
        hub = Hub(engine=family.engine, log=config.RedisLog(server.url))
    await asyncio.to_thread(worker.declared.number, hub)
    await ready(the_parents(family))
    await hub.publish("news", "one")
    server.kill()
    with pytest.raises(penstock.ConnectionFailedError, match="HUB_UNAVAILABLE"):
        await hub.publish("news", "two")
