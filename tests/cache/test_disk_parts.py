"""Slices and ranges on disk: a film that memory has no room for is fetched once, and is what the origin has."""

import asyncio
import shutil
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.edges import THREADS
from support.films import Film, film, parts_of
from support.waiting import in_time, until

from .disk import BLOCK, HEAD, MEMORY, files, gateway, used
from .disk_films import COUNT, PART, WHOLE, check, check_slice, file_of, honest, slicing, span, store

pytestmark = pytest.mark.filterwarnings("error")

LARGE = 256 * 1024
MANY = 48
"""Slices of which about half fit into the memory of the tests."""


@pytest.mark.parametrize("threads", THREADS)
async def test_a_film_larger_than_memory_is_asked_of_its_origin_once(tmp_path: Path, threads: int) -> None:
    body = film(size=MANY * LARGE)
    script = Film(body)
    async with ScriptedOrigin(script) as origin:
        async with slicing(origin, tmp_path / "disk", LARGE, threads=threads) as here:
            assert here.engine.cache is not None
            for is_warm in (False, True, True):
                for number in range(MANY):
                    await check_slice(here, number, LARGE, body)
                    # What leaves faster than it can be written is not kept.
                    await here.settle()
                if not is_warm:
                    stats = here.engine.cache.stats()
                    assert 0 < here.disk.objects < MANY
                    assert stats.disk_objects == here.disk.objects
                    assert stats.objects + here.disk.objects == MANY
            assert (here.disk.skipped, here.disk.failed) == (0, 0)
            assert here.disk.promoted > 0
            assert here.engine.cache.stats().used <= MEMORY
            [listed] = here.engine.cache.list()
            assert listed.size == len(body)
        assert len(files(tmp_path / "disk")) == MANY
        async with slicing(origin, tmp_path / "disk", LARGE, threads=threads) as here:
            assert here.disk.objects == MANY
            clients = [await here.edges.connect(here.served) for _ in range(4)]
            replies = await asyncio.gather(*(in_time(client.ask("/film")) for client in clients))
            assert [reply.body == body for reply in replies] == [True] * 4
            [listed] = here.engine.cache.list()  # type: ignore[union-attr]
            assert listed.size == len(body)
        assert len(script.requests) == MANY, "each slice was asked for once"


async def test_ranges_are_cut_out_of_slices_on_disk(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk") as here:
            for first, last in (
                (0, 0),
                (BLOCK - 1, BLOCK),
                (PART - 1, PART),
                (PART + BLOCK, 3 * PART + 5),
                (len(WHOLE) - 1, len(WHOLE) - 1),
                (0, len(WHOLE) - 1),
            ):
                reply = await here.ask("/film", f"Range: bytes={first}-{last}")
                assert reply.head.status == 206
                assert (reply.body == WHOLE[first : last + 1]) is True
            reply = await here.ask("/film", f"Range: bytes=0-9,{4 * PART}-{4 * PART + 9},-5")
            assert len(parts_of(reply.head, reply.body, WHOLE)) == 3
            assert (await here.ask("/film", 'If-None-Match: "1"')).head.status == 304
            reply = await here.ask("/film", method="HEAD")
            assert (reply.head.one("Content-Length"), reply.body) == (str(len(WHOLE)), b"")
        assert len(script.requests) == COUNT


async def test_slices_that_are_asked_for_again_come_back_into_memory(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk") as here:
            await check(here)
            assert (here.disk.hits, here.disk.promoted) == (COUNT, 0)
            clients = [await here.edges.connect(here.served) for _ in range(20)]
            text = f"Range: bytes={2 * PART}-{3 * PART - 1}"
            replies = await asyncio.gather(*(in_time(client.ask("/film", text)) for client in clients))
            assert [reply.body == WHOLE[2 * PART : 3 * PART] for reply in replies] == [True] * 20
            assert here.disk.promoted == 1
            await check(here)
            assert here.disk.promoted == COUNT
            hits = here.disk.hits
            await check(here)
            assert here.disk.hits == hits, "all of it is in memory"
            assert here.disk.objects == COUNT
        assert len(script.requests) == COUNT


async def test_what_was_asked_for_in_ranges_is_on_disk_as_well(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            for first, last in ((0, 99_999), (100_000, 249_999), (400_000, 400_099)):
                reply = await here.ask("/film", f"Range: bytes={first}-{last}")
                assert (reply.body == WHOLE[first : last + 1]) is True
        assert len(files(tmp_path / "disk")) == 3
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            for first, last in ((50_000, 199_999), (400_000, 400_099), (0, 249_999)):
                reply = await here.ask("/film", f"Range: bytes={first}-{last}")
                assert (reply.body == WHOLE[first : last + 1]) is True
            assert len(script.requests) == 3
            # What is missing between them is added to them.
            for _ in range(2):
                reply = await here.ask("/film", "Range: bytes=0-400099")
                assert (reply.body == WHOLE[:400_100]) is True
            assert script.ranges[3:] == ["250000-399999"]
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            reply = await here.ask("/film", "Range: bytes=0-400099")
            assert (reply.body == WHOLE[:400_100]) is True
        assert len(script.requests) == 4


async def test_parts_without_a_strong_entity_tag_stay_what_they_are(tmp_path: Path) -> None:
    script = Film(WHOLE, 'W/"1"')
    async with ScriptedOrigin(script) as origin:
        for _ in range(2):
            async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
                reply = await here.ask("/film", "Range: bytes=1000-1999")
                assert reply.body == WHOLE[1000:2000]
        assert len(script.requests) == 1
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            reply = await here.ask("/film", "Range: bytes=1000-2999")
            assert reply.body == WHOLE[1000:3000]
        assert script.ranges[1:] == ["1000-2999"]


async def test_slices_that_come_while_others_are_on_disk_stand_beside_them(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        for numbers in ((0, 3), (1,), (4, 2)):
            async with slicing(origin, tmp_path / "disk") as here:
                for number in numbers:
                    await check_slice(here, number)
        assert len(files(tmp_path / "disk")) == 5
        async with slicing(origin, tmp_path / "disk") as here:
            await check(here)
        assert script.ranges == [first_of(0), *(span(number) for number in (3, 1, 4, 2, 5))]


def first_of(number: int) -> str:
    """What the origin is asked for where the length of the film is not known."""
    return f"{number * PART}-{(number + 1) * PART - 1}"


async def test_a_confirmation_is_for_all_slices_also_after_a_restart(tmp_path: Path) -> None:
    script = honest("Cache-Control: max-age=0")
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        script.fields = ("Cache-Control: max-age=3600",)
        async with slicing(origin, tmp_path / "disk") as here:
            await check(here)
        assert [request.get("If-None-Match") for request in script.requests[COUNT:]] == ['"1"']
        for path in files(tmp_path / "disk"):
            assert b"max-age=3600" in path.read_bytes()[:HEAD]
        # Whichever is left of them.
        for number in range(COUNT):
            left = tmp_path / f"left-{number}"
            shutil.copytree(tmp_path / "disk", left)
            for path in files(left):
                if path != file_of(left, number):
                    path.unlink()
            async with slicing(origin, left) as here:
                await check_slice(here, number)
        assert len(script.requests) == COUNT + 1


async def test_what_was_made_invalid_is_on_no_disk(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk") as here:
            await here.ask("/film", "Content-Length: 0", method="POST")
            assert here.disk.objects == 0
            await until(lambda: not files(tmp_path / "disk"), "the files are gone")


@pytest.mark.parametrize("what", ["url", "prefix", "tag"])
@pytest.mark.parametrize("ready", [True, False], ids=["found", "not found yet"])
async def test_what_is_purged_while_it_is_on_disk_is_gone(tmp_path: Path, what: str, ready: bool) -> None:
    script = honest("Cache-Control: max-age=60", "Cache-Tag: films")
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        meant = {"url": f"{origin.url}/film", "prefix": f"{origin.url}/f", "tag": "films"}[what]
        async with slicing(origin, tmp_path / "disk", ready=ready, save=0) as here:
            assert here.engine.cache is not None
            purged = here.engine.cache.purge(**{what: meant})
            assert purged == 1 if ready else purged <= 1
            await until(lambda: here.disk.ready, "the directory has been looked through")
            assert (here.disk.objects, here.engine.cache.list()) == (0, ())
            await until(lambda: not files(tmp_path / "disk"), "the files are gone")
            script.body, script.tag = film(2, len(WHOLE)), '"2"'
            await check(here, script.body)
        assert script.ranges[COUNT:] == [first_of(0), *(span(number) for number in range(1, COUNT))]


async def test_what_is_purged_softly_is_confirmed_and_not_fetched_again(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk") as here:
            assert here.engine.cache is not None
            assert here.engine.cache.purge(url=f"{origin.url}/film", soft=True) == 1
        async with slicing(origin, tmp_path / "disk") as here:
            await check(here)
            assert here.engine.cache is not None
            assert here.engine.cache.purge(url=f"{origin.url}/film", soft=True) == 1
            await check(here)
        assert [request.get("If-None-Match") for request in script.requests[COUNT:]] == ['"1"'] * 2


async def test_slices_leave_the_disk_one_by_one_and_it_stays_within_its_budget(tmp_path: Path) -> None:
    budget = 3 << 20
    body = film(size=MANY * LARGE)
    script = Film(body)
    async with ScriptedOrigin(script) as origin:
        async with slicing(origin, tmp_path / "disk", LARGE, budget=budget) as here:
            for number in range(MANY):
                await check_slice(here, number, LARGE, body)
                await here.settle()
                assert here.disk.used <= budget
                assert used(tmp_path / "disk") <= budget
            assert here.disk.written > here.disk.objects > 0
            await check(here, body)
            assert here.disk.damaged == 0
            assert here.engine.cache is not None
            [listed] = here.engine.cache.list()
            assert 0 < listed.size < len(body)
        assert used(tmp_path / "disk") <= budget
        async with slicing(origin, tmp_path / "disk", LARGE, budget=budget // 2) as here:
            assert 0 < here.disk.used <= budget // 2
            assert here.engine.cache is not None
            [listed] = here.engine.cache.list()
            assert listed.size == here.disk.objects * LARGE
            await check(here, body)


async def test_the_whole_and_its_slices_are_read_by_either_route(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await check(here)
        async with slicing(origin, tmp_path / "disk") as here:
            await check(here)
            await check_slice(here, 2)
        assert script.ranges == [None]
        await store(origin, tmp_path / "other")
        async with gateway(origin, tmp_path / "other") as here:
            await check(here)
            await check_slice(here, 2)
        assert len(script.requests) == 1 + COUNT
