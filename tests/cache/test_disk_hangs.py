"""A disk that hangs: the file of a stored response is a pipe, which opens for nobody while it has no other end."""

import os
from pathlib import Path

import pytest

import penstock
from conftest import until
from edge.serving import in_time
from penstock import config
from penstock.testing import ScriptedOrigin

from .disk import Library, body, files, gateway

LIMIT = 0.2
"""Seconds that the disk is waited for. Arbitrary."""


class Pipe:
    """Stands in the place of a file until `let_go`. It has a name of its own, because the cache removes the other."""

    def __init__(self, path: Path, own: Path) -> None:
        self.own = own
        os.mkfifo(own)
        path.unlink()
        os.link(own, path)

    def let_go(self) -> None:
        """Whoever waits for the other end goes on, and finds no file."""
        os.close(os.open(self.own, os.O_RDWR | os.O_NONBLOCK))


def pipes(directory: Path, *holding: str) -> list[Pipe]:
    """In the place of each file that holds one of these URLs, or of all."""
    texts = [url.encode() for url in holding] or [b""]
    found = [path for path in files(directory) if any(text in path.read_bytes()[:4096] for text in texts)]
    return [Pipe(path, directory / f"pipe-{number}") for number, path in enumerate(found)]


async def store(origin: ScriptedOrigin, directory: Path, count: int) -> None:
    """Have an engine, which has ended then, keep the first `count` objects on disk."""
    async with gateway(origin, directory) as here:
        await here.fill(count)


async def test_the_origin_is_asked_in_place_of_a_disk_that_hangs(tmp_path: Path) -> None:
    library, count = Library(), 10
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", count)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT, save=0) as here:
            held = pipes(tmp_path / "disk")
            await here.check(count)
            assert set(library.asked.values()) == {2}
            assert here.disk.hanging
            assert 1 <= here.disk.timeouts < count, "not each request asks it"
            # What has come is in memory.
            await here.check(count)
            assert set(library.asked.values()) == {2}
            for pipe in held:
                pipe.let_go()


async def test_a_disk_that_answers_again_is_used_again(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 3)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            (pipe,) = pipes(tmp_path / "disk", f"{origin.url}/0")
            assert (await here.ask("/0")).body == body("/0")
            assert (here.disk.hanging, here.disk.timeouts) == (True, 1)
            pipe.let_go()
            await until(lambda: not here.disk.hanging, "the disk has answered")
            await here.check(3)
            assert library.asked == {"/0": 2, "/1": 1, "/2": 1}
            assert here.disk.hits == 2


async def test_a_crowd_that_waits_for_the_disk_asks_the_origin_once(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 1)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            (pipe,) = pipes(tmp_path / "disk")
            clients = [await here.edges.connect(here.served) for _ in range(10)]
            for client in clients:
                await client.get("/0")
            for client in clients:
                assert await in_time(client.body(await in_time(client.head()))) == body("/0")
            assert library.asked == {"/0": 2}
            pipe.let_go()


async def test_an_engine_ends_while_its_disk_hangs_in_a_reading(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 1)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            (pipe,) = pipes(tmp_path / "disk")
            assert (await here.ask("/0")).body == body("/0")
            await here.edges.close()
            await in_time(here.engine.aclose())
        # Who writes has ended, and has written nothing: the next one may have the directory.
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT) as here:
            assert (await here.ask("/0")).body == body("/0")
            assert library.asked == {"/0": 3}
        pipe.let_go()


async def test_an_engine_ends_while_its_disk_hangs_in_a_writing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        await store(origin, tmp_path / "disk", 1)
        async with gateway(origin, tmp_path / "disk", timeout=LIMIT, save=LIMIT) as here:
            (pipe,) = pipes(tmp_path / "disk")
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
            pipe.let_go()
