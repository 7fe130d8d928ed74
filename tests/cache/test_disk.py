"""The disk's tier: what leaves memory is there, also after a restart, and is what the origin has sent or nothing."""

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock import config
from penstock.testing import ScriptedOrigin
from support.edges import THREADS
from support.waiting import in_time, until

from .disk import BLOCK, HEAD, MANY, SIZE, Library, body, files, gateway, used

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("threads", THREADS)
async def test_what_leaves_memory_is_served_from_disk(tmp_path: Path, threads: int) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin, gateway(origin, tmp_path / "disk", threads=threads) as here:
        await here.fill()
        assert here.disk.written > 0
        await here.check()
        assert here.disk.hits > 0
        assert set(library.asked.values()) == {1}
        assert (here.disk.skipped, here.disk.failed, here.disk.damaged) == (0, 0, 0)


async def test_a_restart_keeps_what_memory_and_disk_had(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill()
        assert len(files(tmp_path / "disk")) == MANY
        async with gateway(origin, tmp_path / "disk") as here:
            assert here.disk.objects == MANY
            reply = await here.ask("/3", "Range: bytes=65530-65545")
            assert (reply.head.status, reply.body) == (206, body("/3")[65530:65546])
            assert (await here.ask("/3", "Range: bytes=-5")).body == body("/3")[-5:]
            assert (await here.ask("/3", 'If-None-Match: "1"')).head.status == 304
            head = await here.ask("/4", method="HEAD")
            assert (head.head.one("Content-Length"), head.body) == (str(SIZE), b"")
            said = (await here.ask("/5")).head.one("Cache-Status")
            assert said is not None
            assert said.startswith("penstock; hit; ttl=")
            await here.check()
        assert set(library.asked.values()) == {1}


async def test_what_is_asked_for_again_is_brought_back_once_for_a_crowd(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(2)
        async with gateway(origin, tmp_path / "disk") as here:
            await here.ask("/1")
            assert (here.disk.hits, here.disk.promoted) == (1, 0)
            clients = [await here.edges.connect(here.served) for _ in range(20)]
            replies = await asyncio.gather(*(in_time(client.ask("/1")) for client in clients))
            assert {reply.body for reply in replies} == {body("/1")}
            assert here.disk.promoted == 1
            hits = here.disk.hits
            assert (await here.ask("/1")).body == body("/1")
            assert here.disk.hits == hits, "it is in memory"
            assert len(files(tmp_path / "disk")) == 2
        assert set(library.asked.values()) == {1}


async def test_what_was_confirmed_is_fresh_after_a_restart(tmp_path: Path) -> None:
    library = Library("Cache-Control: max-age=0", 'ETag: "1"')
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(1)
        async with gateway(origin, tmp_path / "disk") as here:
            library.fields = ("Cache-Control: max-age=3600", 'ETag: "1"')
            assert (await here.ask("/0")).body == body("/0")
            assert library.confirmed == 1
        async with gateway(origin, tmp_path / "disk") as here:
            assert (await here.ask("/0")).body == body("/0")
        assert library.asked["/0"] == 2


async def test_a_confirmation_that_does_not_fit_into_the_file_costs_the_file(tmp_path: Path) -> None:
    library = Library("Cache-Control: max-age=0", 'ETag: "1"')
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(1)
        async with gateway(origin, tmp_path / "disk", save=0) as here:
            library.fields = ("Cache-Control: max-age=3600", 'ETag: "1"', "X-Long: " + "x" * HEAD)
            for _ in range(3):
                assert (await here.ask("/0")).body == body("/0")
            assert library.asked["/0"] == 2
        async with gateway(origin, tmp_path / "disk") as here:
            assert (here.disk.objects, here.disk.damaged) == (0, 1)
            assert (await here.ask("/0")).body == body("/0")


async def test_what_was_made_invalid_is_not_there_after_a_restart(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(3)
        async with gateway(origin, tmp_path / "disk") as here:
            await here.ask("/1", "Content-Length: 0", method="POST")
        assert len(files(tmp_path / "disk")) == 2
        async with gateway(origin, tmp_path / "disk") as here:
            await here.check(3)
        assert library.asked == {"/0": 1, "/1": 3, "/2": 1}


async def test_clearing_empties_the_directory(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(3)
        async with gateway(origin, tmp_path / "disk") as here:
            assert here.engine.cache is not None
            here.engine.cache.clear()
            assert here.disk.objects == 0
            await until(lambda: not files(tmp_path / "disk"), "the files are gone")


async def test_what_is_purged_before_it_was_found_is_not_found(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(MANY)
        async with gateway(origin, tmp_path / "disk", ready=False, save=0) as here:
            assert here.engine.cache is not None
            here.engine.cache.clear()
            await until(lambda: here.disk.ready, "the directory has been looked through")
            assert here.disk.objects == 0
            await here.check(3)
            await until(lambda: not files(tmp_path / "disk"), "the files are gone")
        assert library.asked["/0"] == 2


async def test_tags_of_a_route_last_and_what_was_purged_softly_stays_stale(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk", tags=("ours",)) as here:
            await here.fill(2)
        async with gateway(origin, tmp_path / "disk") as here:
            assert here.engine.cache is not None
            assert [found.tags for found in here.engine.cache.list()] == [("ours",)] * 2
            assert [found.size for found in here.engine.cache.list()] == [SIZE] * 2
            assert here.engine.cache.purge(tag="ours", soft=True) == 2
        async with gateway(origin, tmp_path / "disk") as here:
            await here.check(2)
            assert library.confirmed == 2
            assert here.engine.cache is not None
            assert here.engine.cache.purge(tag="ours") == 2
            await until(lambda: not files(tmp_path / "disk"), "the files are gone")


async def test_variants_have_files_of_their_own(tmp_path: Path) -> None:
    library = Library("Cache-Control: max-age=3600", "Vary: X-Device")
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            for device in ("tv", "phone"):
                await here.ask("/0", f"X-Device: {device}")
        assert len(files(tmp_path / "disk")) == 2
        async with gateway(origin, tmp_path / "disk") as here:
            for device in ("tv", "phone", "watch"):
                assert (await here.ask("/0", f"X-Device: {device}")).body == body("/0")
        assert library.asked["/0"] == 3


async def test_an_empty_body_and_one_of_whole_blocks_come_back(tmp_path: Path) -> None:
    for size in (0, 1, BLOCK, 2 * BLOCK):
        library = Library(size=size)
        directory = tmp_path / str(size)
        async with ScriptedOrigin(library) as origin:
            for _ in range(3):
                async with gateway(origin, directory) as here:
                    assert (await here.ask("/0")).body == body("/0", size)
            assert library.asked["/0"] == 1
            [path] = files(directory)
            assert path.stat().st_size == HEAD + size + 8 * -(-size // BLOCK)


async def test_files_stay_within_the_budget(tmp_path: Path) -> None:
    library = Library()
    budget = 3 << 20
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk", budget=budget) as here:
            for number in range(2 * MANY):
                await here.ask(f"/{number}")
                await here.settle()
                assert here.disk.used <= budget
                # What is being written has been given room before.
                assert used(tmp_path / "disk") <= budget
            assert here.disk.written > here.disk.objects > 0
        assert used(tmp_path / "disk") <= budget
        async with gateway(origin, tmp_path / "disk", budget=budget // 2) as here:
            assert here.disk.used <= budget // 2
            await until(lambda: used(tmp_path / "disk") <= budget // 2, "a smaller budget holds as well")


async def test_live_segments_that_are_about_to_end_are_not_written(tmp_path: Path) -> None:
    library = Library("Cache-Control: max-age=30")
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill()
            assert here.disk.written == 0
        assert not files(tmp_path / "disk")


async def test_a_second_engine_is_told_that_the_directory_is_taken(tmp_path: Path) -> None:
    settings = config.Cache(memory="1MiB", disk=tmp_path / "disk", disk_budget="8MiB")
    first = penstock.Engine(memory="4MiB", cache=settings)
    try:
        with pytest.raises(penstock.SystemFailureError) as caught:
            penstock.Engine(memory="4MiB", cache=settings)
        assert caught.value.name == "CACHE_DIRECTORY_TAKEN"
    finally:
        await first.aclose()
    await penstock.Engine(memory="4MiB", cache=settings).aclose()


async def test_a_directory_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "not there" / "cache", tmp_path / "file"):
        with pytest.raises(penstock.SystemFailureError) as caught:
            penstock.Engine(memory="4MiB", cache=config.Cache(memory="1MiB", disk=path, disk_budget="8MiB"))
        assert caught.value.name == "CACHE_DIRECTORY_FAILED"


@pytest.mark.parametrize(
    "settings",
    [
        {"disk": "/tmp"},
        {"disk_budget": "1GiB"},
        {"disk": "/tmp", "disk_budget": 1},
        {"disk_save": -1},
        {"disk_timeout": 0},
    ],
    ids=str,
)
def test_settings_of_the_disk_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(penstock.ConfigurationError):
        config.Cache(**settings)  # type: ignore[arg-type]
