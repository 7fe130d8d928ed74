"""A hub goes on in the next process: its history, its ids, its subscribers, and what both processes publish."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.client import RawClient
from support.command import Running, serve
from support.upgraded_hubs import APP, Following, key_of, post, publish, serving_hub
from support.upgrading import BEGINS, DYING, FAILED, MOVED, gone
from support.waiting import in_time


@pytest.mark.parametrize("way", ["app", "workers"])
async def test_subscribers_go_on_in_the_next_process_and_ids_rise(tmp_path: Path, way: str) -> None:
    more = ("--workers", "1") if way == "workers" else ()
    async with serving_hub(tmp_path, *more) as line:
        had = await Following.of(line.port)
        await publish(line.port, "1")
        await had.until("1")
        fresh = await Following.of(line.port)
        empty = await Following.of(line.port, path="/events/empty")
        for number in range(2, 5):
            before = line.newest
            os.kill(before, signal.SIGUSR2)
            found = await line.first.wait_for(MOVED)
            assert (found[1], found[2]) == ("3", "0")
            await line.upgraded()
            await line.ended(before)
            await publish(line.port, str(number))
            for each in (had, fresh):
                await each.until(str(number))
        await publish(line.port, "x", "empty")
        await empty.until("x")
        assert had.texts == ["1", "2", "3", "4"]
        assert fresh.texts == ["2", "3", "4"]
        again = await Following.of(line.port, f"Last-Event-ID: {had.ids[0]}")
        await again.until("4")
        assert again.texts == ["2", "3", "4"], "the history has moved"
        for each in (had, fresh, empty, again):
            each.client.abort()


async def test_both_processes_publish_and_each_event_comes_once_to_all(tmp_path: Path) -> None:
    """A request that is under way keeps the first process, which publishes what comes there."""
    async with serving_hub(tmp_path) as line:
        slow = await RawClient.connect(line.port)
        await slow.get("/publish/news", "Content-Length: 4", method="POST")
        await slow.send(b"sl")
        clients = [await Following.of(line.port) for _ in range(20)]
        stays = await Following.of(line.port, path="/stream/news")
        given: list[str] = []

        async def go_on(name: str) -> None:
            given.extend([await publish(line.port, f"{name}/{number}") for number in range(200)])

        first = line.newest
        publishing = [asyncio.create_task(go_on(name)) for name in "abc"]
        await line.upgrade()
        await slow.send(b"ow")
        head = await in_time(slow.head())
        given.append((await in_time(slow.body(head))).decode())
        assert head.status == 200
        await asyncio.gather(*publishing)
        given.append(await publish(line.port, "last"))
        for client in clients:
            await client.until("last")
            assert sorted(client.ids, key=key_of) == sorted(given, key=key_of)
            assert [text for text in client.texts if text.startswith("b/")] == [f"b/{n}" for n in range(200)]
            assert "slow" in client.texts
        # It was served by a handler, and stayed: it got what came before its process ended it.
        while await stays.event() is not None:
            pass
        assert clients[0].ids[: len(stays.ids)] == stays.ids
        slow.abort()
        for client in (*clients, stays):
            client.client.abort()
        await line.ended(first)


async def test_what_has_ended_stays_ended(tmp_path: Path) -> None:
    async with serving_hub(tmp_path) as line:
        last = await publish(line.port, "1")
        assert await post(line.port, "/finish/news") == "True"
        first = line.newest
        await line.upgrade()
        await line.ended(first)
        assert await post(line.port, "/finish/news") == "False"
        client = await RawClient.connect(line.port)
        await client.get("/events/news", f"Last-Event-ID: {last}")
        assert (await in_time(client.head())).status == 204
        client.abort()


async def test_hubs_of_one_name_begin_anew_and_it_is_said(tmp_path: Path) -> None:
    app = APP + "\nother = Hub()\n"
    async with serving_hub(tmp_path, app=app) as line:
        client = await Following.of(line.port)
        await publish(line.port, "1")
        await client.until("1")
        first = line.newest
        await line.upgrade()
        assert "more than one hub is called 'hub'" in line.first.log()
        assert await client.event() is None, "it comes back"
        client.client.abort()
        await line.ended(first)


async def test_a_process_that_was_published_to_before_it_was_ready_loses_nothing(tmp_path: Path) -> None:
    app = (
        APP
        + "\nasync def begin(app):\n    await hub.publish('news', 'began')\napp.on_startup.append(begin)\n"
    )
    async with serving_hub(tmp_path, app=app) as line:
        client = await Following.of(line.port)
        await publish(line.port, "1")
        await client.until("1")
        first = line.newest
        await line.upgrade()
        await client.until("began")
        client.client.abort()
        await line.ended(first)


@asynccontextmanager
async def upgraded_until(directory: Path, step: str) -> AsyncIterator[tuple[Running, int, Following, str]]:
    """A process whose upgrade ends at `step`, the number of the next one, and a client that has had an event."""
    (directory / "mine.py").write_text(APP)
    environment = {**os.environ, "STEP": step}
    command = (sys.executable, "-c", DYING)
    async with serve("mine:app", command=command, environment=environment, directory=directory) as running:
        client = await Following.of(running.port)
        first = await publish(running.port, "1")
        await client.until("1")
        os.kill(running.process.pid, signal.SIGUSR2)
        number = int((await running.wait_for(BEGINS))[1])
        try:
            yield running, number, client, first
        finally:
            client.client.abort()
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
            await gone(number)


@pytest.mark.parametrize("step", ["before hub", "after hub", "before ready", "at take", "before taken"])
async def test_a_hub_goes_on_when_the_next_process_dies(tmp_path: Path, step: str) -> None:
    async with upgraded_until(tmp_path, f"next {step}") as (running, number, client, first):
        await running.wait_for(FAILED)
        await gone(number)
        second = await publish(running.port, "2")
        await client.until("2")
        assert client.ids == [first, second]


async def test_what_died_with_a_process_before_it_was_told_is_announced_as_missing(tmp_path: Path) -> None:
    async with upgraded_until(tmp_path, "before at hub") as (running, _, _client, first):
        await gone(running.process.pid)
        client = await RawClient.connect(running.port)
        await client.get("/events/news", f"Last-Event-ID: {first}")
        assert (await in_time(client.head())).one("Penstock-Resume") == "gap"
        client.abort()


@pytest.mark.parametrize("step", ["before take", "after take", "at taken", "before subscriber"])
async def test_a_client_of_a_process_that_dies_comes_back_to_the_next_one(tmp_path: Path, step: str) -> None:
    """Its connection has ended with its process. It misses nothing."""
    async with upgraded_until(tmp_path, f"before {step}") as (running, _, client, first):
        await gone(running.process.pid)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.event()
        again = await Following.of(running.port, f"Last-Event-ID: {first}")
        await publish(running.port, "2")
        await again.until("2")
        assert again.texts == ["2"]
        again.client.abort()


@pytest.mark.parametrize("step", ["after subscriber", "before go", "after go", "before done", "after done"])
async def test_a_client_that_was_given_does_not_see_the_process_before_die(tmp_path: Path, step: str) -> None:
    async with upgraded_until(tmp_path, f"before {step}") as (running, _, client, first):
        await gone(running.process.pid)
        second = await publish(running.port, "2")
        await client.until("2")
        assert client.ids == [first, second]
