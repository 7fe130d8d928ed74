"""What a cache has in memory moves to the cache of another process, through files in the format of its disk."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import _native, config
from penstock.config import Caching
from penstock.testing import RecordedRequest, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges, cache_of, edges_of
from support.films import BODY, SLICED, Film
from support.origins import FRESH, NumberedOrigin, always, numbered

MEBIBYTE = 1 << 20


@contextmanager
def file() -> Iterator[int]:
    descriptor = os.memfd_create("records")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def native(edges: Edges) -> _native.Cache:
    found = cache_of(edges).native
    assert found is not None
    return found


@pytest.fixture
async def other(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    """What another process would have: an engine with a cache of its own, which is smaller."""
    async with edges_of(request, cache=config.Cache(memory="4MiB")) as edges:
        yield edges
        del edges


def move(one: Edges, two: Edges, most: int = MEBIBYTE) -> int:
    """Move what `one` has to `two`; how many records there were."""
    moving = native(one).begin_moving()
    count = 0
    while True:
        with file() as descriptor:
            records = moving.write(descriptor, most)
            if not records:
                return count
            count += records
            if not native(two).take_records(descriptor):
                return count


async def client_of(edges: Edges, origin: ScriptedOrigin, caching: Caching | None = None) -> RawClient:
    return await edges.connect(await edges.relay(origin.url, caching=caching or Caching()))


async def test_what_has_moved_is_a_hit_with_all_that_is_known_of_it(caching: Edges, other: Edges) -> None:
    fields = (FRESH, "Content-Type: text/plain", "Surrogate-Key: red", 'ETag: "1"')
    script = NumberedOrigin(always(*fields, body=b"0123456789" * 20_000))
    async with ScriptedOrigin(script) as origin:
        before = await client_of(caching, origin, Caching(tags=("all",)))
        for target in ("/a", "/b", "/c"):
            await before.ask(target)
        (known,) = {stored.tags for stored in cache_of(caching).list()}
        assert move(caching, other, 1) == 3
        assert {stored.tags for stored in cache_of(other).list()} == {known}
        after = await client_of(other, origin)
        for target in ("/a", "/b", "/c"):
            reply = await after.ask(target)
            assert reply.body == b"0123456789" * 20_000
            assert reply.head.one("Content-Type") == "text/plain"
            assert "hit" in (reply.head.one("Cache-Status") or "")
        assert (await after.ask("/a", 'If-None-Match: "1"')).head.status == 304
        assert len(script.requests) == 3
        assert cache_of(other).purge(tag="all") == 3


async def test_what_is_released_is_gone_and_its_memory_is_the_systems(caching: Edges) -> None:
    script = NumberedOrigin(always(FRESH, body=bytes(MEBIBYTE)))
    async with ScriptedOrigin(script) as origin:
        client = await client_of(caching, origin)
        for target in ("/a", "/b", "/c"):
            await client.ask(target)
        pool = caching.engine.stats().pool
        assert pool.live_bytes >= 3 * MEBIBYTE
        # What was held, and what was free before.
        assert native(caching).release_memory() >= 3 * MEBIBYTE
        assert not cache_of(caching).list()
        assert (await client.ask("/a")).body == bytes(MEBIBYTE), "it is fetched again"
        assert len(script.requests) == 4
        assert (await client.ask("/a")).body == bytes(MEBIBYTE)
        assert len(script.requests) == 4


async def test_parts_and_empty_bodies_move(caching: Edges, other: Edges) -> None:
    film = Film()
    async with (
        ScriptedOrigin(film) as origin,
        ScriptedOrigin(NumberedOrigin(always(FRESH, body=b""))) as empty,
    ):
        before = await client_of(caching, origin, SLICED)
        await before.ask("/film", "Range: bytes=20000-90000")
        await (await client_of(caching, empty)).ask("/nothing")
        move(caching, other)
        asked = len(film.requests)
        reply = await (await client_of(other, origin, SLICED)).ask("/film", "Range: bytes=20000-90000")
        assert (reply.head.status, reply.body) == (206, BODY[20000:90001])
        assert len(film.requests) == asked
        reply = await (await client_of(other, empty)).ask("/nothing")
        assert "hit" in (reply.head.one("Cache-Status") or "")


async def test_variants_move_each_for_its_requests(caching: Edges, other: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        kind = request.get("X-Kind") or ""
        return answer(FRESH, "Vary: X-Kind", f"Content-Length: {len(kind)}") + kind.encode()

    script = NumberedOrigin(says)
    async with ScriptedOrigin(script) as origin:
        before = await client_of(caching, origin)
        for kind in ("one", "two"):
            await before.ask("/", f"X-Kind: {kind}")
        assert move(caching, other) == 2
        after = await client_of(other, origin)
        for kind in ("two", "one"):
            assert (await after.ask("/", f"X-Kind: {kind}")).body == kind.encode()
        assert len(script.requests) == 2


async def test_what_was_purged_there_meanwhile_or_is_newer_there_is_not_replaced(
    caching: Edges, other: Edges
) -> None:
    script = NumberedOrigin(numbered(FRESH))
    async with ScriptedOrigin(script) as origin:
        before = await client_of(caching, origin)
        for target in ("/purged", "/newer", "/kept"):
            await before.ask(target)
        after = await client_of(other, origin)
        newer = (await after.ask("/newer")).body
        cache_of(other).purge(url=f"{origin.url}/purged")
        assert move(caching, other) == 3
        asked = len(script.requests)
        assert (await after.ask("/newer")).body == newer
        await after.ask("/kept")
        assert len(script.requests) == asked
        await after.ask("/purged")
        assert len(script.requests) == asked + 1


async def test_what_is_asked_for_most_comes_first_and_what_has_no_room_stays(
    caching: Edges, other: Edges
) -> None:
    body = bytes(MEBIBYTE)
    script = NumberedOrigin(always(FRESH, body=body))
    async with ScriptedOrigin(script) as origin:
        before = await client_of(caching, origin)
        for number in range(6):
            await before.ask(f"/{number}")
        for _ in range(3):
            await before.ask("/3")
        count = move(caching, other)
        stored = {each.url.rpartition("/")[2] for each in cache_of(other).list()}
        assert "3" in stored
        assert 2 <= len(stored) <= 4
        assert count >= len(stored)
        assert cache_of(other).stats().used <= 4 * MEBIBYTE


async def test_a_byte_that_has_changed_is_noticed_and_ends_the_move(caching: Edges, other: Edges) -> None:
    script = NumberedOrigin(always(FRESH, "Content-Type: text/plain", body=b"0123456789" * 500))
    async with ScriptedOrigin(script) as origin:
        await (await client_of(caching, origin)).ask("/a")
        with file() as descriptor:
            assert native(caching).begin_moving().write(descriptor, MEBIBYTE) == 1
            whole = os.pread(descriptor, MEBIBYTE, 0)

    def taken(data: bytes) -> bool:
        with file() as descriptor:
            os.write(descriptor, data)
            return native(other).take_records(descriptor)

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(st.integers(8, len(whole) - 1), st.integers(1, 255))
    def changed(place: int, change: int) -> None:
        data = bytearray(whole)
        data[place] ^= change
        assert not taken(bytes(data))
        assert cache_of(other).list() == ()

    @settings(max_examples=100)
    @given(st.integers(1, len(whole) - 1))
    def cut(length: int) -> None:
        taken(whole[:length])
        assert cache_of(other).list() == ()

    @settings(max_examples=100)
    @given(st.binary(max_size=5000))
    def noise(data: bytes) -> None:
        taken(data)
        assert cache_of(other).list() == ()

    changed()
    cut()
    noise()
    assert taken(whole)
    assert len(cache_of(other).list()) == 1
