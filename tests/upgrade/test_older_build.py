"""A build of before is one of the two processes of an upgrade: `make test-older-build`, which builds it."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.command import serve
from support.feeds import Feed, begin, goes_on
from support.upgraded_hubs import APP, Following, publish
from support.upgrading import MOVED, Line, gone

OLDER = os.environ.get("PENSTOCK_OLDER", "")
"""The directory of an environment with a build that speaks protocol 1 alone."""

pytestmark = pytest.mark.skipif(not OLDER, reason="make test-older-build")
WAYS = pytest.mark.parametrize("way", ["to the newer", "to the older"])


@asynccontextmanager
async def installed(directory: Path, way: str, *arguments: str) -> AsyncIterator[Line]:
    """A process of one build, after whose start the other build is what its command finds."""
    builds = [Path(OLDER), Path(sys.prefix)]
    if way == "to the older":
        builds.reverse()
    current, other = directory / "current", directory / "other"
    current.symlink_to(builds[0])
    other.symlink_to(builds[1])
    command = (str(current / "bin/python"), "-m", "penstock")
    async with serve(*arguments, command=command, directory=directory) as running:
        line = Line(running)
        other.replace(current)
        try:
            yield line
        finally:
            for process in line.processes[1:]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
                await gone(process)


@WAYS
async def test_connections_and_relayed_streams_move_between_builds(tmp_path: Path, way: str) -> None:
    feed = Feed()
    async with ScriptedOrigin(feed) as origin, installed(tmp_path, way, "--origin", origin.url) as line:
        client = await begin(line.port, feed)
        os.kill(line.newest, signal.SIGUSR2)
        assert (await line.first.wait_for(MOVED)).groups() == ("1", "0")
        await line.upgraded()
        await line.ended(line.processes[0])
        await goes_on(client, feed)


@WAYS
async def test_a_hub_begins_anew_and_its_subscribers_come_back(tmp_path: Path, way: str) -> None:
    # The older build knows no name of a hub, and what else this application uses.
    (tmp_path / "mine.py").write_text(APP)
    async with installed(tmp_path, way, "mine:app") as line:
        client = await Following.of(line.port)
        await publish(line.port, "1")
        await client.until("1")
        await line.upgrade()
        assert await client.event() is None
        client.client.abort()
        await line.ended(line.processes[0])
        again = await Following.of(line.port)
        await publish(line.port, "2")
        await again.until("2")
        again.client.abort()
