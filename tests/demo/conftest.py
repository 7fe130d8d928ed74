"""What the tests of the demo share: the demo itself as a process, and the browser to look at it with."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest

from .process import running_demo


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


@pytest.fixture
async def demo() -> AsyncIterator[str]:
    """The URL of a running `penstock demo`."""
    async with running_demo() as (_, url):
        yield url
