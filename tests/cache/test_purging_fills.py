"""Purges while something is being fetched: a purge that has returned is never followed by what was asked for before."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from penstock.cache import Cache
from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import Reply, answer
from support.edges import Edges, cache_of
from support.origins import FRESH, NumberedOrigin, numbered
from support.waiting import in_time, until

TAGGED = (FRESH, "Surrogate-Key: t")

HOW = pytest.mark.parametrize("how", ["url", "prefix", "tag"])
SOFT = pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])


def purge(cache: Cache, how: str, origin: str, target: str = "/a", *, soft: bool = False) -> int:
    what = {"url": origin + target, "prefix": f"{origin}/", "tag": "t"}[how]
    return cache.purge(**{how: what}, soft=soft)  # type: ignore[arg-type]


@HOW
@SOFT
async def test_what_was_asked_for_before_is_for_those_who_asked_before(
    caching: Edges, how: str, soft: bool
) -> None:
    script = NumberedOrigin(numbered(*TAGGED), 1)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/a")
        await in_time(script.asked.wait())
        purge(cache_of(caching), how, origin.url, soft=soft)
        # Whether it waits for the first one or not.
        await second.get("/a")
        script.go.set()
        assert await in_time(first.body(await in_time(first.head()))) == b"1"
        assert await in_time(second.body(await in_time(second.head()))) == b"2"
        assert (await first.ask("/a")).body == b"2"
        assert len(script.requests) == 2


@pytest.mark.parametrize("how", ["url", "prefix"])
async def test_no_request_waits_for_a_fill_from_before_a_purge(caching: Edges, how: str) -> None:
    script = NumberedOrigin(numbered(*TAGGED), 1)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/a")
        await in_time(script.asked.wait())
        purge(cache_of(caching), how, origin.url)
        assert (await in_time(second.ask("/a"))).body == b"2"
        script.go.set()
        assert await in_time(first.body(await in_time(first.head()))) == b"1"
        assert (await first.ask("/a")).body == b"2"


@HOW
@SOFT
async def test_a_body_on_its_way_is_read_to_its_end_by_its_readers_alone(
    caching: Edges, how: str, soft: bool
) -> None:
    """A soft purge leaves it stored, and stale."""
    half, go = asyncio.Event(), asyncio.Event()
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        while True:
            request = await peer.request()
            asked += 1
            if request.get("If-None-Match") is not None:
                await peer.send(answer(*TAGGED, 'ETag: "b"', "Content-Length: 3") + b"new")
                continue
            number = asked
            await peer.send(answer(*TAGGED, f'ETag: "{number}"', "Content-Length: 4") + b"ol")
            half.set()
            await go.wait()
            await peer.send(b"d" + str(number).encode())

    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/a")
        head = await in_time(first.head())
        await in_time(half.wait())
        assert purge(cache_of(caching), how, origin.url, soft=soft) == 1
        go.set()
        assert (await in_time(second.ask("/a"))).body == (b"new" if soft else b"old2")
        assert await in_time(first.body(head)) == b"old1"


@HOW
async def test_a_body_that_breaks_off_after_a_soft_purge_is_forgotten(caching: Edges, how: str) -> None:
    half, go = asyncio.Event(), asyncio.Event()
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        await peer.request()
        asked += 1
        if asked == 1:
            await peer.send(
                answer("Cache-Control: max-age=60, stale-if-error=60", "Cache-Tag: t", "Content-Length: 4")
            )
            half.set()
            await go.wait()
        elif asked == 2:
            await peer.send(answer("Content-Length: 0", status="503 Service Unavailable"))

    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/a")
        await in_time(first.head())
        await in_time(half.wait())
        assert purge(cache_of(caching), how, origin.url, soft=True) == 1
        go.set()
        with pytest.raises(ConnectionResetError):
            await in_time(first.rest())
        # It stands in for no error: it is not whole.
        assert (await in_time(second.ask("/a"))).head.status == 503
        assert cache_of(caching).list() == ()


@HOW
@SOFT
async def test_a_confirmation_that_was_asked_for_before_confirms_nothing(
    caching: Edges, how: str, soft: bool
) -> None:
    def says(number: int, request: RecordedRequest) -> bytes:
        if number == 1:
            return (
                answer("Cache-Control: max-age=0", "Cache-Tag: t", 'ETag: "a"', "Content-Length: 3") + b"old"
            )
        if number == 2:
            return answer(*TAGGED, 'ETag: "a"', status="304 Not Modified")
        return answer(*TAGGED, 'ETag: "b"', "Content-Length: 3") + b"new"

    script = NumberedOrigin(says, 2)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.ask("/a")
        await first.get("/a")
        await in_time(script.asked.wait())
        assert purge(cache_of(caching), how, origin.url, soft=soft) == 1
        script.go.set()
        assert await in_time(first.body(await in_time(first.head()))) == b"old"
        assert (await in_time(second.ask("/a"))).body == b"new"
        assert script.requests[2].get("If-None-Match") == ('"a"' if soft else None)


@HOW
async def test_the_rest_of_a_part_that_was_purged_is_not_added_to_it(caching: Edges, how: str) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        first, last = (int(place) for place in (request.get("Range") or "").removeprefix("bytes=").split("-"))
        fields = (*TAGGED, 'ETag: "a"', f"Content-Range: bytes {first}-{last}/100")
        return answer(*fields, f"Content-Length: {last - first + 1}", status="206 Partial Content") + bytes(
            last - first + 1
        )

    script = NumberedOrigin(says, 2)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(range_fill="asked"))
        client = await caching.connect(served)
        assert (await client.ask("/a", "Range: bytes=0-9")).head.status == 206
        await client.get("/a", "Range: bytes=5-19")
        await in_time(script.asked.wait())
        assert script.requests[1].get("Range") == "bytes=10-19"
        assert purge(cache_of(caching), how, origin.url) == 1
        script.go.set()
        assert len(await in_time(client.body(await in_time(client.head())))) == 15
        assert cache_of(caching).list() == ()


@pytest.mark.parametrize("what", ["urls", "tags"])
async def test_more_purges_than_are_remembered_void_all_that_was_asked_for_before(
    caching: Edges, what: str
) -> None:
    script = NumberedOrigin(numbered(*TAGGED), 1)
    cache = cache_of(caching)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.get("/a")
        await in_time(script.asked.wait())
        if what == "urls":
            cache.purge(url=f"{origin.url}/a")
            # Of each shard more than the 64 keys that are remembered.
            for number in range(100_000):
                cache.purge(url=f"{origin.url}/{number}")
        else:
            cache.purge(tag="t")
            for number in range(100):
                cache.purge(tag=f"other {number}")
        script.go.set()
        assert await in_time(client.body(await in_time(client.head()))) == b"1"
        assert [(await client.ask("/a")).body for _ in range(2)] == [b"2", b"2"]


@HOW
@SOFT
async def test_no_client_ever_gets_what_was_purged_before_it_asked(
    caching: Edges, how: str, soft: bool
) -> None:
    """Eight clients ask for three URLs while a writer changes the origin and purges; answers are made when a request
    comes and sent some turns later, so that most purges find a fetch on its way."""
    targets = ("/a", "/b", "/c")
    version = 1
    purged = dict.fromkeys(targets, 1)
    shuffled = random.Random(7)

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            body = str(version).encode()
            for _ in range(shuffled.randrange(6)):
                await asyncio.sleep(0)
            fields = (*TAGGED, f'ETag: "{version}"', f"Content-Length: {len(body)}")
            if request.get("If-None-Match") == f'"{body.decode()}"':
                await peer.send(answer(*TAGGED, f'ETag: "{body.decode()}"', status="304 Not Modified"))
            else:
                await peer.send(answer(*fields) + body)

    replies = 0

    async def read(ask: Callable[[str], Awaitable[Reply]]) -> None:
        nonlocal replies
        while replies < 400:
            target = shuffled.choice(targets)
            least = purged[target]
            reply = await in_time(ask(target))
            assert int(reply.body) >= least, f"{target}: {reply.body!r}, after version {least} was purged"
            replies += 1

    cache = cache_of(caching)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = [await caching.connect(served) for _ in range(8)]
        reading = [asyncio.create_task(read(client.ask)) for client in clients]
        while not any(task.done() for task in reading):
            # Now and then something is stored, and then it is purged as well.
            if version % 5 == 0 and replies < 300:
                await until(lambda: cache.stats().objects > 0, "something is stored")
            for _ in range(shuffled.randrange(20)):
                await asyncio.sleep(0)
            version += 1
            target = shuffled.choice(targets)
            purge(cache, how, origin.url, target, soft=soft)
            for meant in targets if how != "url" else (target,):
                purged[meant] = version
        await asyncio.gather(*reading)
        assert version > 10
