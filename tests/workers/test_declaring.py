"""What an application declares, served by `penstock serve --workers` before worker processes that come and go."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from penstock.testing import ScriptedOrigin
from support.client import RawClient, answer
from support.origins import Recorder, Steps
from support.waiting import until

from .serving import Serving, workers

APP = """
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from aiohttp import web
from penstock import Hub, Origins, config, default_engine
from penstock.web import Allow, Deny, Gateway

Path(f"imported-{os.getpid()}").touch()

def note(what, *values):
    with open(what, "a") as file:
        print(os.getpid(), *values, file=file)

def hook(request):
    note("asked", *request.key)
    return Allow(request.key[0])

def told(end):
    note("ended", end.path, end.status, end.bytes, end.tenant)

origins = Origins(["ORIGIN"])
gateway = Gateway(origins)
films = gateway.native("/vod/", authorise=hook, decision_key="header:Token", lifetime=3600, on_complete=told)
segments = gateway.native("/seg/", authorise=films.decisions, caching=config.Caching(lifetime=3600))
hub = Hub()

async def relay(request):
    return await gateway.relay(request, on_complete=told, caching=config.Caching(tags=("relayed",)))

async def stats(request):
    found = {"decisions": asdict(films.decisions.stats()), "requests": origins.stats().requests, "topics": hub.topics()}
    return web.json_response(found)

async def revoke(request):
    return web.Response(text=str(films.decisions.revoke(tenant=request.query["tenant"]).decisions))

async def move(request):
    origins.set([request.query["to"]])
    return web.Response()

async def publish(request):
    return web.Response(text=await hub.publish("news", request.query["data"]))

async def purge(request):
    return web.Response(text=str(default_engine().cache.clear()))

app = web.Application()
for handler in (stats, revoke, move, publish, purge):
    app.router.add_get(f"/{handler.__name__}", handler)
app.add_routes([films, segments, hub.native("/events/")])
app.router.add_get("/{path:.*}", relay)
"""


def noted(serving: Serving, what: str) -> list[list[str]]:
    """What workers have noted of something, without who they were."""
    path = serving.directory / what
    return [line.split()[1:] for line in path.read_text().splitlines()] if path.exists() else []


async def found(serving: Serving) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(await serving.ask("/stats"))
    return stats


async def kill(serving: Serving) -> None:
    """End all workers at once, and wait until others serve."""
    before = serving.alive()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: len(serving.alive() - before) == 2, "others are there")


async def test_decisions_outlive_the_workers_that_made_them(directory: Path) -> None:
    async with (
        ScriptedOrigin(Recorder()) as origin,
        workers(directory, "--cache", "4MiB", app=APP.replace("ORIGIN", origin.url)) as serving,
    ):
        client = await serving.connect()
        for path in ("/vod/1", "/vod/2", "/seg/1"):
            assert (await client.ask(path, "Token: a")).body == b"ok"
        assert noted(serving, "asked") == [["a"], ["a"]]
        await kill(serving)
        assert (await client.ask("/vod/3", "Token: a")).body == b"ok"
        assert noted(serving, "asked") == [["a"], ["a"]]
        assert (await found(serving))["decisions"]["allowed"] == 2
        assert await serving.ask("/revoke?tenant=a") == "2"
        assert (await client.ask("/vod/4", "Token: a")).body == b"ok"
        assert noted(serving, "asked") == [["a"]] * 3
        ended = {(f"/vod/{number}", "200", "2", "a") for number in (1, 2, 3, 4)}
        # A worker that was killed after a call and before it could say so has the next one make that call again.
        await until(
            lambda: {tuple(end) for end in noted(serving, "ended")} == ended,
            lambda: f"all ends are told: {noted(serving, 'ended')}",
        )


async def test_handlers_change_what_the_parent_has(directory: Path) -> None:
    async with (
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"a"))) as a,
        ScriptedOrigin(Recorder(response=answer("Content-Length: 1", body=b"b"))) as b,
        workers(directory, "--cache", "4MiB", app=APP.replace("ORIGIN", a.url)) as serving,
    ):
        assert await serving.ask("/relayed/1") == "a"
        await serving.ask(f"/move?to={b.url}")
        for number in range(2, 6):
            assert await serving.ask(f"/relayed/{number}") == "b"
        client = await serving.connect()
        assert (await client.ask("/seg/1", "Token: x")).body == b"b"
        assert (await found(serving))["requests"] == 6
        assert await serving.ask("/purge") == "1"


async def test_a_subscription_goes_on_when_the_code_is_replaced(directory: Path) -> None:
    async with (
        ScriptedOrigin(Recorder()) as origin,
        workers(directory, "--cache", "4MiB", app=APP.replace("ORIGIN", origin.url)) as serving,
    ):
        client = await serving.connect()
        await client.get("/events/news")
        assert (await client.head()).status == 200
        old = serving.alive()
        (directory / "mine.py").write_text(APP.replace("ORIGIN", origin.url).replace("/vod/", "/films/"))
        os.kill(serving.running.process.pid, signal.SIGHUP)
        await serving.logged("generation 2 serves")
        await until(lambda: not serving.alive() & old, "the old ones are gone")
        assert await serving.ask("/publish?data=hello")
        text = b""
        while b"data: hello" not in text:
            text += await client.chunk()
        other = await serving.connect()
        assert (await other.ask("/films/1", "Token: a")).body == b"ok"
        # What the new code has not declared is the application's.
        assert await serving.ask("/vod/1") == "ok"
        assert noted(serving, "asked") == [["a"]]


async def test_another_worker_is_told_of_a_relay_whose_own_was_killed(directory: Path) -> None:
    steps = Steps(answer("Content-Length: 6"))
    async with (
        ScriptedOrigin(steps) as origin,
        workers(directory, "--cache", "4MiB", app=APP.replace("ORIGIN", origin.url)) as serving,
    ):
        client: RawClient = await serving.connect()
        await client.get("/film")
        steps.pieces.put_nowait(b"one")
        await client.head()
        assert await client.reader.readexactly(3) == b"one"
        await kill(serving)
        steps.pieces.put_nowait(b"two")
        steps.pieces.put_nowait(None)
        assert await client.reader.readexactly(3) == b"two"
        await until(lambda: noted(serving, "ended"), "the end is told")
        assert noted(serving, "ended") == [["/film", "200", "6", "None"]]


async def test_what_ends_while_the_server_stops_is_told(directory: Path) -> None:
    steps = Steps(answer("Content-Length: 6"))
    async with (
        ScriptedOrigin(steps) as origin,
        workers(directory, "--cache", "4MiB", app=APP.replace("ORIGIN", origin.url)) as serving,
    ):
        client = await serving.connect()
        await client.get("/vod/1", "Token: a")
        await client.head()
        serving.running.process.send_signal(signal.SIGTERM)
        await serving.logged("SIGTERM: stopping")
        steps.pieces.put_nowait(b"onetwo")
        steps.pieces.put_nowait(None)
        assert await client.reader.readexactly(6) == b"onetwo"
        assert await serving.running.ended() == 0
        assert noted(serving, "ended") == [["/vod/1", "200", "6", "a"]]
