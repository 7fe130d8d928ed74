"""What the edge does for workers, by `penstock serve --workers`: it serves, relays and asks, and outlives them."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.origins import ChunkSteps
from support.scraping import Pages
from support.waiting import until

from .serving import Serving, workers

APP = """
import os, sys
from pathlib import Path
from aiohttp import web
import penstock.web
from penstock import config
from penstock.web import Allow

Path(f"imported-{os.getpid()}").touch()
gateway = penstock.web.Gateway("ORIGIN")

def ended(end):
    error = getattr(end.error, "name", end.error)
    print(f"ended {end.path} {end.status} {end.bytes} {error}", file=sys.stderr)

async def relay(request):
    return await gateway.relay(request, on_complete=ended)

model = penstock.web.Gateway("ORIGIN", inspect=config.Inspection())

def metered(end):
    seen = end.inspected
    print(f"metered {end.status} {seen.events} {seen.first_token > 0} {seen.usage} in {os.getpid()}", file=sys.stderr)

async def ask(request):
    return await model.relay(request, on_complete=metered)

async def counts(request):
    stats = model.stats()["/model/{path}"]
    return web.Response(text=f"{stats.streams} {stats.events} {stats.with_usage} in {os.getpid()}")

async def authorise(request):
    Path(f"asked-{request.key[0]}-{os.getpid()}").touch()
    return request.key[0] == "let-me-in"

async def revoke(request):
    return web.Response(text=str(asked.decisions.revoke(everybody=True)))

asked = gateway.native("/asked/", authorise=authorise, decision_key="query:token", lifetime=60)
app = web.Application()
app.router.add_get("/relay/{path:.*}", relay)
app.router.add_get("/revoke", revoke)
app.router.add_get("/model/{path}", ask)
app.router.add_get("/counts", counts)
app.add_routes([
    gateway.native("/native/", on_complete=ended),
    gateway.native("/kept/", caching=config.Caching()),
    asked,
])
"""


class Origin:
    """Sends half of each body, and the rest when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.requests = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.requests += 1
            await peer.send(answer("Cache-Control: max-age=60", "Content-Length: 8", body=b"half"))
            await self.go_on.wait()
            await peer.send(b"rest")


async def begun(serving: Serving, target: str) -> RawClient:
    """A client that has the first half."""
    client = await serving.connect()
    await client.get(target)
    assert (await client.head()).status == 200
    assert await client.reader.readexactly(4) == b"half"
    return client


def app(origin: ScriptedOrigin, **changes: str) -> str:
    text = APP.replace("ORIGIN", origin.url)
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("target", ["/relay/a", "/native/a"])
async def test_what_flows_outlives_all_workers(directory: Path, target: str) -> None:
    origin = Origin()
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", app=app(scripted)) as serving,
    ):
        client = await begun(serving, target)
        killed = serving.alive()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(serving.alive() - killed) == 2, "others are started")
        origin.go_on.set()
        assert await client.reader.readexactly(4) == b"rest"
        await serving.logged(f"ended {target} 200 8 None")
        assert (await client.ask("/native/b")).body == b"halfrest", "its connection goes on"


async def test_what_is_inspected_outlives_all_workers_and_is_counted_once(directory: Path) -> None:
    token = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    last = b'data: {"choices":[],"usage":{"total_tokens":7}}\n\n'
    origin = ChunkSteps(token)
    where = f"unix:{directory / 'pages'}"
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", "--status-listen", where, app=app(scripted)) as serving,
    ):
        client = await serving.connect()
        await client.get("/model/a")
        await client.head()
        assert await client.chunk() == token
        killed = serving.alive()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(serving.alive() - killed) == 2, "others are started")
        for piece in (token, last):
            origin.put(piece)
            assert await client.chunk() == piece
        origin.end()
        assert await client.chunk() == b""
        told = await serving.logged(r"metered 200 3 True \{'total_tokens': 7\} in (\d+)")
        assert int(told[1]) not in killed
        # Whichever worker says it, it is the parent's.
        for _ in range(2):
            counts, pid = (await serving.ask("/counts")).split(" in ")
            assert counts == "1 3 1"
            assert int(pid) not in killed
            os.kill(int(pid), signal.SIGKILL)
            killed.add(int(pid))
        metrics = await Pages(where).metrics()
        assert metrics.get("inspected_events_total", route="/model/{path}") == 3
        assert serving.running.log().count("metered") == 1


@pytest.mark.parametrize("target", ["/relay/a", "/native/a"])
async def test_what_flows_outlives_a_reload(directory: Path, target: str) -> None:
    origin = Origin()
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", app=app(scripted)) as serving,
    ):
        client = await begun(serving, target)
        old = serving.alive()
        (directory / "mine.py").write_text(app(scripted, **{"/native/": "/other/"}))
        serving.running.process.send_signal(signal.SIGHUP)
        await serving.logged("generation 2 serves")
        assert (await serving.status("/native/b"), origin.requests) == (404, 1)
        origin.go_on.set()
        assert await serving.ask("/other/b") == "halfrest"
        assert await client.reader.readexactly(4) == b"rest"
        await until(lambda: not old & serving.alive(), "the old ones end")


async def test_a_stop_tells_the_application_how_the_last_responses_have_ended(directory: Path) -> None:
    origin = Origin()
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", app=app(scripted)) as serving,
    ):
        clients = [await begun(serving, target) for target in ("/relay/a", "/native/a")]
        serving.running.process.terminate()
        await serving.logged("stopping")
        origin.go_on.set()
        for client in clients:
            assert await client.reader.readexactly(4) == b"rest"
        assert await serving.running.ended() == 0
    for target in ("/relay/a", "/native/a"):
        assert f"ended {target} 200 8 None" in serving.running.log()
    assert "Traceback" not in serving.running.log()


async def test_one_worker_is_asked_for_all_and_any_can_revoke(directory: Path) -> None:
    origin = Origin()
    origin.go_on.set()
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", app=app(scripted)) as serving,
    ):
        statuses = await asyncio.gather(*(serving.status("/asked/a?token=let-me-in") for _ in range(10)))
        assert statuses == [200] * 10
        assert await serving.status("/asked/a?token=else") == 403
        assert len(serving.pids("asked-let-me-in")) == 1
        await serving.ask("/revoke")
        for pid in serving.pids("asked-let-me-in"):
            os.kill(pid, signal.SIGKILL)
        assert await serving.status("/asked/a?token=let-me-in") == 200
        assert len(serving.pids("asked-let-me-in")) == 2, "another one is asked anew"


async def test_what_is_stored_is_served_while_there_is_no_worker(directory: Path) -> None:
    origin = Origin()
    origin.go_on.set()
    async with (
        ScriptedOrigin(origin) as scripted,
        workers(directory, "--cache", "8MiB", app=app(scripted)) as serving,
    ):
        assert await serving.ask("/kept/a") == "halfrest"
        (directory / "mine.py").write_text("import time; time.sleep(1000)")
        for pid in serving.alive():
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not serving.alive(), "there is no worker")
        assert [await serving.ask("/kept/a") for _ in range(3)] == ["halfrest"] * 3
        assert origin.requests == 1
