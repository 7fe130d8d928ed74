"""A fresh directory that has the wheel and nothing else.

PENSTOCK_WHEEL names the wheel: `make test-wheel` and `make test-interpreters` set it.
"""

import os
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.testing import Peer
from support.client import answer
from support.command import Running, serve

WHEEL = os.environ.get("PENSTOCK_WHEEL")


class Fresh(NamedTuple):
    """A directory with an environment, and nothing of the checkout."""

    folder: Path
    environment: dict[str, str]

    @property
    def command(self) -> str:
        return str(self.folder / "venv" / "bin" / "penstock")

    def run(self, *arguments: str, statuses: tuple[int, ...] = (0,)) -> str:
        """What the installed command prints; it has to end with one of `statuses`."""
        done = subprocess.run(
            [self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in statuses, done.stdout + done.stderr
        return done.stdout

    def serve(self, *arguments: str) -> AbstractAsyncContextManager[Running]:
        """The installed `penstock serve`, until the block ends."""
        return serve(*arguments, directory=self.folder, command=(self.command,), environment=self.environment)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """The wheel with what it requires, by pip. PATH has the environment's programs alone: no cargo, no compiler."""
    if WHEEL is None:
        pytest.skip("PENSTOCK_WHEEL names no wheel: run 'make test-wheel'")
    folder = tmp_path_factory.mktemp("fresh")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = settings | {"PATH": str(venv / "bin"), "HOME": str(folder)}
    # An index that the machine is set up with is named in its home directory.
    pip = [
        venv / "bin" / "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        "--only-binary",
        ":all:",
        str(WHEEL),
    ]
    subprocess.run(pip, cwd=folder, env=environment | {"HOME": os.environ["HOME"]}, check=True)
    return Fresh(folder, environment)


async def origin(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer("Cache-Control: max-age=60", "Content-Length: 2", body=b"ok"))
