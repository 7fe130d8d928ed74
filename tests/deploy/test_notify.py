"""The service manager is told of the state of `penstock serve`, over a real NOTIFY_SOCKET."""

import asyncio
import ctypes
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from penstock.testing import Peer, ScriptedOrigin
from support.certificates import written
from support.client import RawClient, answer
from support.command import serve
from support.manager import Manager
from support.programs import missing
from support.scraping import Pages
from support.waiting import in_time

APP = """
import os
from aiohttp import web

async def hello(request):
    return web.Response(text="hello")

async def environment(request):
    return web.Response(text=os.environ.get("NOTIFY_SOCKET", "none"))

def app():
    app = web.Application()
    app.router.add_get("/", hello)
    app.router.add_get("/environment", environment)
    return app
"""

_ATTACH, _DETACH, _ALL_KINDS = 16, 17, 0x40000000


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"\0penstock-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
    manager = Manager(address)
    yield manager
    manager.close()


def in_one_form(test: object) -> object:
    return pytest.mark.parametrize("manager", ["path"], indirect=True)(test)


async def test_ready_after_the_listener_and_stopping_before_the_end(manager: Manager) -> None:
    async with serve("--origin", "http://127.0.0.1:9") as running:
        ready = await manager.until("READY")
        assert ready == {"READY": "1", "STATUS": f"listening on {running.url}"}
        (await RawClient.connect(running.port)).abort()
        running.process.send_signal(signal.SIGTERM)
        assert (await manager.until("STOPPING"))["STATUS"] == "stopping"
        assert await running.ended() == 0


@in_one_form
@pytest.mark.parametrize("way", ["app", "workers"])
async def test_an_application_is_ready_when_it_serves(manager: Manager, tmp_path: Path, way: str) -> None:
    (tmp_path / "mine.py").write_text(APP)
    more = ("--workers", "1") if way == "workers" else ()
    async with serve("mine:app", *more, directory=tmp_path) as running:
        await manager.until("READY")
        client = await RawClient.connect(running.port)
        assert (await client.ask("/")).body == b"hello"
        assert (await client.ask("/environment")).body == b"none", "it is meant for this process alone"
        client.abort()
        running.process.send_signal(signal.SIGTERM)
        await manager.until("STOPPING")
        assert await running.ended() == 0


async def half_a_film(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer("Content-Length: 8", body=b"half"))
    await peer.stall()


@in_one_form
async def test_what_a_stop_waits_for_is_told(manager: Manager) -> None:
    async with ScriptedOrigin(half_a_film) as origin, serve("--origin", origin.url) as running:
        client = await RawClient.connect(running.port)
        await client.get("/film")
        assert (await client.head()).status == 200
        running.process.send_signal(signal.SIGTERM)
        await manager.until("STOPPING")
        told = await in_time(manager.next())
        assert told == {"STATUS": "stopping: waiting for 1 responses (1 of /)"}
        client.abort()
        assert await running.ended() == 0


@in_one_form
async def test_a_reload_of_certificates_begins_and_ends(manager: Manager, tmp_path: Path) -> None:
    cert, key = map(str, written(trustme.CA(), tmp_path, "localhost"))
    tls = ("--tls-cert", cert, "--tls-key", key)
    async with serve("--origin", "http://127.0.0.1:9", *tls) as running:
        await manager.until("READY")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        running.process.send_signal(signal.SIGHUP)
        reloading = await manager.until("RELOADING")
        assert (
            before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        )
        assert await manager.until("READY") == {"READY": "1", "STATUS": f"listening on {running.url}"}


@in_one_form
@pytest.mark.parametrize("way", ["origin", "workers"])
async def test_a_reload_of_the_configuration_ends_with_what_is_wrong_with_it(
    manager: Manager, tmp_path: Path, way: str
) -> None:
    (tmp_path / "mine.py").write_text(APP)
    path = tmp_path / "penstock.toml"
    what = 'origin = "http://127.0.0.1:9"' if way == "origin" else 'app = "mine:app"\nworkers.count = 1'
    good = f'{what}\nlisten = "127.0.0.1:0"\n'
    path.write_text(good)
    async with serve("--config", str(path), directory=tmp_path) as running:
        listening = f"listening on {running.url}"
        await manager.until("READY")
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        assert (await manager.until("READY"))["STATUS"] == listening
        path.write_text(f'{good}drain = "long"\nthreads = "many"\n')
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        faulty = (await manager.until("READY"))["STATUS"]
        assert faulty.startswith(f"{listening}; the configuration has faults: {path}:")
        assert faulty.endswith("drain: 'long': must be a number, not a text, and 1 more")
        path.write_text(good)
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        assert (await manager.until("READY"))["STATUS"] == listening


@in_one_form
async def test_all_sites_are_told(manager: Manager, tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    site = f'[[sites]]\nlisten = "unix:{tmp_path}/web.sock"\n'
    path.write_text(f'origin = "http://127.0.0.1:9"\nlisten = "127.0.0.1:0"\n{site}')
    async with serve("--config", str(path)) as running:
        told = await manager.until("READY")
        assert told["STATUS"] == f"listening on {running.url}, unix:{tmp_path}/web.sock"


@in_one_form
async def test_sighup_without_anything_to_reload_ends_as_well(manager: Manager) -> None:
    async with serve("--origin", "http://127.0.0.1:9") as running:
        await manager.until("READY")
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        await manager.until("READY")


@in_one_form
async def test_a_reload_of_code_ends_when_the_new_workers_serve_or_have_failed(
    manager: Manager, tmp_path: Path
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serve("mine:app", "--workers", "1", directory=tmp_path) as running:
        await manager.until("READY")
        module.write_text(APP.replace('text="hello"', 'text="newer"'))
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        assert await manager.until("READY") == {"READY": "1", "STATUS": f"listening on {running.url}"}
        client = await RawClient.connect(running.port)
        assert (await client.ask("/")).body == b"newer"
        client.abort()
        module.write_text("this is no Python")
        running.process.send_signal(signal.SIGHUP)
        await manager.until("RELOADING")
        assert "the code was not replaced" in (await manager.until("READY"))["STATUS"]


@in_one_form
async def test_the_watchdog_gets_no_sign_while_an_engine_thread_hangs(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    status = tmp_path / "status.sock"
    path = tmp_path / "penstock.toml"
    path.write_text(
        f"""
        origin = "http://127.0.0.1:9"
        listen = "127.0.0.1:0"
        threads = 2
        memory = "8MiB"
        status = {{ listen = "unix:{status}", hung = 2 }}
        """
    )
    async with serve("--config", str(path)) as running:
        await manager.until("READY")
        await manager.until("WATCHDOG")
        await manager.until("WATCHDOG")
        with stopped(thread_of(running.process.pid, "penstock-engi")):
            told = await in_time(until_hung(manager), "the hang is told")
            assert re.search(r"1 of 2 engine threads hang", told["STATUS"])
            assert (await Pages(f"unix:{status}").check("health"))[0] == 503
            # Two signs would be due.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.8):
                    await manager.next()
        back = await manager.until("WATCHDOG")
        assert back["STATUS"] == f"listening on {running.url}"
        running.process.send_signal(signal.SIGTERM)
        await manager.until("STOPPING")
        assert await running.ended() == 0


@in_one_form
@pytest.mark.parametrize("name", ["WATCHDOG_USEC", "WATCHDOG_PID"])
async def test_a_watchdog_of_another_process_gets_no_sign(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "0" if name == "WATCHDOG_USEC" else "1000")
    monkeypatch.setenv("WATCHDOG_PID", "" if name == "WATCHDOG_USEC" else "1")
    async with serve("--origin", "http://127.0.0.1:9") as running:
        running.process.send_signal(signal.SIGTERM)
        await manager.until("STOPPING")
        assert not any("WATCHDOG" in told for told in manager.told)


@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:1234", ""])
async def test_a_service_manager_that_is_not_there_keeps_nothing_from_serving(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    async with serve("--origin", "http://127.0.0.1:9") as running:
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
    assert running.log().count("NOTIFY_SOCKET") == (1 if address else 0)


async def until_hung(manager: Manager) -> dict[str, str]:
    while "hang" not in (told := await manager.next()).get("STATUS", ""):
        assert "WATCHDOG" in told
    return told


def thread_of(process: int, name: str) -> int:
    """The first thread of `process` with such a name."""
    tasks = sorted(Path(f"/proc/{process}/task").iterdir(), key=lambda path: int(path.name))
    return next(int(task.name) for task in tasks if (task / "comm").read_text().startswith(name))


@contextmanager
def stopped(thread: int) -> Iterator[None]:
    """Stop one thread of a process, as a debugger does; the others go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_ATTACH, thread, None, None) != 0:
        missing(f"ptrace: {os.strerror(ctypes.get_errno())}: a thread cannot be stopped here")
    os.waitpid(thread, _ALL_KINDS)
    try:
        yield
    finally:
        libc.ptrace(_DETACH, thread, None, None)
