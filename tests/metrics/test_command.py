"""`penstock serve --status-listen`, as a process of its own."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.origins import Recorder
from support.scraping import Pages

PLACES = re.compile(rb"(?:listening|status) on http://127\.0\.0\.1:(\d+)")


@asynccontextmanager
async def running(*options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    """The command, and the ports that it says it listens to."""
    command = (sys.executable, "-m", "penstock", "serve", *options)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        ports: list[int] = []
        while len(ports) < 2 and (line := await process.stderr.readline()):
            if place := PLACES.search(line):
                ports.append(int(place[1]))
        yield process, ports
    finally:
        if process.returncode is None:
            process.kill()
        # What it still says, so that it can end.
        await process.stderr.read()
        await process.wait()


async def test_pages_of_a_gateway_until_it_has_ended() -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        options = ("--origin", origin.url, "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0")
        async with running(*options, "--memory", "8MiB") as (process, ports):
            port, status = ports
            pages = Pages(f"http://127.0.0.1:{status}")
            await pages.until_status("ready", 200)
            client = await RawClient.connect(port)
            assert (await client.ask("/a")).body == b"ok"
            client.abort()
            await pages.until(
                lambda metrics: metrics.get("requests_total", lane="native", route="/", status="200") == 1,
                "the request is counted",
            )
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


@pytest.mark.parametrize("place", ["nowhere", "a.example:9145", "127.0.0.1:99999", "unix:"])
async def test_a_wrong_place_is_said_in_one_line(place: str) -> None:
    command = (sys.executable, "-m", "penstock", "serve", "--origin", "http://a", "--status-listen", place)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 2
    assert f"Invalid value for '--status-listen': {place!r}: must ".encode() in said
