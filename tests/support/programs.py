"""Other people's programs that these tests need, and the rule for a machine that lacks one.

In CI a missing program is a failure, so that no proof is skipped unnoticed; on a developer's
machine it is a skip that says what to install.
"""

import asyncio
import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest


def require(program: str, *, package: str) -> str:
    """The path of `program`; fails under CI=true and skips elsewhere if it is not installed."""
    # Debian keeps daemons where only root looks for them.
    path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if path is None:
        missing(f"{program} not found: install the package '{package}'")
    return path


def require_package(name: str) -> ModuleType:
    """A package of PyPI's, imported; fails under CI=true and skips elsewhere if it is not installed."""
    if importlib.util.find_spec(name) is None:
        missing(f"{name} not found: pip install {name}")
    return importlib.import_module(name)


def missing(reason: str) -> NoReturn:
    """Fail under CI=true and skip elsewhere, as `reason` says."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


async def output_of(*command: str, directory: Path | None = None, seconds: float = 60) -> str:
    """Run `command` in `directory` to its end and return its standard output.

    Fails if it ends with another status than 0, complains of anything, or takes longer than `seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (
        f"{command} ended with {process.returncode}: {complaints.decode(errors='replace')}"
    )
    # The programs run here are told to speak of errors only, so that whatever they say is one.
    assert complaints == b"", f"{command} complained: {complaints.decode(errors='replace')}"
    return output.decode()
