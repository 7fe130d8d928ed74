"""What a process has imported that serves: it keeps that in memory for as long as it runs."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import serve

# Of `python -X importtime`, in the place of which the variable stands.
IMPORTED = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)")
PACKAGE = Path(penstock.__file__).parent
APP = """
from aiohttp import web

app = web.Application()
"""


async def origin(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer("Content-Length: 2", body=b"ok"))


async def imported(*arguments: str, directory: Path | None = None) -> set[str]:
    """The modules of `penstock serve` that has answered a request, and has ended by a signal."""
    async with serve(*arguments, directory=directory) as running:
        client = await RawClient.connect(running.port)
        await client.ask("/")
        client.abort()
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
    return set(IMPORTED.findall(running.log()))


@pytest.fixture(autouse=True)
def imports_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")


@pytest.mark.parametrize("options", [(), ("--cache", "1MiB", "--status-listen", "127.0.0.1:0")])
async def test_a_gateway_to_an_origin_has_neither_aiohttp_nor_what_that_needs(
    options: tuple[str, ...],
) -> None:
    async with ScriptedOrigin(origin) as server:
        found = await imported("--origin", server.url, *options)
    assert {"asyncio", "penstock.serving.routes", "click"} <= found
    # An import of `ssl` is tried, and fails.
    assert not {"aiohttp", "_ssl", "_hashlib", "uvloop.loop", "penstock.web", "penstock.hub"} & found


async def test_it_has_uvloop_where_that_is_asked_for() -> None:
    async with ScriptedOrigin(origin) as server:
        found = await imported("--origin", server.url, "--uvloop")
    # What `importlib.import_module` is called with is not told, and what that imports is.
    assert {"uvloop.loop", "ssl"} <= found
    assert "aiohttp" not in found


async def test_it_has_aiohttp_where_its_lane_or_its_control_socket_needs_that(tmp_path: Path) -> None:
    async with ScriptedOrigin(origin) as server:
        by_lane = await imported("--origin", server.url, "--lane", "app")
        by_control = await imported(
            "--origin", server.url, "--cache", "1MiB", "--control", f"unix:{tmp_path}/control"
        )
    assert {"aiohttp", "ssl"} <= by_lane & by_control
    assert "penstock.web.gateway" in by_lane


async def test_an_application_has_nothing_of_workers_tokens_or_logs_that_it_does_not_use(
    tmp_path: Path,
) -> None:
    (tmp_path / "small.py").write_text(APP)
    found = await imported("small:app", directory=tmp_path)
    assert {"aiohttp", "ssl", "penstock.web.site"} <= found
    assert not {"penstock.workers", "penstock.tokens", "penstock.log.reader"} & found


def modules(code: str) -> set[str]:
    """What Python has imported when it has run `code`, in the isolated mode: an editable install imports more."""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(PACKAGE.parent)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return set(IMPORTED.findall(done.stderr))


def test_an_import_of_the_package_imports_nothing_else() -> None:
    """60 ms are promised for it. A clock shows how busy the machine is, and a count does not."""
    found = modules("import penstock; penstock.__version__") - modules("import importlib, warnings")
    assert found == {"penstock", "penstock._native"}
