"""How processes that serve are stopped by signals: what ends at once, what is waited for and said, what is left."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import COMMAND, LISTENING, Running, serve

APP = """
import asyncio, os, sys, time
from pathlib import Path
from aiohttp import web
import penstock
from penstock.web import Gateway

hub = penstock.Hub()

async def slow(request):
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    Path("begun").touch()
    await asyncio.Event().wait()

async def stuck(request):
    Path("begun").touch()
    while True:
        try:
            await asyncio.to_thread(time.sleep, 1000)
        except asyncio.CancelledError:
            pass

async def subscribe(request):
    return await hub.stream(request, request.match_info["topic"])

async def starts(app):
    await hub.publish("news", "one", id="n1")

def app():
    app = web.Application()
    app.on_startup.append(starts)
    app.router.add_get("/slow", slow)
    app.router.add_get("/stuck", stuck)
    app.router.add_get("/handled/{topic}", subscribe)
    app.add_routes([
        hub.native("/topics/", subscriptions=penstock.config.Subscriptions(join="start")),
        Gateway(os.environ["ORIGIN"]).native("/films/", name="films"),
    ])
    return app

if __name__ == "__main__":
    import logging
    logging.basicConfig(stream=sys.stderr, level="INFO", format="%(message)s")
    penstock.web.run_app(
        app(), host="127.0.0.1", port=0, access_log=None, print=lambda text: print(text, file=sys.stderr),
    )
    print("returned", file=sys.stderr)
"""

WAYS = ["serve", "workers", "run_app"]
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
HOW = r"a second SIGTERM or SIGINT \(CTRL\+C\) ends at once"


class Served:
    def __init__(self, running: Running, directory: Path) -> None:
        self.running = running
        self.directory = directory
        self.clients: list[RawClient] = []

    async def begin(self, target: str, **options: str) -> RawClient:
        """A client that has sent its request."""
        self.clients.append(await RawClient.connect(self.running.port))
        await self.clients[-1].get(target, **options)
        return self.clients[-1]

    async def subscribe(self, target: str) -> RawClient:
        """A subscriber that has had the first event."""
        client = await self.begin(target)
        assert (await client.head()).status == 200
        assert b"id: n1" in await client.reader.readuntil(b"data: one\n\n")
        return client

    def send(self, number: signal.Signals) -> None:
        self.running.process.send_signal(number)

    async def said(self, pattern: str) -> re.Match[str]:
        return await self.running.wait_for(re.compile(pattern))


async def films(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer("Content-Length: 8", body=b"half"))
    await peer.stall()


@pytest.fixture
async def origin(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedOrigin]:
    async with ScriptedOrigin(films) as origin:
        monkeypatch.setenv("ORIGIN", origin.url)
        yield origin


@asynccontextmanager
async def started(way: str, directory: Path, *options: str) -> AsyncIterator[Served]:
    (directory / "mine.py").write_text(APP)
    if way == "run_app":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "mine.py"), cwd=directory, stderr=asyncio.subprocess.PIPE
        )
        running = Running(process)
        try:
            running.url = (await running.wait_for(re.compile(r"Running on (\S+)")))[1]
            served = Served(running, directory)
            yield served
        finally:
            if process.returncode is None:
                process.kill()
            await running.ended()
    else:
        more = ("--workers", "2") if way == "workers" else ()
        async with serve("mine:app", *more, *options, directory=directory) as running:
            served = Served(running, directory)
            yield served
    for client in served.clients:
        client.abort()


@BOTH
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("origin")
async def test_subscribers_end_at_once_and_cleanly(tmp_path: Path, way: str, number: signal.Signals) -> None:
    async with started(way, tmp_path) as served:
        clients = [await served.subscribe("/topics/news")]
        client = await served.begin("/handled/news?lastEventId=0")
        assert (await client.head()).status == 200
        clients.append(client)
        served.send(number)
        for client in clients:
            # Within the deadline of the test, which is less than what requests get to finish.
            rest = await client.reader.read()
            assert rest.endswith(b"0\r\n\r\n"), "a whole body, which an EventSource comes back for"
        assert await served.running.ended() == 0
    assert "waiting for" not in served.running.log()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("origin")
async def test_what_is_waited_for_is_said_with_how_to_end_it(tmp_path: Path, way: str) -> None:
    async with started(way, tmp_path) as served:
        film, slow = await served.begin("/films/a"), await served.begin("/slow")
        for client in (film, slow):
            assert (await client.head()).status == 200
        served.send(signal.SIGINT)
        said = await served.said(rf"waiting for 2 responses \((.*)\); {HOW}")
        assert sorted(said[1].split(", ")) == ["1 of films", "1 of the application"]
        served.send(signal.SIGINT)
        # Also where the end of the connection could be taken for that of the body.
        for client in (film, slow):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client.reader.readexactly(100)
        assert await served.running.ended() == (1 if way == "run_app" else 128 + signal.SIGINT)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("origin")
async def test_a_second_signal_ends_whatever_handlers_do(tmp_path: Path, way: str) -> None:
    async with started(way, tmp_path) as served:
        await served.begin("/stuck")
        async with asyncio.timeout(20):
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
        served.send(signal.SIGTERM)
        await served.said("waiting for 1 responses")
        served.send(signal.SIGTERM)
        assert await served.running.ended() == (1 if way == "run_app" else 128 + signal.SIGTERM)


@pytest.mark.parametrize("way", ["serve", "run_app"])
@pytest.mark.usefixtures("origin")
async def test_sighup_without_workers_does_nothing_and_says_so(tmp_path: Path, way: str) -> None:
    async with started(way, tmp_path) as served:
        subscriber = await served.subscribe("/topics/news")
        served.send(signal.SIGHUP)
        await served.said("SIGHUP: nothing is reloaded")
        film = await served.begin("/films/a")
        assert (await film.head()).status == 200, "it serves on"
        served.send(signal.SIGTERM)
        await served.said("waiting for 1 responses")
        served.send(signal.SIGHUP)
        await served.said("SIGHUP: already stopping")
        assert (await subscriber.reader.read()).endswith(b"0\r\n\r\n")
        assert served.running.process.returncode is None
        served.send(signal.SIGTERM)
        await served.running.ended()


@pytest.mark.usefixtures("origin")
async def test_sighup_while_workers_stop_kills_no_process(tmp_path: Path) -> None:
    async with started("workers", tmp_path) as served:
        film = await served.begin("/films/a")
        assert (await film.head()).status == 200
        served.send(signal.SIGTERM)
        await served.said("waiting for 1 responses")
        served.send(signal.SIGHUP)
        await served.said("SIGHUP: already stopping")
        film.abort()
        assert await served.running.ended() == 0


@pytest.mark.usefixtures("origin")
async def test_a_server_whose_terminal_goes_stops(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(APP)
    terminal, end = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "mine:app"),
        cwd=tmp_path,
        stdin=end,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(end)
    running = Running(process)
    await running.wait_for(LISTENING)
    process.send_signal(signal.SIGHUP)
    assert await running.ended() == 0
    assert "SIGHUP: stopping" in running.log()
    os.close(terminal)


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize("way", ["native", "workers"])
async def test_what_belongs_to_the_process_goes_with_it(
    tmp_path: Path, way: str, signals: int, origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control socket, and where workers have theirs."""
    (tmp_path / "mine.py").write_text(APP)
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    control = tmp_path / "run" / "control"
    options = ("--cache", "4MiB", "--control", f"unix:{control}")
    what = ("--origin", origin.url) if way == "native" else ("mine:app", "--workers", "1")
    async with serve(*what, *options, directory=tmp_path) as running:
        assert control.exists()
        client = await RawClient.connect(running.port)
        await client.get("/films/a")
        assert (await client.head()).status == 200
        running.process.send_signal(signal.SIGTERM)
        await running.wait_for(re.compile("waiting for 1 responses"))
        if signals == 2:
            running.process.send_signal(signal.SIGTERM)
        client.abort()
        await running.ended()
    assert list((tmp_path / "run").iterdir()) == []


STARTING = """
import asyncio, sys
from pathlib import Path
from aiohttp import web

async def life(app):
    print("starting", file=sys.stderr, flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    yield
    print("cleaned up", file=sys.stderr, flush=True)

app = web.Application()
app.cleanup_ctx.append(life)
"""


async def test_a_signal_while_the_application_starts_stops_it_cleanly(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STARTING)
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "serve", "mine:app", "--listen", "127.0.0.1:0"),
        cwd=tmp_path,
        stderr=asyncio.subprocess.PIPE,
    )
    running = Running(process)
    try:
        await running.wait_for(re.compile("starting"))
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert await running.ended() == 0
        assert "cleaned up" in running.log()
    finally:
        if process.returncode is None:
            process.kill()
            await running.ended()
