"""Either process of an upgrade is killed at a step of it: the other one serves."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.command import LISTENING, Running, serve
from support.feeds import Feed, begin, goes_on
from support.origins import Recorder
from support.upgrading import BEGINS, DYING, FAILED, ask, gone
from support.waiting import in_time


@asynccontextmanager
async def upgraded_until(
    step: str,
    origin: ScriptedOrigin,
    prepare: Callable[[int], Awaitable[object]] | None = None,
    how: str = "SIGKILL",
) -> AsyncIterator[tuple[Running, int]]:
    """A process whose upgrade has come to `step`, and the number of the next one.

    `prepare` is called with its port before the upgrade. At the step one of the two sends itself the signal `how`.
    """
    command = (sys.executable, "-c", DYING)
    environment = {**os.environ, "STEP": step, "SIGNAL": how}
    async with serve("--origin", origin.url, command=command, environment=environment) as running:
        if prepare is not None:
            await prepare(running.port)
        os.kill(running.process.pid, signal.SIGUSR2)
        number = int((await running.wait_for(BEGINS))[1])
        try:
            yield running, number
        finally:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
            await gone(number)


@pytest.mark.parametrize(
    "step",
    [
        *("before hello", "after hello", "at offer", "at keys", "at secret"),
        *("before ready", "after ready", "at counters", "at take"),
        # It accepts already.
        "before taken",
    ],
)
async def test_the_next_process_dies(step: str) -> None:
    async with (
        ScriptedOrigin(Recorder()) as origin,
        upgraded_until(f"next {step}", origin) as (running, number),
    ):
        kept = await RawClient.connect(running.port)
        await running.wait_for(FAILED)
        assert "was killed by signal 9 before it was ready" in running.log()
        assert (await in_time(kept.ask("/segment"))).body == b"ok", "it was in the queue"
        kept.abort()
        assert await ask(running.port) == b"ok"
        await gone(number)


@pytest.mark.parametrize(
    "step",
    [
        *(
            "at hello",
            "before offer",
            "after offer",
            "before keys",
            "after secret",
            "at ready",
            "before counters",
            "after counters",
            "before take",
            "after take",
            "at taken",
        ),
        *("before done", "after done"),
    ],
)
async def test_the_process_before_dies(step: str) -> None:
    async with (
        ScriptedOrigin(Recorder()) as origin,
        upgraded_until(f"before {step}", origin) as (running, _),
    ):
        port = running.port
        found = await running.wait_for(LISTENING)
        await gone(running.process.pid)
        if step in {"at hello", "before offer"}:
            # It has died with its sockets: the next one has a socket of its own, and port 0 is another one then.
            port = int(found[1].rpartition(":")[2])
        assert await ask(port) == b"ok"


class Streaming:
    """A stream that is under way when an upgrade begins. What answers a POST is not ended before its time."""

    def __init__(self) -> None:
        self.feed = Feed()
        self._client: RawClient | None = None

    async def begin(self, port: int) -> None:
        self._client = await begin(port, self.feed, "POST")

    @property
    def client(self) -> RawClient:
        assert self._client is not None
        return self._client

    async def goes_on(self) -> None:
        """The client is sent what the origin sends, to its end."""
        await goes_on(self.client, self.feed)


@pytest.mark.parametrize("step", ["at stream", "before have"])
async def test_a_stream_goes_on_when_the_next_process_dies(step: str) -> None:
    streaming = Streaming()
    async with (
        ScriptedOrigin(streaming.feed) as origin,
        upgraded_until(f"next {step}", origin, streaming.begin) as (running, _),
    ):
        await running.wait_for(FAILED)
        await streaming.goes_on()
        (await begin(running.port, streaming.feed)).abort()


@pytest.mark.parametrize("step", ["at go", "before begun", "after begun"])
async def test_a_stream_is_lost_with_the_next_process_that_had_it(step: str) -> None:
    streaming = Streaming()
    async with (
        ScriptedOrigin(streaming.feed) as origin,
        upgraded_until(f"next {step}", origin, streaming.begin) as (running, number),
    ):
        await gone(number)
        assert await in_time(streaming.client.rest()) == b"", "the connection has ended"
        streaming.client.abort()
        if step == "after begun":
            # It may have died after it was the one that serves.
            return
        await running.wait_for(FAILED)
        (await begin(running.port, streaming.feed)).abort()


@pytest.mark.parametrize(
    "step", ["after stream", "at have", "before go", "after go", "at begun", "before done", "after done"]
)
async def test_a_stream_goes_on_when_the_process_before_dies(step: str) -> None:
    streaming = Streaming()
    async with (
        ScriptedOrigin(streaming.feed) as origin,
        upgraded_until(f"before {step}", origin, streaming.begin) as (running, _),
    ):
        await gone(running.process.pid)
        await streaming.goes_on()
        (await begin(running.port, streaming.feed)).abort()


@pytest.mark.parametrize("step", ["before stream", "after stream", "at have", "after go", "at begun"])
async def test_a_stop_while_streams_move_loses_none(step: str) -> None:
    streaming = Streaming()
    async with (
        ScriptedOrigin(streaming.feed) as origin,
        upgraded_until(f"before {step}", origin, streaming.begin, how="SIGTERM") as (running, _),
    ):
        await gone(running.process.pid)
        await streaming.goes_on()
        (await begin(running.port, streaming.feed)).abort()
