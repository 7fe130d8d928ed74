"""Workers that are killed and replaced while streams flow and requests come: what was decided never notices.

Two kills and two reloads by default, twelve of each with PENSTOCK_LONG=1. Counts alone: how long anything takes is
measured by `benchmarks/workers.py`.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path

import aiohttp
import pytest

from support.waiting import in_time, until

from .burning import SEGMENT, SEGMENTS, Fire, fire

ROUNDS = 12 if os.environ.get("PENSTOCK_LONG") == "1" else 2
STREAMS = 50


async def test_streams_and_safe_requests_notice_no_death(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(STREAMS)
        burning.begin_requests()
        await burning.answered()
        for number in range(ROUNDS):
            killed = burning.ready()[number % 2]
            os.kill(killed, signal.SIGKILL)
            await burning.logged(rf"process {killed}\) was killed by SIGKILL")
            await burning.answered()
            await burning.flowing()
            await burning.logged("is ready")
            burning.running.process.send_signal(signal.SIGHUP)
            await burning.logged(f"generation {number + 2} serves")
            await burning.answered()
            await burning.flowing()
        await until(lambda: burning.alive() == set(burning.ready()), "the others have ended")
        await burning.end_requests()
        posted = (directory / "posted").read_text().split()
        assert len(posted) == len(set(posted)), "none was repeated"
        assert burning.accepted <= set(posted) <= burning.accepted | burning.lost
    assert "Traceback" not in burning.running.log()


async def test_without_any_worker_streams_flow_and_requests_wait(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(STREAMS)
        (directory / "wait").touch()
        before = burning.alive()
        burning.kill_all()
        for _ in before:
            await burning.logged("was killed by SIGKILL")
        page, relayed = await burning.begin("/who"), await burning.begin("/relayed/segment")
        await until(lambda: len(burning.alive() - before) == 2, "others have been started")
        await burning.flowing()
        client = await burning.connect()
        assert (await client.ask("/stored/segment")).body == SEGMENT, "native routes need no worker"
        assert not page.done()
        assert not relayed.done()
        (directory / "wait").unlink()
        status, text = await page
        assert status == 200
        assert int(text.split()[0]) not in before
        assert (await relayed)[0] == 200
        await burning.flowing()


async def test_what_a_worker_has_read_of_dies_with_it_and_is_not_repeated(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/held", "Content-Length: 3", method="POST")
        await client.send(b"abc")
        await until(burning.held, "a worker has it")
        os.kill(burning.holding().pop(), signal.SIGKILL)
        head = await client.head()
        problem = json.loads(await client.body(head))
        assert (head.status, head.one("Content-Type")) == (502, "application/problem+json")
        assert problem["name"] == "WORKER_GONE"
        assert (await burning.ask("/who")).endswith("one")
        assert len(burning.held()) == 1, "it was not repeated"


async def test_a_relay_without_a_head_is_repeated(directory: Path) -> None:
    async with fire(directory) as burning:
        asked = await burning.begin("/relayed/slow")
        await until(lambda: len(burning.origin.slow) == 1, "the origin is asked")
        burning.kill_all()
        await until(lambda: len(burning.origin.slow) == 2, "the origin is asked anew")
        await burning.origin.slow[0].wait_left()
        burning.origin.go_on.set()
        assert await asked == (200, SEGMENT.decode())


async def test_a_body_under_way_comes_whole(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/relayed/long")
        head = await client.head()
        had = await client.reader.readexactly(len(SEGMENT))
        burning.kill_all()
        await burning.logged("was killed by SIGKILL")
        assert (
            had + await client.reader.readexactly(int(head.one("Content-Length")) - len(had))
            == SEGMENT * SEGMENTS
        )


async def test_half_an_upload_is_no_whole_one_and_is_not_repeated(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/relayed/upload", f"Content-Length: {len(SEGMENT) * SEGMENTS}", method="POST")
        await client.send(SEGMENT)
        await until(lambda: burning.origin.uploads, "the origin is asked")
        burning.kill_all()
        assert (await client.head()).status == 502
        (upload,) = burning.origin.uploads
        await upload.wait_left()
        assert upload.body_received < len(SEGMENT) * SEGMENTS
        assert (await burning.ask("/who")).endswith("one")
        assert len(burning.origin.uploads) == 1


async def test_half_an_answer_is_no_whole_one(directory: Path) -> None:
    async with fire(directory) as burning:
        client = await burning.connect()
        await client.get("/half")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"half"
        burning.kill_all()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.chunk()


async def test_the_end_of_a_stream_is_told_in_another_worker(directory: Path) -> None:
    async with fire(directory) as burning:
        await burning.begin_streams(1)
        before = burning.alive()
        burning.kill_all()
        await burning.flowing()
        for client in burning.clients:
            client.abort()
        told = directory / "told"
        await until(lambda: told.exists() and told.read_text().endswith("\n"), "it is told")
        pid, path, sent = told.read_text().split()
        assert int(pid) in burning.alive() - before
        assert path == "/relayed/events"
        assert int(sent) > 0


async def test_a_worker_that_stands_still_is_killed_and_others_answer(directory: Path) -> None:
    async with fire(directory, "--worker-hang", "1") as burning:
        await burning.begin_streams(STREAMS)
        asked = [await burning.hold() for _ in range(4)]
        stopped = min(burning.holding())
        had = len([path for path in burning.held() if path.name.endswith(f"-{stopped}")])
        os.kill(stopped, signal.SIGSTOP)
        await burning.logged(rf"process {stopped}\) hangs: its event loop has given no sign for")
        await burning.logged(rf"process {stopped}\) was killed by SIGKILL")
        await until(lambda: len(burning.held()) == 4 + had, "its requests are with other workers")
        await burning.logged("is ready")
        burning.release()
        for each in asked:
            status, text = await each
            assert status == 200, text
            assert int(text.split()[0]) != stopped
        await burning.flowing()


async def test_a_websocket_ends_with_its_worker(directory: Path) -> None:
    async with (
        fire(directory) as burning,
        aiohttp.ClientSession(burning.running.url) as session,
        session.ws_connect("/backwards") as socket,
    ):
        await socket.send_str("abc")
        assert await socket.receive_str() == "cba"
        burning.kill_all()
        message = await socket.receive(timeout=20)
        assert message.type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
        assert socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE


async def _stop_one(burning: Fire) -> None:
    os.kill(min(burning.alive()), signal.SIGSTOP)


async def _reload(burning: Fire) -> None:
    (burning.directory / "wait").touch()
    burning.running.process.send_signal(signal.SIGHUP)
    await until(lambda: len(burning.alive()) == 4, "the new ones start")


async def _load(burning: Fire) -> None:
    await burning.begin_streams(STREAMS)
    await burning.hold()


@pytest.mark.parametrize("state", [_stop_one, _reload, _load])
async def test_no_worker_outlives_its_parent(
    directory: Path, state: Callable[[Fire], Coroutine[object, object, None]]
) -> None:
    async with fire(directory) as burning:
        await state(burning)
        assert len(burning.alive()) >= 2
        burning.running.process.kill()
        await in_time(burning.running.process.wait(), "the server has ended")
        await until(lambda: not burning.alive(), "the workers are gone")
