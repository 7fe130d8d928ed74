"""What handlers do with origins, gateways and the cache in a worker, they do with the parent's."""

import asyncio

import pytest
from yarl import URL

import penstock
from penstock import Origins, config
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway
from support.client import answer
from support.family import Family
from support.origins import Recorder
from support.waiting import until


async def test_origins_that_a_worker_sets_are_the_parents(family: Family) -> None:
    first, second = await family.worker(), await family.worker()
    async with (
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"a"))) as a,
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"b"))) as b,
    ):
        several = []
        for worker in (first, second):
            with worker.inside():
                origins = Origins([a.url])
                several.append(origins)
                route = Gateway(origins).native("/")
            await family.serve(worker, route)
        client = await family.connect()
        assert (await client.ask()).body == b"a"
        await asyncio.to_thread(several[0].set, [config.Origin(b.url, weight=2)])
        assert (await client.ask()).body == b"b"
        # The other worker sees what is, not what it was declared with.
        assert await asyncio.to_thread(lambda: several[1].origins) == (config.Origin(b.url, weight=2),)
        stats = await asyncio.to_thread(several[1].stats)
        assert stats.requests == 2
        assert [(origin.url, origin.requests) for origin in stats.origins] == [(b.url, 1)]


async def test_what_a_worker_fetches_by_itself_goes_where_it_has_set(family: Family) -> None:
    worker = await family.worker()
    async with (
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"a"))) as a,
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"b"))) as b,
    ):
        with worker.inside():
            origins = Origins([a.url])
        await asyncio.to_thread(origins.set, [b.url])
        async with family.engine.request("GET", "/", origins=origins) as response:
            assert await response.bytes() == b"b"


async def test_origins_without_references_are_forgotten(family: Family) -> None:
    worker = await family.worker()
    with worker.inside():
        origins = Origins(["http://127.0.0.1:9"])
    number = await asyncio.to_thread(worker.declared.number, origins)
    assert number in family.declarations._entries
    del origins
    await until(lambda: number not in family.declarations._entries, "the parent has released them")


async def test_what_is_served_outlives_the_workers(family: Family) -> None:
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            origins = Origins([upstream.url])
            route = Gateway(origins).native("/")
        await family.serve(worker, route)
        assert (await (await family.connect()).ask()).body == b"ok"
        await family.lose(worker)
        worker = await family.worker()
        with worker.inside():
            again = Origins([upstream.url])
        assert (await asyncio.to_thread(again.stats)).requests == 1


async def test_another_code_has_what_it_declares_alike_and_nothing_else(family: Family) -> None:
    old = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with old.inside():
            kept, gone = Origins([upstream.url]), Origins([upstream.url], name="http://gone.example")
            routes = [Gateway(kept).native("/kept/"), Gateway(gone).native("/gone/")]
        await family.serve(old, *routes)
        client = await family.connect()
        assert (await client.ask("/kept/")).body == b"ok"
        new = await family.worker()
        with new.inside():
            again = Origins([upstream.url])
            route = Gateway(again).native("/kept/")
        await family.serve(new, route)
        await family.lose(old)
        assert (await client.ask("/kept/")).body == b"ok"
        assert (await asyncio.to_thread(again.stats)).requests == 2
        named = [entry.declaration.get("name") for entry in family.declarations._entries.values()]
        assert "http://gone.example" not in named


async def test_the_cache_of_a_worker_is_the_parents(family: Family) -> None:
    worker = await family.worker()
    film = answer("Content-Length: 4", "Cache-Control: max-age=60", "Surrogate-Key: film", body=b"film")
    recorder = Recorder(response=film)
    async with ScriptedOrigin(recorder) as upstream:
        with worker.inside():
            own = await asyncio.to_thread(penstock.Engine, memory="8MiB")
            async with own:
                route = Gateway(upstream.url, engine=own).native("/", caching=config.Caching())
                await family.serve(worker, route)
                client = await family.connect()
                for _ in range(2):
                    assert (await client.ask("/7")).body == b"film"
                assert len(recorder.arrivals) == 1
                cache = own.cache
                assert cache is not None
                (stored,) = await asyncio.to_thread(lambda: cache.list(prefix=URL(upstream.url)))
                assert (stored.url, stored.tags, stored.hits) == (f"{upstream.url}/7", ("film",), 1)
                assert (await asyncio.to_thread(cache.stats)).objects == 1
                assert await asyncio.to_thread(cache.disk_stats) is None
                assert await asyncio.to_thread(lambda: cache.purge(tag="film")) == 1
                assert (await client.ask("/7")).body == b"film"
                assert len(recorder.arrivals) == 2
                url = URL(upstream.url) / "7"
                assert await asyncio.to_thread(lambda: cache.purge(url=url, soft=True)) == 1
                assert await asyncio.to_thread(cache.clear) == 1
                with pytest.raises(penstock.ConfigurationError, match="the cache is the parent's"):
                    own.get(f"{upstream.url}/7", caching=config.Caching())


async def test_a_gateway_counts_what_native_routes_have_inspected(family: Family) -> None:
    worker = await family.worker()
    events = b"data: one\n\ndata: two\n\ndata: [DONE]\n\n"
    fields = ("Content-Type: text/event-stream", f"Content-Length: {len(events)}")
    async with ScriptedOrigin(Recorder(response=answer(*fields, body=events))) as upstream:
        with worker.inside():
            gateway = Gateway(upstream.url, inspect=config.Inspection())
            route = gateway.native("/model/", name="model")
        await family.serve(worker, route)
        assert (await (await family.connect()).ask("/model/")).body == events
        stats = await asyncio.to_thread(gateway.stats)
        assert (stats["model"].streams, stats["model"].events) == (1, 3)
