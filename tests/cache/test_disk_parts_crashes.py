"""Slices and a disk that is killed under, has no space, or hangs; and a fork. What comes is what the origin has."""

import asyncio
import os
import random
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.command import LISTENING, Running
from support.films import Film, film
from support.waiting import in_time

from .disk import Gateway, files, gateway, small_disk
from .disk_films import COUNT, PART, WHOLE, check, check_slice, file_of, honest, slicing, span, store
from .hanging import Hang

pytestmark = pytest.mark.filterwarnings("error")

ROUNDS = 20 if os.environ.get("PENSTOCK_LONG") == "1" else 3
CLIENTS = 6
LIMIT = 1.0
"""Seconds that a disk is waited for: more than one that does not hang takes on a busy machine."""
LARGE = 128 * 1024
LONG = film(size=96 * LARGE + 1000)
"""Three times as large as the memory of the process that is killed."""

PROGRAM = """
import asyncio, signal, sys
from aiohttp import web
from penstock import Engine, config
from penstock.web import Gateway, Site

async def main(origin, directory, size):
    disk = config.Cache(memory="4MiB", disk=directory, disk_budget="256MiB", disk_save=60)
    async with Engine(memory="32MiB", cache=disk) as engine:
        app = web.Application()
        films = config.Caching(range_fill="slices", slice=int(size))
        app.add_routes([Gateway(origin, engine=engine).native("/", caching=films)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = Site(runner, "127.0.0.1", 0, engine=engine)
        await site.start()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        print("listening on", site.name, file=sys.stderr, flush=True)
        await ended.wait()
        await runner.cleanup()

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def process(origin: ScriptedOrigin, directory: Path) -> AsyncIterator[Running]:
    """A gateway that can be killed."""
    arguments = (origin.url, str(directory), str(LARGE))
    running = Running(
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, *arguments, stderr=subprocess.PIPE
        )
    )
    try:
        running.url = (await running.wait_for(LISTENING))[1]
        yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
        await running.ended()


async def watch(running: Running, choose: random.Random, seen: list[int]) -> None:
    """Looks at one place after the other until the gateway is gone. What comes must be what the origin has."""
    client = await RawClient.connect(running.port)
    try:
        while True:
            first = choose.randrange(len(LONG))
            last = min(len(LONG) - 1, first + choose.randrange(3 * LARGE))
            reply = await client.ask("/film", f"Range: bytes={first}-{last}")
            assert reply.head.status == 206
            assert (reply.body == LONG[first : last + 1]) is True
            seen.append(first)
    except (ConnectionError, asyncio.IncompleteReadError):
        assert await running.process.wait() == -signal.SIGKILL
    finally:
        client.abort()


async def test_no_wrong_byte_of_a_film_is_served_after_kills(tmp_path: Path) -> None:
    script = Film(LONG)
    async with ScriptedOrigin(script) as origin:
        for number in range(ROUNDS):
            async with process(origin, tmp_path / "disk") as running:
                seen: list[int] = []
                watchers = [
                    asyncio.create_task(watch(running, random.Random(f"{number} {client}"), seen))
                    for client in range(CLIENTS)
                ]
                enough = random.Random(number).randrange(60, 200)
                async with asyncio.timeout(60):
                    while len(seen) < enough and not any(task.done() for task in watchers):
                        await asyncio.sleep(0)
                running.process.send_signal(signal.SIGKILL)
                await in_time(running.process.wait(), "the server has ended")
                await in_time(asyncio.gather(*watchers))
        assert files(tmp_path / "disk"), "something had left memory"
        before = len(script.requests)
        async with process(origin, tmp_path / "disk") as running:
            found = await stored(running, LONG, at_least=1)
            assert len(script.requests) == before
            client = await RawClient.connect(running.port)
            assert ((await in_time(client.ask("/film"))).body == LONG) is True
            assert len(script.requests) - before <= 97 - found
            client.abort()


async def stored(running: Running, body: bytes, *, at_least: int) -> int:
    """How many slices are found without the origin, once so many are."""
    async with asyncio.timeout(60):
        while True:
            found = 0
            for start in range(0, len(body), LARGE):
                # What is not stored is an error, behind which the connection ends.
                client = await RawClient.connect(running.port)
                wanted = f"Range: bytes={start}-{start + 99}"
                reply = await client.ask("/film", "Cache-Control: only-if-cached", wanted)
                client.abort()
                if reply.head.status == 206:
                    assert reply.body == body[start : start + 100]
                    found += 1
            if found >= at_least:
                return found


async def test_an_orderly_end_keeps_all_slices(tmp_path: Path) -> None:
    script = honest()
    slices = -(-len(WHOLE) // LARGE)
    async with ScriptedOrigin(script) as origin:
        for is_first in (True, False):
            async with process(origin, tmp_path / "disk") as running:
                if not is_first:
                    assert await stored(running, WHOLE, at_least=slices) == slices
                client = await RawClient.connect(running.port)
                assert ((await in_time(client.ask("/film"))).body == WHOLE) is True
                client.abort()
                running.process.send_signal(signal.SIGTERM)
                assert await running.ended() == 0
            assert len(files(tmp_path / "disk")) == len(script.requests) == slices


async def test_slices_that_the_system_refuses_to_write_leave_memory_at_work(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a disk without space."""
    script = Film(LONG)
    async with ScriptedOrigin(script) as origin:
        async with process(origin, tmp_path / "disk") as running:
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (LARGE // 2, LARGE // 2))
            client = await RawClient.connect(running.port)
            for _ in range(2):
                assert ((await in_time(client.ask("/film"))).body == LONG) is True
            client.abort()
            await running.wait_for(re.compile("CACHE_DIRECTORY_FAILED"))
        assert not [path for path in files(tmp_path / "disk") if path.stat().st_size > LARGE]
        assert not list((tmp_path / "disk" / "unfinished").iterdir())


async def test_a_full_disk_costs_the_slices_that_it_does_not_take(tmp_path: Path) -> None:
    script = Film(LONG)
    async with small_disk(tmp_path / "small", "4m"), ScriptedOrigin(script) as origin:
        filler = tmp_path / "small" / "filler"
        async with slicing(origin, tmp_path / "small" / "disk", LARGE, save=0) as here:
            filler.write_bytes(bytes(3 << 20))
            await watched(here)
            assert here.disk.failed > 0
            written = here.disk.written
            filler.unlink()
            async with asyncio.timeout(60):
                while here.disk.written == written:
                    await watched(here)
            await watched(here)
            assert here.disk.damaged == 0


async def watched(here: Gateway) -> None:
    for number in range(-(-len(LONG) // LARGE)):
        await check_slice(here, number, LARGE, LONG)
        await here.settle()


def hang(directory: Path, *numbers: int) -> Hang:
    """An opening of a file of these slices waits."""
    return Hang(*[file_of(directory, number) for number in numbers])


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 2, 3), tuple(range(COUNT))], ids=str)
async def test_the_origin_is_asked_for_slices_that_a_disk_keeps(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk", timeout=LIMIT, save=0) as here:
            held = hang(tmp_path / "disk", *numbers)
            await check(here)
            asked = script.ranges[COUNT:]
            # Behind the first that it keeps it is not asked again, but for one request now and then.
            assert set(asked) >= {span(numbers[0])}
            assert here.disk.timeouts > 0
            await check(here)
            # What has come is in memory.
            assert len(set(script.ranges[COUNT:])) == len(script.ranges[COUNT:])
            held.let_go()


async def test_a_slice_whose_file_hangs_is_fetched_and_the_others_are_read(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk", timeout=LIMIT) as here:
            held = hang(tmp_path / "disk", 2)
            await check_slice(here, 2)
            assert (here.disk.hanging, here.disk.timeouts) == (False, 1)
            assert script.ranges[COUNT:] in ([span(2)], [f"{2 * PART}-{3 * PART - 1}"])
            await check_slice(here, 4)
            await check(here)
            assert len(script.requests) == COUNT + 1
            assert here.disk.hits == COUNT
            held.let_go()


async def test_a_crowd_before_a_disk_that_hangs_asks_the_origin_once(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        async with slicing(origin, tmp_path / "disk", timeout=LIMIT, threads=3) as here:
            held = hang(tmp_path / "disk", *range(COUNT))
            clients = [await here.edges.connect(here.served) for _ in range(10)]
            replies = await asyncio.gather(*(in_time(client.ask("/film")) for client in clients))
            assert [reply.body == WHOLE for reply in replies] == [True] * 10
            assert sorted(map(str, script.ranges[COUNT:])) == sorted(map(str, map(span, range(COUNT))))
            held.let_go()


async def test_the_origin_is_asked_for_ranges_that_a_disk_keeps(tmp_path: Path) -> None:
    script = honest()
    wanted = f"Range: bytes=0-{3 * PART - 1}"
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            for number in range(3):
                await check_slice(here, number)
        async with gateway(origin, tmp_path / "disk", range_fill="asked", timeout=LIMIT, threads=3) as here:
            held = hang(tmp_path / "disk", 1)
            assert ((await here.ask("/film", wanted)).body == WHOLE[: 3 * PART]) is True
            assert script.ranges[3:] == [span(1)]
            clients = [await here.edges.connect(here.served) for _ in range(10)]
            replies = await asyncio.gather(*(in_time(client.ask("/film", wanted)) for client in clients))
            assert [reply.body == WHOLE[: 3 * PART] for reply in replies] == [True] * 10
            held.let_go()
            assert ((await here.ask("/film", wanted)).body == WHOLE[: 3 * PART]) is True


FORKING = """
import asyncio, os, sys
import penstock
from penstock import config

SLICED = config.Caching(range_fill="slices", slice=int(sys.argv[3]))

def engine():
    disk = config.Cache(memory="8MiB", disk=sys.argv[1], disk_budget="64MiB", disk_save=60)
    return penstock.Engine(memory="32MiB", cache=disk)

async def read(engine):
    async with engine.get(sys.argv[2], caching=SLICED) as response:
        return await response.bytes()

async def main():
    async with engine() as first:
        await read(first)
    async with engine() as second:
        while not second.cache.disk_stats().ready:
            await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            second.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        body = await read(second)
        stats = second.cache.disk_stats()
        sys.stdout.buffer.write(b"%d %d\\n" % (stats.objects, stats.hits) + body)

asyncio.run(main())
"""


async def test_a_parent_keeps_its_slices_when_its_child_ends(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        arguments = (str(tmp_path / "disk"), f"{origin.url}/film", str(PART))
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "ignore", "-c", FORKING, *arguments), stdout=subprocess.PIPE
        )
        said, _ = await in_time(running.communicate())
        counts, _, body = said.partition(b"\n")
        assert counts == b"%d %d" % (COUNT, COUNT)
        assert (body == WHOLE) is True
        assert len(script.requests) == COUNT
    assert len(files(tmp_path / "disk")) == COUNT
