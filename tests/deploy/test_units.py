"""The systemd units: systemd reads them, they leave little to a process, and penstock works with what they leave."""

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.command import COMMAND, LISTENING, Running
from support.documents import ROOT
from support.origins import Recorder
from support.programs import require

UNITS = ROOT / "packaging" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
EXPOSURE = 2.5
# In settings of a unit, from here on, what a process may do.
HARDENING = "NoNewPrivileges="

APP = """
from aiohttp import web

async def hello(request):
    return web.Response(text="hello")

def app():
    app = web.Application()
    app.router.add_get("/", hello)
    return app
"""


def settings(unit: Path) -> list[str]:
    return [line for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")]


def test_systemd_reads_the_units_without_a_complaint(tmp_path: Path) -> None:
    program = require("systemd-analyze", package="systemd")
    for unit in UNITS.iterdir():
        # What is installed on another machine is not here.
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text.replace("User=penstock", ""))
    names = [str(tmp_path / unit.name.replace("@", "@media")) for unit in UNITS.iterdir()]
    shutil.copy(tmp_path / "penstock@.service", tmp_path / "penstock@media.service")
    ended = subprocess.run([program, "verify", *names], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_unit_leaves_little_to_the_process(unit: Path) -> None:
    program = require("systemd-analyze", package="systemd")
    command = [
        program,
        "security",
        "--offline=yes",
        "--no-pager",
        f"--threshold={EXPOSURE * 10:g}",
        str(unit),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", ended.stdout)
    assert found
    assert float(found[1]) <= EXPOSURE


def test_both_services_are_hardened_alike() -> None:
    def hardening(unit: Path) -> list[str]:
        lines = settings(unit)
        begins = next(at for at, line in enumerate(lines) if line.startswith(HARDENING))
        return [line for line in lines[begins:] if not line.startswith("MemoryDenyWriteExecute=")]

    one, other = map(hardening, SERVICES)
    assert one == other


def test_the_units_give_options_that_there_are() -> None:
    from penstock.cli import serve

    known = {name for option in serve.params for name in option.opts}
    for unit in SERVICES:
        given = re.findall(r"--[a-z][a-z-]+", "".join(settings(unit)))
        assert given
        assert set(given) <= known, unit.name


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
async def test_penstock_works_with_what_a_unit_leaves(unit: Path, tmp_path: Path) -> None:
    """A relay, and workers that are started; with a cache on disk, whose threads make calls of their own."""
    require("systemd-analyze", package="systemd")
    (tmp_path / "mine.py").write_text(APP)
    async with ScriptedOrigin(Recorder()) as origin:
        disk = ("--cache", "1MiB", "--cache-disk", str(tmp_path / "cache"), "--cache-disk-size", "16MiB")
        what = ("mine:app", "--workers", "1") if "@" in unit.name else ("--origin", origin.url)
        log = ("--access-log-file", str(tmp_path / "access.log"), "--status-listen", "127.0.0.1:0")
        arguments = (*what, *disk, *log, "--memory", "16MiB", "--listen", "127.0.0.1:0")
        confined = (sys.executable, str(Path(__file__).with_name("confined.py")), str(unit))
        process = await asyncio.create_subprocess_exec(
            *(*confined, *COMMAND, "serve", *arguments), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        running = Running(process)
        try:
            running.url = (await running.wait_for(LISTENING))[1]
            assert "Seccomp:\t2\n" in Path(f"/proc/{process.pid}/status").read_text()
            client = await RawClient.connect(running.port)
            assert (await client.ask("/")).body == (b"hello" if "@" in unit.name else b"ok")
            client.abort()
            process.terminate()
            assert await running.ended() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert "not permitted" not in running.log()
