"""What a service manager notices of an upgrade: it is told of the next process, and its sockets go on."""

import os
import signal
import socket
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.manager import Manager, serve_with
from support.origins import Recorder
from support.upgrading import FAILED, Line, ask, serving

APP = """
from aiohttp import web

def app():
    return web.Application()
"""


async def test_it_is_told_of_the_next_process_which_gives_the_signs_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    manager = Manager(tmp_path / "notify")
    try:
        async with serving("--origin", "http://127.0.0.1:9") as line:
            await manager.until("READY")
            first = line.newest
            number = await line.upgrade()
            await manager.until("RELOADING")
            told = await manager.until("MAINPID", str(number))
            assert told["READY"] == "1"
            await line.ended(first)
            await manager.until("WATCHDOG")
            await manager.until("WATCHDOG")
            assert not any("STOPPING" in told for told in manager.told), "the service goes on"
    finally:
        manager.close()


async def test_it_is_told_why_there_was_no_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    manager = Manager(tmp_path / "notify")
    try:
        module = tmp_path / "mine.py"
        module.write_text(APP)
        async with serving("mine:app", directory=tmp_path) as line:
            await manager.until("READY")
            module.write_text("this is no Python")
            os.kill(line.newest, signal.SIGUSR2)
            await line.first.wait_for(FAILED)
            await manager.until("RELOADING")
            told = await manager.until("READY")
            assert "the upgrade has failed" in told["STATUS"]
            assert not any("MAINPID" in told for told in manager.told)
    finally:
        manager.close()


@pytest.mark.parametrize("listen", ["fd:web", "fd:3"])
async def test_its_sockets_go_from_process_to_process(listen: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with ScriptedOrigin(Recorder()) as origin:
            arguments = ("--origin", origin.url, "--listen", listen)
            async with serve_with([listener], "web", *arguments) as running:
                line = Line(running)
                try:
                    for _ in range(2):
                        before = line.newest
                        await line.upgrade()
                        await line.ended(before)
                        assert await ask(port) == b"ok"
                finally:
                    if line.newest != running.process.pid:
                        os.kill(line.newest, signal.SIGTERM)
                        await line.ended(line.newest)
