"""Kills in the middle of fills, and disks without space. Twenty kills with PENSTOCK_LONG=1, three otherwise."""

import asyncio
import os
import random
import re
import resource
import signal
import subprocess
from pathlib import Path

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.command import COMMAND, Running, serve
from support.waiting import in_time, until

from .disk import SIZE, Library, body, files, gateway, small_disk

ROUNDS = 20 if os.environ.get("PENSTOCK_LONG") == "1" else 3
OBJECTS = 60
CLIENTS = 6


def options(origin: ScriptedOrigin, directory: Path, size: str = "256MiB") -> tuple[str, ...]:
    disk = ("--cache-disk", str(directory), "--cache-disk-size", size)
    return ("--origin", origin.url, "--memory", "32MiB", "--cache", "4MiB", *disk)


async def watch(running: Running, choose: random.Random, whole: list[str]) -> None:
    """Asks for one thing after the other until the gateway is gone. What ends well must be what the origin has."""
    client = await RawClient.connect(running.port)
    try:
        while True:
            target = f"/{choose.randrange(OBJECTS)}"
            reply = await client.ask(target)
            assert reply.body == body(target), target
            whole.append(target)
    except (ConnectionError, asyncio.IncompleteReadError):
        assert await running.process.wait() == -signal.SIGKILL
    finally:
        client.abort()


async def test_nothing_damaged_is_served_after_kills_in_the_middle_of_fills(tmp_path: Path) -> None:
    directory, library = tmp_path / "disk", Library()
    async with ScriptedOrigin(library) as origin:
        for number in range(ROUNDS):
            choose = random.Random(number)
            async with serve(*options(origin, directory)) as running:
                whole: list[str] = []
                watchers = [
                    asyncio.create_task(watch(running, random.Random(f"{number} {client}"), whole))
                    for client in range(CLIENTS)
                ]
                enough = choose.randrange(60, 200)
                async with asyncio.timeout(60):
                    while len(whole) < enough and not any(task.done() for task in watchers):
                        await asyncio.sleep(0)
                running.process.send_signal(signal.SIGKILL)
                await in_time(running.process.wait(), "the server has ended")
                await in_time(asyncio.gather(*watchers))
        assert files(directory), "something had left memory"
        before = library.asked.total()
        async with serve(*options(origin, directory)) as running:
            found = await stored(running)
            assert before == library.asked.total()
            client = await RawClient.connect(running.port)
            for target in found:
                assert (await in_time(client.ask(target))).body == body(target)
            client.abort()


async def stored(running: Running) -> list[str]:
    """What is found without the origin, once anything is."""
    async with asyncio.timeout(20):
        while True:
            found = []
            for number in range(OBJECTS):
                # What is not stored is an error, behind which the connection ends.
                client = await RawClient.connect(running.port)
                reply = await client.ask(f"/{number}", "Cache-Control: only-if-cached")
                client.abort()
                if reply.head.status == 200:
                    assert reply.body == body(f"/{number}")
                    found.append(f"/{number}")
            if found:
                return found


async def test_an_orderly_end_keeps_all_and_a_second_process_is_told(tmp_path: Path) -> None:
    directory, library = tmp_path / "disk", Library()
    async with ScriptedOrigin(library) as origin:
        async with serve(*options(origin, directory)) as running:
            client = await RawClient.connect(running.port)
            for number in range(5):
                assert (await in_time(client.ask(f"/{number}"))).body == body(f"/{number}")
            client.abort()
            second = await asyncio.create_subprocess_exec(
                *(*COMMAND, "serve", "--listen", "127.0.0.1:0", *options(origin, directory)),
                stderr=subprocess.PIPE,
            )
            _, said = await in_time(second.communicate())
            assert second.returncode == 1
            assert b"CACHE_DIRECTORY_TAKEN" in said
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
        assert len(files(directory)) == 5


async def test_writes_that_the_system_refuses_leave_memory_at_work(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a disk without space."""
    directory, library = tmp_path / "disk", Library()
    async with ScriptedOrigin(library) as origin, serve(*options(origin, directory)) as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (SIZE // 2, SIZE // 2))
        client = await RawClient.connect(running.port)
        for _ in range(2):
            for number in range(OBJECTS):
                assert (await in_time(client.ask(f"/{number}"))).body == body(f"/{number}")
        client.abort()
        await running.wait_for(re.compile("CACHE_DIRECTORY_FAILED"))
        assert "what leaves memory is not kept for now" in running.log()
        assert not files(directory)
        assert not list((directory / "unfinished").iterdir())


async def test_a_full_disk_degrades_to_memory_until_there_is_space(tmp_path: Path) -> None:
    library = Library()
    async with small_disk(tmp_path / "small", "4m"), ScriptedOrigin(library) as origin:
        filler = tmp_path / "small" / "filler"
        async with gateway(origin, tmp_path / "small" / "disk", save=0) as here:
            filler.write_bytes(bytes(3 << 20))
            await here.fill()
            assert here.disk.failed > 0
            assert here.disk.skipped > 0, "it is not asked for each object"
            await here.check()
            written = here.disk.written
            filler.unlink()
            number = 1000
            async with asyncio.timeout(60):
                while here.disk.written == written:
                    assert (await here.ask(f"/{number}")).body == body(f"/{number}")
                    number += 1
            await here.check()
            assert here.disk.damaged == 0


async def test_a_budget_that_holds_no_object_is_as_no_disk(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk", budget=SIZE) as here:
            await here.fill()
            await until(lambda: here.disk.skipped > 0, "what left memory was not written")
            await here.check()
            assert (here.disk.written, here.disk.failed) == (0, 0)
        assert not files(tmp_path / "disk")
