"""Applications that use aiohttp's extensions, and those of its demos, answer on a Site as on aiohttp's server.

They run by an interpreter of their own, which has the distributions of the dependency group `applications`: `make
test-applications` makes it.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from . import demos, extensions, protocols, services  # noqa: F401 (their programs)
from .steps import PROGRAMS

_ROOT: Final = Path(__file__).parent.parent.parent
_PYTHON: Final = _ROOT / ".venv-applications" / "bin" / "python"

NOT_HERE: Final = {
    "aiohttp-apispec": "wants webargs below 6, which goes with no marshmallow that is still kept",
    "aiohttp-graphql": "wants graphql-core below 3.3 and a promise that Python 3.12 does not have",
    "aiohttp-ratelimiter": "wants redis below 5",
    "aiohttp-mcp": "wants aiohttp-sse below 3",
    "tartiflette-aiohttp": "its parser is built by CMake from sources that are fetched",
    "aiohttp-fast-url-dispatcher": "its dispatcher is in aiohttp since 3.9.2, and it goes with no later one",
    "connexion": "has no aiohttp since version 3",
}
"""Distributions that were looked at, and cannot be installed with the others."""


async def answers(name: str, server: str) -> Any:
    path = f"{_ROOT / 'python'}:{_ROOT / 'tests'}"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(
        *(str(_PYTHON), "-W", "ignore", "-m", "applications.run", name, server),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, f"on {server}: {errors.decode()[-3000:]}"
    return json.loads(out)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_it_answers_as_on_aiohttps_own_server(name: str) -> None:
    if not _PYTHON.exists() and not os.environ.get("CI"):
        pytest.skip("make test-applications installs what it needs")
    there, here = await asyncio.gather(answers(name, "aiohttp"), answers(name, "site"))
    assert here == there


def test_there_are_forty_and_each_is_said_why_not() -> None:
    assert len(PROGRAMS) >= 40
    assert not NOT_HERE.keys() & {name for program in PROGRAMS.values() for name in program.names}
