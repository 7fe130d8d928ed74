"""A disk that hangs, and a file that does."""

import asyncio
import os
from pathlib import Path

import pytest

import penstock
from penstock import config
from penstock.testing import ScriptedOrigin
from support.waiting import in_time, until

from .disk import Library, body, files, gateway
from .hanging import Hang, holding

LIMIT = 0.2
"""Seconds that the disk is waited for. Arbitrary."""


async def store(origin: ScriptedOrigin, directory: Path, count: int) -> None:
    """Have an engine, which has ended then, keep the first `count` objects on disk."""
    async with gateway(origin, directory) as here:
        await here.fill(count)


async def test_the_origin_is_asked_in_place_of_a_disk_that_hangs(tmp_path: Path) -> None:
    library, count = Library(), 10
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", count)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT, save=0) as here:
            hang = Hang(*files(tmp_path / "disk"))
            await here.check(count)
            assert set(library.asked.values()) == {2}
            assert here.disk.hanging
            assert 1 <= here.disk.timeouts < count, "not each request asks it"
            # What has come is in memory.
            await here.check(count)
            assert set(library.asked.values()) == {2}
            hang.let_go()


async def test_a_disk_that_answers_again_is_used_again(tmp_path: Path) -> None:
    library, count = Library(), 10
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", count)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            hang = Hang(*files(tmp_path / "disk"))
            await here.check(6)
            assert here.disk.hanging
            hang.let_go()
            await until(lambda: not here.disk.hanging, "the disk has answered")
            await here.check(count)
            for number in range(6, count):
                assert library.asked[f"/{number}"] == 1, "it is still there"
            assert here.disk.hits >= count - 6


async def test_a_file_that_hangs_does_not_switch_the_disk_off(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 3)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            hang = Hang(*holding(tmp_path / "disk", f"{origin.url}/0"))
            await here.check(3)
            assert (here.disk.hanging, here.disk.timeouts) == (False, 1)
            assert library.asked == {"/0": 2, "/1": 1, "/2": 1}
            assert here.disk.hits == 2
            # Nor is it waited for at the end, though all that memory holds is written.
            await here.edges.close()
            await in_time(here.engine.aclose())
            hang.let_go()
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            await here.check(3)
            assert library.asked == {"/0": 2, "/1": 1, "/2": 1}, "all of it was kept"


async def test_a_crowd_that_waits_for_a_file_that_hangs_asks_the_origin_once(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 2)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            hang = Hang(*holding(tmp_path / "disk", f"{origin.url}/0"))
            clients = [await here.edges.connect(here.served) for _ in range(10)]
            for client in clients:
                await client.get("/0")
            for client in clients:
                assert await in_time(client.body(await in_time(client.head()))) == body("/0")
            assert not here.disk.hanging
            await here.check(2)
            assert library.asked == {"/0": 2, "/1": 1}
            hang.let_go()


async def test_a_file_that_hangs_at_the_start_keeps_neither_the_rest_nor_the_end(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 3)
        hang = Hang(*holding(tmp_path / "disk", f"{origin.url}/0"))
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            await here.check(3)
            assert library.asked == {"/0": 2, "/1": 1, "/2": 1}
            await here.edges.close()
            await in_time(here.engine.aclose())
        hang.let_go()


async def test_a_file_that_is_not_regular_is_ignored_and_delays_nothing(tmp_path: Path) -> None:
    library, directory = Library(), tmp_path / "disk"
    async with ScriptedOrigin(library) as origin:
        await store(origin, directory, 5)
        pipe, link, device, later, _whole = (
            holding(directory, f"{origin.url}/{number}")[0] for number in range(5)
        )
        for path in (pipe, link, device):
            path.unlink()
        os.mkfifo(pipe)
        link.symlink_to(later)
        device.symlink_to("/dev/zero")
        async with gateway(origin, directory) as here:
            later.unlink()
            os.mkfifo(later)
            await here.check(5)
            assert library.asked == {"/0": 2, "/1": 2, "/2": 2, "/3": 2, "/4": 1}
            assert (here.disk.hanging, here.disk.timeouts) == (False, 0)
            assert pipe.is_fifo()
            assert link.is_symlink()
            assert device.is_symlink()
            await here.edges.close()
            await in_time(here.engine.aclose())


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
async def test_what_is_on_disk_is_for_its_user_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        async with ScriptedOrigin(Library()) as origin:
            await store(origin, tmp_path / "disk", 1)
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o7777 for path in (tmp_path / "disk").rglob("*")}
    modes[tmp_path / "disk"] = (tmp_path / "disk").stat().st_mode & 0o7777
    assert len(files(tmp_path / "disk")) == 1
    for path, mode in modes.items():
        assert mode & 0o077 == 0, path
        if path.name != "lock":
            assert mode == (0o700 if path.is_dir() else 0o600), path


async def test_an_engine_ends_while_its_disk_hangs_in_a_reading(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 1)
        async with gateway(origin, tmp_path / "disk", timeout=60) as here:
            hang = Hang(*files(tmp_path / "disk"))
            await here.client.get("/0")
            await asyncio.to_thread(hang.wait)
            await here.edges.close()
            await in_time(here.engine.aclose())
        hang.let_go()
        # Who writes has ended, and has written nothing: the next one may have the directory.
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            assert (await here.ask("/0")).body == body("/0")
            assert library.asked == {"/0": 1}


async def test_an_engine_ends_while_its_disk_hangs_in_a_writing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 1)
        # What is left to write has a minute; a disk that gets nothing done has not.
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT, save=60) as here:
            hang = Hang(*files(tmp_path / "disk"))
            assert here.engine.cache is not None
            assert here.engine.cache.purge(prefix=origin.url, soft=True) == 1
            await here.edges.close()
            await in_time(here.engine.aclose())
            assert "disk hangs" in caplog.text
            with pytest.raises(penstock.SystemFailureError) as caught:
                penstock.Engine(
                    memory="4MiB",
                    cache=config.Cache(memory="1MiB", disk=tmp_path / "disk", disk_budget="8MiB"),
                )
            assert caught.value.name == "CACHE_DIRECTORY_TAKEN"
            hang.let_go()
