"""Five hundred event streams at once through `penstock serve`: every event, in order, once, unchanged.

Three seconds of them by default; thirty with PENSTOCK_LONG=1. Origin, gateway and readers are a process each.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from support.programs import output_of
from support.servers import running_gateway

_HERE = Path(__file__).parent
_STREAMS = 500
# As many as one core can send, relay and check beside its neighbours; a slow machine only takes longer.
_PER_SECOND = 5
_SECONDS = 30 if os.environ.get("PENSTOCK_LONG") == "1" else 3
_EVENTS = _PER_SECOND * _SECONDS
# HTTP/1.1 carries one stream on a connection, and the limit is meant for origins of segments.
_OPTIONS = ("--connections", str(_STREAMS), "--no-access-log")


@pytest.fixture
async def origin() -> AsyncIterator[str]:
    """The URL of the origin of event streams."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(_HERE / "events_origin.py"), str(_STREAMS), str(_EVENTS), str(_PER_SECOND)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
        assert url, "the origin ended before it listened"
        yield url
        assert process.returncode is None, "the origin ended by itself"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.timeout(_SECONDS + 90)
async def test_every_reader_gets_every_event_in_order_and_once(origin: str) -> None:
    async with running_gateway(origin, *_OPTIONS) as url:
        readers = (sys.executable, str(_HERE / "events_clients.py"), url, str(_STREAMS), str(_EVENTS))
        try:
            right = await output_of(*readers, seconds=_SECONDS + 60)
        except TimeoutError:
            pytest.fail(f"the streams did not end; {await _asked(origin)} of {_STREAMS} reached the origin")
    assert int(right) == _STREAMS * _EVENTS


async def _asked(origin: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{origin}/asked") as response:
        return await response.text()
