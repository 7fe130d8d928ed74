"""Who starts workers, replaces them and ends them: real processes, and applications that fail in each way."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.workers import process
from penstock.workers.directory import PREFIX, Directory
from support.waiting import until

from .applications import PLAIN, workshop


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_as_many_as_are_wanted_serve_and_end_well(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with workshop(directory, count=3) as shop:
        await shop.start()
        assert len(shop.pids()) == 3
        assert shop.generation == 1
        pids = shop.pids()
    assert not [pid for pid in pids if is_alive(pid)]
    assert sum("ended with status 0" in line for line in caplog.messages) == 3


async def test_one_that_is_killed_is_replaced_and_the_others_stay(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(directory) as shop:
        await shop.start()
        one, other = shop.workers.values()
        os.kill(one.pid, signal.SIGKILL)
        assert await one.wait() == -signal.SIGKILL
        await shop.full(but=frozenset({one.pid}))
        assert other.pid in shop.pids()
        assert shop.generation == 1
        await until(lambda: not one.path.exists(), "its socket is gone")
    assert f"{one.name} was killed by SIGKILL" in caplog.messages


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("raise SystemExit(3)", "ended with status 3 before it was ready"),
        ("1 / 0", "ended with status 1 before it was ready"),
        ("app = None", "ended with status 1 before it was ready"),
        ("import os; os.abort()", "was killed by SIGABRT before it was ready"),
        ("import time; time.sleep(1000)", "was not ready within 0.5 s"),
        (
            "async def app():\n    import asyncio\n    await asyncio.Event().wait()",
            "was not ready within 0.5 s",
        ),
        ("import os\nos.closerange(3, 100)\nos.read(0, 1)", "before it was ready"),
    ],
)
async def test_one_that_is_never_ready_ends_the_start(directory: Path, app: str, says: str) -> None:
    seconds = 0.5 if "within" in says else 30
    async with workshop(directory, app, start_timeout=seconds) as shop:
        with pytest.raises(penstock.SystemFailureError, match=says) as caught:
            await shop.start()
        assert caught.value.name == "PROCESS_FAILED"
        await until(lambda: not shop.processes, "the others have ended")


async def test_a_start_that_is_cancelled_leaves_nothing(directory: Path) -> None:
    async with workshop(directory, "import time; time.sleep(1000)") as shop:
        starting = asyncio.create_task(shop.start())
        await until(lambda: shop.processes == 2, "they are started")
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not shop.processes


async def test_newer_code_serves_when_all_of_it_is_ready(directory: Path) -> None:
    async with workshop(directory) as shop:
        await shop.start()
        before = shop.pids()
        shop.supervisor.reload()
        await shop.serving(2)
        assert len(shop.pids()) == 2
        assert not shop.pids() & before
        await until(lambda: not any(is_alive(pid) for pid in before), "the old ones end")
        await until(lambda: shop.processes == 2, "and are forgotten")


async def test_nothing_is_kept_of_workers_that_have_ended(directory: Path) -> None:
    async with workshop(directory, stop_timeout=60) as shop:
        await shop.start()
        before = [weakref.ref(worker) for worker in shop.workers.values()]
        shop.supervisor.reload()
        await shop.serving(2)

        def gone() -> bool:
            gc.collect()
            return not any(worker() for worker in before)

        await until(gone, "what was known of them is forgotten")


REFUSED = """
from aiohttp import web
import penstock.web
from penstock import config
app = web.Application()
app.add_routes([penstock.web.Gateway("http://origin").native("/", caching=config.Caching())])
"""


@pytest.mark.parametrize("fault", ["raise SystemExit(3)", "import time; time.sleep(1000)", REFUSED])
async def test_newer_code_that_fails_changes_nothing(
    directory: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(directory) as shop:
        await shop.start()
        before = shop.pids()
        if "sleep" in fault:
            shop.supervisor.settings = replace(shop.settings, start_timeout=0.5)
        shop.write(fault)
        shop.supervisor.reload()
        await until(lambda: "the code was not replaced" in caplog.text, "that it failed is logged")
        assert (shop.pids(), shop.generation) == (before, 1)
        await until(lambda: shop.processes == 2, "the new ones are gone")
        shop.supervisor.settings = shop.settings
        shop.write(PLAIN)
        shop.supervisor.reload()
        await shop.serving(3)


async def test_a_reload_that_is_requested_during_another_follows_it(directory: Path) -> None:
    async with workshop(directory) as shop:
        await shop.start()
        shop.supervisor.reload()
        await until(lambda: shop.processes == 4, "the reload has begun")
        for _ in range(3):
            shop.supervisor.reload()
        await shop.serving(3)
        await until(lambda: shop.processes == 2, "the old ones have ended")
        assert not shop.supervisor._wanted.is_set()
        assert shop.generation == 3


async def test_one_that_is_silent_for_too_long_is_killed(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(directory, hang=5.0) as shop:
        await shop.start()
        one, other = shop.workers.values()
        shop.supervisor.silent(other.number, 4.9)
        shop.supervisor.silent(one.number, 5.0)
        shop.supervisor.silent(99, 5.0)
        assert await one.wait() == -signal.SIGKILL
        await shop.full(but=frozenset({one.pid}))
        assert other.pid in shop.pids()
    assert f"{one.name} hangs" in caplog.text


DIFFERS = """
from aiohttp import web
app = web.Application()
from pathlib import Path
if Path("changed").exists():
    import penstock.web
    app.add_routes([penstock.web.Gateway("http://origin").native("/new/")])
"""


async def test_one_that_comes_back_with_other_routes_has_all_replaced(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop(directory, DIFFERS) as shop:
        await shop.start()
        before = shop.pids()
        (directory / "changed").touch()
        os.kill(next(iter(before)), signal.SIGKILL)
        await shop.serving(2)
        await until(lambda: shop.processes == 2, "the old ones have ended")
        assert not shop.pids() & before
        assert len(shop.supervisor._current.registration.routes) == 1
    assert "has other routes than its generation" in caplog.text


CHANCE = """
import os
from aiohttp import web
import penstock.web
app = web.Application()
app.add_routes([penstock.web.Gateway("http://origin").native(f"/{os.getpid()}/")])
"""


async def test_workers_that_differ_by_chance_do_not_start(directory: Path) -> None:
    async with workshop(directory, CHANCE) as shop:
        with pytest.raises(penstock.ConfigurationError, match="has other routes than its generation"):
            await shop.start()


STUBBORN = """
import asyncio
from aiohttp import web
async def never(app):
    await asyncio.Event().wait()
app = web.Application()
app.on_cleanup.append(never)
"""


async def test_one_that_does_not_end_is_killed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "GRACE", 0.1)
    async with workshop(directory, STUBBORN, stop_timeout=0.1) as shop:
        await shop.start()
        pids = shop.pids()
    assert not [pid for pid in pids if is_alive(pid)]
    assert "did not end within" in caplog.text
    assert "was killed by SIGKILL" in caplog.text


async def test_one_that_is_told_to_end_by_others_is_retired_and_replaced(directory: Path) -> None:
    async with workshop(directory) as shop:
        await shop.start()
        one, _ = shop.workers.values()
        os.kill(one.pid, signal.SIGTERM)
        assert await one.wait() == 0
        await shop.full(but=frozenset({one.pid}))


BREAKS = """
import json, os, sys
from aiohttp import web
from pathlib import Path
app = web.Application()
async def rubbish(app):
    if not Path("well").exists():
        Path("well").touch()
        os.write(json.loads(sys.argv[1])["link"], b"\\xff" * 8)
app.on_startup.append(rubbish)
"""


async def test_one_whose_link_breaks_does_not_stay(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with workshop(directory, BREAKS, count=1) as shop:
        with pytest.raises(penstock.SystemFailureError, match="before it was ready"):
            await shop.start()
        await shop.start()
    assert "the other end has sent what is no message" in caplog.text


async def test_the_directory_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Directory() as one, Directory() as other:
        assert one.parent == other.parent == tmp_path
        assert one != other
        assert one.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    with Directory() as one:
        assert one.parent != tmp_path


async def test_what_a_parent_that_was_killed_has_left_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    program = (
        "from penstock.workers.directory import PREFIX, Directory; print(Directory().__enter__()); input()"
    )
    command = (sys.executable, "-c", program)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        left = Path(parent.stdout.readline().strip())
        (left / "1").touch()
        (tmp_path / f"{PREFIX}link").symlink_to(tmp_path)
        (tmp_path / f"{PREFIX}file").touch()
        with Directory():
            assert left.exists(), "its parent runs"
        parent.kill()
    assert left.exists()
    with Directory() as other, Directory():
        assert not left.exists()
        assert other.exists()
    assert {path.name for path in tmp_path.iterdir()} == {f"{PREFIX}link", f"{PREFIX}file"}
