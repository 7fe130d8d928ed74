"""Slices whose files are damaged, cut, gone, or of another version: no byte of them is served, and the origin is asked
for those slices alone."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.films import Film, film
from support.waiting import in_time, until

from .disk import BLOCK, HEAD, Gateway, files, flip, gateway
from .disk_films import COUNT, PART, WHOLE, check, check_slice, file_of, honest, slicing, span, store

pytestmark = pytest.mark.filterwarnings("error")


def at(place: int) -> Callable[[Path], None]:
    """A bit is flipped there, counted from the end of the file where that is less than zero."""
    return lambda path: flip(path, place % path.stat().st_size)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def of_another(path: Path) -> None:
    """The file of another slice, under its name."""
    other = next(other for other in files(path.parent.parent) if other != path)
    shutil.copy(other, path)


def zeroed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:HEAD] + bytes(path.stat().st_size - HEAD))


def behind_the_first_block(path: Path) -> None:
    flip(path, HEAD + min(BLOCK + 1, path.stat().st_size - HEAD - 1))


BEFORE_THE_START = {
    "its version": at(8),
    "what is known of it": at(100),
    "its first byte": at(HEAD),
    "behind its first block": behind_the_first_block,
    "the last of its sums": at(-1),
    "cut": cut,
    "another slice": of_another,
    "gone": Path.unlink,
}
IN_OPERATION = {
    "zeroed": zeroed,
    "behind its first block": behind_the_first_block,
    "cut": cut,
    "gone": Path.unlink,
}


async def what_came(here: Gateway, *fields: str) -> bytes:
    """Of the film, before the response was broken off or had ended."""
    await here.client.get("/film", *fields)
    try:
        head = await in_time(here.client.head())
    except (asyncio.IncompleteReadError, ConnectionResetError):
        # It may overtake the head as well.
        return b""
    assert head.one("ETag") in {'"1"', 'W/"1"'}
    try:
        return bytes(await in_time(here.client.body(head)))
    except asyncio.IncompleteReadError as broken_off:
        return broken_off.partial
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("what", BEFORE_THE_START)
async def test_a_slice_that_was_damaged_is_fetched_alone(tmp_path: Path, what: str) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "kept")
        for number in range(COUNT):
            directory = tmp_path / str(number)
            shutil.copytree(tmp_path / "kept", directory)
            BEFORE_THE_START[what](file_of(directory, number))
            async with slicing(origin, directory, threads=1 + number % 2 * 2) as here:
                for _ in range(2):
                    await check(here)
                assert script.ranges[COUNT:] == [span(number)], f"slice {number}"
                assert script.requests[-1].get("If-Range") == '"1"'
                assert here.disk.damaged == (what != "gone")
            assert len(files(directory)) == COUNT, "what was fetched in its place is kept"
            del script.requests[COUNT:]


@pytest.mark.parametrize("what", IN_OPERATION)
async def test_a_slice_that_is_damaged_in_operation_is_fetched_alone(tmp_path: Path, what: str) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "kept")
        for number in range(COUNT):
            directory = tmp_path / str(number)
            shutil.copytree(tmp_path / "kept", directory)
            async with slicing(origin, directory) as here:
                if number % 2:
                    # It is on its way back into memory when the damage is found.
                    await check_slice(here, number)
                IN_OPERATION[what](file_of(directory, number))
                for _ in range(2):
                    await check(here)
                assert script.ranges[COUNT:] == [span(number)], f"slice {number}"
                assert here.disk.damaged == 1
            del script.requests[COUNT:]


async def test_a_crowd_that_reads_a_damaged_slice_has_it_fetched_once(tmp_path: Path) -> None:
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        behind_the_first_block(file_of(tmp_path / "disk", 2))
        async with slicing(origin, tmp_path / "disk", threads=3) as here:
            clients = [await here.edges.connect(here.served) for _ in range(20)]
            replies = await asyncio.gather(*(in_time(client.ask("/film")) for client in clients))
            assert [reply.body == WHOLE for reply in replies] == [True] * 20
            assert script.ranges[COUNT:] == [span(2)]


@pytest.mark.parametrize("what", BEFORE_THE_START)
async def test_a_range_that_was_damaged_is_fetched_alone(tmp_path: Path, what: str) -> None:
    """What was stored as it was asked for is read part by part as well."""
    script = honest()
    wanted = f"Range: bytes=0-{3 * PART - 1}"
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "kept", range_fill="asked") as here:
            for number in range(3):
                await check_slice(here, number)
        for number in range(3):
            directory = tmp_path / str(number)
            shutil.copytree(tmp_path / "kept", directory)
            BEFORE_THE_START[what](file_of(directory, number))
            async with gateway(origin, directory, range_fill="asked") as here:
                for _ in range(2):
                    assert ((await here.ask("/film", wanted)).body == WHOLE[: 3 * PART]) is True
                assert here.disk.damaged == (what != "gone")
            # What was sent before the damage was found is asked for when it is next wanted.
            asked = sorted([int(place) for place in (text or "").split("-")] for text in script.ranges[3:])
            assert sum(last + 1 - first for first, last in asked) == PART
            assert (asked[0][0], asked[-1][1]) == (number * PART, (number + 1) * PART - 1)
            assert {request.get("If-Range") for request in script.requests[3:]} == {'"1"'}
            del script.requests[3:]


async def test_a_range_without_a_strong_entity_tag_is_broken_off_where_it_is_damaged(tmp_path: Path) -> None:
    """Nothing that is fetched could be told to go with what was sent."""
    script = Film(WHOLE, 'W/"1"')
    wanted = f"Range: bytes=0-{3 * PART - 1}"
    async with ScriptedOrigin(script) as origin:
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            assert ((await here.ask("/film", wanted)).body == WHOLE[: 3 * PART]) is True
        flip(files(tmp_path / "disk")[0], HEAD + 2 * PART)
        async with gateway(origin, tmp_path / "disk", range_fill="asked") as here:
            # Where the damage was read before the head had left, it is whole.
            assert WHOLE[: 3 * PART].startswith(await what_came(here, wanted))
            await here.reconnect()
            assert ((await here.ask("/film", wanted)).body == WHOLE[: 3 * PART]) is True
            assert len(script.requests) == 2


async def test_slices_of_two_versions_on_disk_are_never_one_film(tmp_path: Path) -> None:
    """The older ones are there again, as after a kill before they were removed."""
    new = film(2, len(WHOLE))
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        shutil.copytree(tmp_path / "disk", tmp_path / "old")
        script.body, script.tag = new, '"2"'
        async with slicing(origin, tmp_path / "disk") as here:
            assert here.engine.cache is not None
            here.engine.cache.clear()
            for number in (1, 4):
                await check_slice(here, number, body=new)
        for path in files(tmp_path / "old"):
            shutil.copy(path, tmp_path / "disk" / path.parent.name)
        assert len(files(tmp_path / "disk")) == COUNT + 2
        before = len(script.requests)
        async with slicing(origin, tmp_path / "disk", threads=3) as here:
            assert (here.disk.objects, here.disk.damaged) == (2, 0)
            await until(lambda: len(files(tmp_path / "disk")) == 2, "the old ones are removed")
            await check(here, new)
        assert script.ranges[before:] == [span(number) for number in (0, 2, 3, 5)]


async def test_a_file_that_is_there_twice_is_kept_once(tmp_path: Path) -> None:
    """Two files of one slice: of what was fetched before it had been found, and was written as well."""
    script = honest()
    async with ScriptedOrigin(script) as origin:
        await store(origin, tmp_path / "disk")
        shutil.copytree(tmp_path / "disk", tmp_path / "first")
        async with slicing(origin, tmp_path / "disk") as here:
            assert here.engine.cache is not None
            here.engine.cache.clear()
            await check_slice(here, 2)
        for path in files(tmp_path / "first"):
            shutil.copy(path, tmp_path / "disk" / path.parent.name)
        assert len(files(tmp_path / "disk")) == COUNT + 1
        async with slicing(origin, tmp_path / "disk") as here:
            assert (here.disk.objects, here.disk.damaged) == (COUNT, 0)
            await until(lambda: len(files(tmp_path / "disk")) == COUNT, "the other one is removed")
            await check(here)
        assert len(script.requests) == COUNT + 1


async def test_a_new_version_takes_the_place_of_the_slices_on_disk(tmp_path: Path) -> None:
    """A client that has begun to read the old one is broken off; no other client sees a byte of it."""
    new = film(2, len(WHOLE) + 5000)
    script = honest()
    async with ScriptedOrigin(script) as origin:
        async with slicing(origin, tmp_path / "disk") as here:
            for number in range(3):
                await check_slice(here, number)
        script.body, script.tag = new, '"2"'
        async with slicing(origin, tmp_path / "disk") as here:
            came = await what_came(here)
            assert WHOLE.startswith(came)
            assert len(came) < len(WHOLE)
            assert script.requests[-1].get("If-Range") == '"1"'
            await here.reconnect()
            await check(here, new)
            assert here.disk.objects == 0
            await until(lambda: not files(tmp_path / "disk"), "the old files are gone")
        async with slicing(origin, tmp_path / "disk") as here:
            # The origin's answer to what is not its version any more is all of the new one.
            assert here.disk.objects == len(files(tmp_path / "disk")) == 1
            before = len(script.requests)
            await check(here, new)
            assert len(script.requests) == before
