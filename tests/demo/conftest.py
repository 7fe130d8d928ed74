"""What the tests of the demo share: the demo itself as a process, and the browser to look at it with."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

_PAGE = re.compile(rb"open\s+(http://\S+)")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium: missing, it is a failure in CI and a skip elsewhere."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if program := shutil.which(name):
            return program
    reason = "no Chromium found: install the package 'chromium'"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@asynccontextmanager
async def running_demo() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`penstock demo` on a free port, as a user starts it: yields the process and the URL it printed.

    A process that is still there at the end is told to terminate, and has to end with status 0.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock.demo", "--listen", "127.0.0.1:0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            async for line in process.stdout:
                if found := _PAGE.search(line):
                    break
            else:
                raise AssertionError(f"penstock demo printed no URL and ended with {await process.wait()}")
        yield process, found[1].decode()
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def demo() -> AsyncIterator[str]:
    """The URL of a running `penstock demo`."""
    async with running_demo() as (_, url):
        yield url
