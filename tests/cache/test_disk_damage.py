"""What happened to the files while no process used them: a damaged one is dropped, and never served."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.waiting import in_time, until

from .disk import BLOCK, HEAD, SIZE, Library, body, files, flip, gateway

BLOCKS = -(-SIZE // BLOCK)
SUMS = HEAD + SIZE
WHOLE = SUMS + 8 * BLOCKS

IN_THE_HEAD = (0, 7, 8, 16, 24, 32, 40, 48, 56, 63, 64, 100, 300, HEAD - 1)
IN_THE_FIRST_BLOCK = (HEAD, HEAD + 1000, HEAD + BLOCK - 1, SUMS, SUMS + 7)
BEHIND = (HEAD + BLOCK, HEAD + 2 * BLOCK + 5, HEAD + SIZE - 1, SUMS + 8, WHOLE - 1)


async def what_came(client: RawClient) -> bytes:
    """Of the body of `/0`, before the response was broken off or had ended."""
    await client.get("/0")
    try:
        head = await in_time(client.head())
        assert (head.status, head.one("Content-Length")) == (200, str(SIZE))
        return bytes(await in_time(client.body(head)))
    except asyncio.IncompleteReadError as broken_off:
        return broken_off.partial
    except ConnectionResetError:
        # It may overtake the head as well.
        return b""


async def one_file(origin: ScriptedOrigin, directory: Path) -> Path:
    """The file of `/0`, of an engine that has ended."""
    async with gateway(origin, directory) as here:
        assert (await here.ask("/0")).body == body("/0")
    [path] = files(directory)
    assert path.stat().st_size == WHOLE
    return path


async def test_a_head_with_a_bit_flipped_is_dropped_at_the_start(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        for number, place in enumerate(IN_THE_HEAD, 1):
            flip(await one_file(origin, tmp_path / "disk"), place)
            async with gateway(origin, tmp_path / "disk", save=0) as here:
                assert (here.disk.objects, here.disk.damaged) == (0, 1), f"byte {place}"
                await until(lambda: not files(tmp_path / "disk"), "its file is removed")
                assert (await here.ask("/0")).body == body("/0")
            assert library.asked["/0"] == 2 * number, f"byte {place}"


async def test_damage_of_what_is_sent_first_is_not_seen_by_anybody(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        for number, place in enumerate(IN_THE_FIRST_BLOCK, 1):
            flip(await one_file(origin, tmp_path / "disk"), place)
            async with gateway(origin, tmp_path / "disk", save=0) as here:
                reply = await here.ask("/0")
                assert (reply.head.status, reply.body) == (200, body("/0")), f"byte {place}"
                assert here.disk.damaged == 1
                await until(lambda: not files(tmp_path / "disk"), "its file is removed")
            assert library.asked["/0"] == 2 * number, f"byte {place}"


@pytest.mark.parametrize("way", ["from its file", "by way of memory"])
async def test_damage_in_the_body_is_never_served_and_the_origin_is_asked_instead(
    tmp_path: Path, way: str
) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        for number, place in enumerate(BEHIND, 1):
            flip(await one_file(origin, tmp_path / "disk"), place)
            async with gateway(origin, tmp_path / "disk", save=0) as here:
                if way == "by way of memory":
                    assert (await here.ask("/0", "Range: bytes=0-9")).body == body("/0")[:10]
                # Where the damage was read before the head had left, it is whole: the origin has been asked already.
                assert body("/0").startswith(await what_came(here.client)), f"byte {place}"
                await here.reconnect()
                assert (await here.ask("/0")).body == body("/0"), f"byte {place}"
                assert here.disk.damaged == 1
            assert library.asked["/0"] == 2 * number, f"byte {place}"


async def test_files_that_are_cut_or_longer_are_dropped(tmp_path: Path) -> None:
    library = Library()
    lengths = (0, 1, 63, 64, HEAD - 1, HEAD, HEAD + BLOCK, SUMS - 1, SUMS, WHOLE - 1, WHOLE + 1)
    async with ScriptedOrigin(library) as origin:
        for number, length in enumerate(lengths, 1):
            path = await one_file(origin, tmp_path / "disk")
            os.truncate(path, length)
            async with gateway(origin, tmp_path / "disk", save=0) as here:
                assert (here.disk.objects, here.disk.damaged) == (0, 1), f"{length} bytes"
                assert (await here.ask("/0")).body == body("/0")
            assert library.asked["/0"] == 2 * number, f"{length} bytes"


@pytest.mark.parametrize("how", ["cut", "removed", "zeroed"])
async def test_what_happens_to_a_file_in_operation_is_found_as_well(tmp_path: Path, how: str) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        path = await one_file(origin, tmp_path / "disk")
        async with gateway(origin, tmp_path / "disk", save=0) as here:
            if how == "cut":
                os.truncate(path, HEAD + 100)
            elif how == "removed":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:HEAD] + bytes(WHOLE - HEAD))
            assert (await here.ask("/0")).body == body("/0")
        assert library.asked["/0"] == 2


async def test_a_file_under_the_name_of_another_is_dropped(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        async with gateway(origin, tmp_path / "disk") as here:
            await here.fill(2)
        first, second = files(tmp_path / "disk")
        shutil.copy(first, second)
        async with gateway(origin, tmp_path / "disk") as here:
            assert (here.disk.objects, here.disk.damaged) == (1, 1)
            await here.check(2)


async def test_leftovers_of_a_crash_are_removed_and_what_is_not_of_the_cache_stays(tmp_path: Path) -> None:
    library = Library()
    async with ScriptedOrigin(library) as origin:
        path = await one_file(origin, tmp_path / "disk")
        leftover = tmp_path / "disk" / "unfinished" / path.name
        shutil.copy(path, leftover)
        foreign = path.parent / "lost+found"
        foreign.write_text("not ours")
        async with gateway(origin, tmp_path / "disk") as here:
            await here.check(1)
        assert not leftover.exists()
        assert foreign.exists()
        assert library.asked["/0"] == 1
