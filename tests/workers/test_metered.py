"""Topics that an origin feeds, metered: by `penstock serve --workers`, in the hub's memory and in a Redis."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.brokers.redis_server import a_redis
from support.origins import Model
from support.waiting import until

from .serving import Serving, rest, subscribed, workers

APP = """
import os, sys
from pathlib import Path
from aiohttp import web
import penstock
from penstock.config import Inspection
from penstock.web import Gateway

Path(f"imported-{os.getpid()}").touch()
hub = penstock.Hub(log=LOG)
gateway = Gateway("ORIGIN", inspect=Inspection())

def metered(end):
    seen, error = end.inspected, getattr(end.error, "name", end.error)
    line = f"metered {end.path} {end.status} {end.bytes} {error} {seen.usage} in {os.getpid()}"
    print(line, file=sys.stderr, flush=True)

async def answer(request):
    return await gateway.relay(request, topic=request.match_info["topic"], hub=hub, on_complete=metered)

async def events(request):
    return await hub.stream(request, request.match_info["topic"])

async def counts(request):
    stats = gateway.stats().get("/answer/{topic}")
    return web.Response(text="none" if stats is None else f"{stats.streams} {stats.events} {stats.with_usage}")

async def who(request, response):
    response.headers["Worker"] = str(os.getpid())

app = web.Application()
app.on_response_prepare.append(who)
app.router.add_get("/answer/{topic}", answer)
app.router.add_get("/events/{topic}", events)
app.router.add_get("/counts", counts)
"""

TOKEN = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
USAGE = 'data: {"choices": [], "usage": {"total_tokens": 7}}\n\n'


@pytest.fixture(params=["memory", "redis"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """What the hub keeps its topics in, as the application says it."""
    if request.param == "memory":
        yield "None"
        return
    async with a_redis() as server:
        yield f"penstock.RedisLog({server.url!r})"


def app(origin: ScriptedOrigin, log: str) -> str:
    return APP.replace("ORIGIN", origin.url).replace("LOG", log)


async def counted(serving: Serving) -> str:
    counts = await serving.ask("/counts")
    async with asyncio.timeout(20):
        while counts in ("none", "0 0 0"):
            counts = await serving.ask("/counts")
    return counts


async def test_a_stream_is_metered_once_whichever_workers_are_asked(directory: Path, log: str) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin, workers(directory, app=app(origin, log)) as serving:
        first = await subscribed(serving, "/answer/film?a=b")
        others = [await subscribed(serving, f"/{way}/film") for way in ("answer", "events") for _ in range(4)]
        model.send(TOKEN)
        for reader in (first, *others):
            assert len(await reader.data(1)) == 1
        # It is read on for the others, and to its end.
        first.client.abort()
        model.send(USAGE)
        model.end()
        for reader in others:
            assert [event.type for event in await rest(reader)] == ["message", "penstock-end"]
        size = len(TOKEN + USAGE)
        told = await serving.logged(rf"metered /answer/film\?a=b 200 {size} None (\S+ \d+)\S in (\d+)")
        assert "total_tokens" in told[1]
        # Whichever worker says it, it is the parent's.
        for _ in range(4):
            assert await counted(serving) == "1 2 1"
        late = await subscribed(serving, "/answer/film")
        assert len(await late.data(2)) == 2
        assert model.requests == 1
    assert serving.running.log().count("metered") == 1


async def test_a_stream_whose_worker_dies_ends_for_those_who_read_it(directory: Path, log: str) -> None:
    """It is fetched by the worker that meters it."""
    model = Model()
    async with ScriptedOrigin(model) as origin, workers(directory, app=app(origin, log)) as serving:
        first = await subscribed(serving, "/answer/film")
        model.send(TOKEN)
        assert len(await first.data(1)) == 1
        os.kill(int(first.head.one("Worker")), signal.SIGKILL)
        *told, end = await rest(first)
        assert [json.loads(event.data)["error"]["name"] for event in told] == ["WORKER_GONE"]
        assert end.type == "penstock-end"
        await until(lambda: len(serving.alive()) == 2, "another one is started")
        late = await subscribed(serving, "/answer/film")
        assert [event.type for event in await rest(late)] == ["message", "error", "penstock-end"]
        assert model.requests == 1
    assert "metered" not in serving.running.log()
