"""Topics of `penstock serve --workers`, which handlers answer with, feed and listen to."""

import asyncio
import json
import os
import signal
import zlib
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import ScriptedOrigin
from support.brokers.redis_server import RedisServer
from support.client import RawClient
from support.origins import Model
from support.subscribers import parse
from support.waiting import DEADLINE, in_time, until

from .serving import Serving, rest, subscribed, workers

APP = """
import asyncio, os, sys
from dataclasses import asdict
from pathlib import Path
from aiohttp import web
import penstock
from penstock import Hub, default_engine
from penstock.config import Subscriptions
from penstock.web import Gateway

Path(f"imported-{os.getpid()}").touch()
hub = Hub()
gateway = Gateway("http://127.0.0.1:9")

async def events(request):
    terms = Subscriptions(per_tenant=1, heartbeat=None)
    tenant = request.query.get("tenant")
    return await hub.stream(request, request.match_info["topic"], tenant=tenant, subscriptions=terms)

async def who(request, response):
    response.headers["Worker"] = str(os.getpid())

async def authorise(request, topic):
    said = Path("may").read_text()
    Path(f"asked-{said}-{os.getpid()}").touch()
    return said == "yes" or float(said)

async def guarded(request):
    return await hub.stream(request, request.match_info["topic"], authorise=authorise)

async def passed(request):
    return await hub.stream(request, request.match_info["topic"])

async def compress(request, response):
    # What is compressed is aiohttp's to write.
    if request.path.startswith("/passed/"):
        request._payload_writer.enable_compression("deflate")
        response.headers["Content-Encoding"] = "deflate"

async def answer(request):
    return await gateway.relay(request, topic=request.match_info["topic"], hub=hub)

async def publish(request):
    return web.Response(text=await hub.publish(request.match_info["topic"], request.query["data"]))

async def finish(request):
    return web.Response(text=str(await hub.finish(request.match_info["topic"])))

async def stats(request):
    return web.json_response(asdict(hub.stats()))

async def watch(app):
    # From before the parent has reached this worker.
    async def listen():
        while True:
            try:
                async with hub.subscribe("watched") as events:
                    Path(f"listens-{os.getpid()}").touch()
                    async for frame in events:
                        Path(f"heard-{bytes(frame.data).decode()}-{os.getpid()}").touch()
                        frame.release()
            except penstock.PenstockError as error:
                print("listening has ended:", error.name, file=sys.stderr, flush=True)
                return
    task = asyncio.create_task(listen())
    yield
    await asyncio.wait({task}, timeout=0.01)
    task.cancel()

async def own(request):
    # What this worker has fetched itself.
    response = await default_engine().get("http://127.0.0.1:9")
    await hub.feed(request.match_info["topic"], response)
    try:
        await hub.feed(request.match_info["topic"], await default_engine().get("http://127.0.0.1:9"))
    except penstock.StateError as error:
        return web.Response(text=f"{os.getpid()} {error.name}")

app = web.Application()
app.cleanup_ctx.append(watch)
app.on_response_prepare.append(who)
app.on_response_prepare.append(compress)
for handler in (events, guarded, passed, answer, own, publish, finish):
    app.router.add_route("*", f"/{handler.__name__}/{{topic}}", handler)
app.router.add_get("/stats", stats)
"""


async def come_to(serving: Serving, count: int) -> None:
    """Wait until so many clients have subscribed: each worker is a subscriber itself."""
    client = await serving.connect()

    async def counted() -> None:
        stats: dict[str, Any] = {}
        while stats.get("subscribers") != count + 2:
            reply = await client.ask("/stats")
            assert reply.head.status == 200, reply
            stats = json.loads(reply.body)

    await in_time(counted(), f"{count} clients listen", within=DEADLINE)


async def no_client_listens(serving: Serving) -> None:
    await come_to(serving, 0)


def allow(directory: Path, answer: str) -> None:
    """Have the hook answer so. It may read at any moment, and reads an answer that is whole."""
    new = directory / "new"
    new.write_text(answer)
    new.replace(directory / "may")


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


async def test_subscribers_outlive_the_worker_that_let_them_in(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        both = [await subscribed(serving, "/events/news") for _ in range(2)]
        await serving.ask("/publish/news?data=one")
        for reader in both:
            assert await reader.data(1) == ["one"]
        before = serving.alive()
        kill(*before)
        # Another worker answers this.
        last = await serving.ask("/publish/news?data=two")
        assert len(serving.alive() - before) > 0
        for reader in both:
            assert await reader.data(1) == ["two"]
        back = await subscribed(serving, "/events/news", f"Last-Event-ID: {last}")
        assert back.head.one("Penstock-Resume") == "full"
        assert await serving.ask("/finish/news") == "True"
        for reader in (*both, back):
            (end,) = await rest(reader)
            assert end.type == "penstock-end"
        reply = await (await serving.connect()).ask("/events/news", f"Last-Event-ID: {last}")
        assert (reply.head.status, reply.body) == (204, b"")
        # The connection of one that was served goes on.
        assert (await both[0].client.ask("/stats")).head.status == 200
        await no_client_listens(serving)
    assert "Traceback" not in serving.running.log()


async def test_subscribers_outlive_a_reload(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        reader = await subscribed(serving, "/events/news")
        old = serving.alive()
        serving.running.process.send_signal(signal.SIGHUP)
        await serving.logged("generation 2 serves")
        await until(lambda: not serving.alive() & old, "the old ones are gone")
        await serving.ask("/publish/news?data=one")
        assert await reader.data(1) == ["one"]


async def test_limits_count_the_subscribers_of_all_workers(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        first = await subscribed(serving, "/events/news?tenant=a")
        for _ in range(4):
            reply = await (await serving.connect()).ask("/events/news?tenant=a")
            assert reply.head.status == 429
            assert json.loads(reply.body)["name"] == "TOO_MANY_REQUESTS"
        await subscribed(serving, "/events/news?tenant=b")
        first.client.abort()
        await come_to(serving, 1)
        await subscribed(serving, "/events/news?tenant=a")


@pytest.mark.parametrize("path", ["/events/%0A", "/events/" + "a" * 600])
async def test_what_refuses_is_answered_by_its_code(directory: Path, path: str) -> None:
    async with workers(directory, app=APP) as serving:
        reply = await (await serving.connect()).ask(path)
        assert (reply.head.status, json.loads(reply.body)["name"]) == (400, "BAD_TOPIC")
        reply = await (await serving.connect()).ask("/events/news", method="HEAD")
        assert (reply.head.status, reply.head.one("Content-Type")) == (200, "text/event-stream")
        await no_client_listens(serving)


async def test_a_permit_is_asked_for_again_and_withdrawn(directory: Path) -> None:
    allow(directory, "0.05")
    async with workers(directory, app=APP) as serving:
        reader = await subscribed(serving, "/guarded/news")
        (asked,) = serving.pids("asked")
        (directory / f"asked-0.05-{asked}").unlink()
        await until(lambda: serving.pids("asked") == {asked}, "it is asked anew where it was let in")
        await serving.ask("/publish/news?data=one")
        assert await reader.data(1) == ["one"]
        allow(directory, "0")
        assert await rest(reader) == []
        await no_client_listens(serving)
        assert await serving.status("/guarded/news") == 403


async def test_a_permit_without_a_limit_outlives_who_gave_it(directory: Path) -> None:
    allow(directory, "0.05")
    async with workers(directory, app=APP) as serving:
        reader = await subscribed(serving, "/guarded/news")
        allow(directory, "yes")
        (asked,) = serving.pids("asked-0.05")
        await until(lambda: serving.pids("asked-yes") == {asked}, "it is asked anew")
        kill(asked)
        await serving.logged("was killed by SIGKILL")
        await serving.ask("/publish/news?data=one")
        assert await reader.data(1) == ["one"]


async def test_a_permit_runs_out_where_its_worker_is_gone(directory: Path) -> None:
    allow(directory, "0.5")
    hasty = APP + "\nfrom penstock.web import subscription\nsubscription._GRACE = 3.0\n"
    async with workers(directory, app=hasty) as serving:
        reader = await subscribed(serving, "/guarded/news")
        (asked,) = serving.pids("asked")
        kill(asked)
        await serving.logged("was killed by SIGKILL")
        await serving.ask("/publish/news?data=one")
        # Behind a whole event, and as a response ends that is whole: it comes back, and another one is asked.
        assert [event.data for event in await rest(reader)] == ["one"]
        await subscribed(serving, "/guarded/news")
        assert serving.pids("asked") != {asked}


async def test_a_client_that_leaves_is_counted_out(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        for path in ("/events/news", "/passed/news"):
            reader = await subscribed(serving, path)
            await come_to(serving, 1)
            reader.client.abort()
            await no_client_listens(serving)


async def test_what_passes_the_worker_ends_with_it(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        reader = await subscribed(serving, "/passed/news")
        kill(int(reader.head.one("Worker") or 0))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.client.body(reader.head)
        await no_client_listens(serving)


async def test_what_passes_the_worker_comes_whole(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        reader = await subscribed(serving, "/passed/news")
        data = [str(number) * 1000 for number in range(9)]
        for each in data:
            await serving.ask(f"/publish/news?data={each}")
        await serving.ask("/finish/news")
        text = zlib.decompress(await reader.client.body(reader.head))
        blocks = [parse(block + b"\n\n") for block in text.split(b"\n\n") if block not in (b"", b":")]
        assert [event.data for event in blocks[:-1]] == data
        assert blocks[-1].type == "penstock-end"


def app(origin: ScriptedOrigin) -> str:
    return APP.replace("http://127.0.0.1:9", origin.url)


async def test_a_topic_is_fed_on_when_its_worker_is_gone(directory: Path) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin, workers(directory, app=app(origin)) as serving:
        first = await subscribed(serving, "/answer/film")
        model.send("data: a\n\n")
        assert await first.data(1) == ["a"]
        second = await subscribed(serving, "/answer/film")
        assert await second.data(1) == ["a"]
        before = serving.alive()
        kill(*before)
        model.send("data: b\n\n")
        for reader in (first, second):
            assert await reader.data(1) == ["b"]
        third = await subscribed(serving, "/answer/film")
        assert await third.data(2) == ["a", "b"]
        assert not serving.alive() & before
        model.end()
        for reader in (first, second, third):
            assert [event.type for event in await rest(reader)] == ["penstock-end"]
        assert model.requests == 1
        await no_client_listens(serving)


async def test_a_topic_of_a_shared_log_is_fed_on_when_its_worker_is_gone(
    directory: Path, server: RedisServer
) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin:
        log = f"hub = Hub(log=penstock.config.RedisLog({server.url!r}))"
        async with workers(directory, app=app(origin).replace("hub = Hub()", log)) as serving:
            await until(lambda: len(serving.pids("listens")) == 2, "the parent follows the log")
            first = await subscribed(serving, "/answer/film")
            model.send("data: a\n\n")
            assert await first.data(1) == ["a"]
            before = serving.alive()
            kill(*before)
            model.send("data: b\n\n")
            assert await first.data(1) == ["b"]
            second = await subscribed(serving, "/answer/film")
            assert await second.data(2) == ["a", "b"]
            assert not serving.alive() & before
            model.end()
            for reader in (first, second):
                assert [event.type for event in await rest(reader)] == ["penstock-end"]
            assert model.requests == 1


async def test_a_topic_is_fed_once_by_whichever_worker_is_asked(directory: Path) -> None:
    models = [Model() for _ in range(8)]
    async with ScriptedOrigin(*models) as origin, workers(directory, app=app(origin)) as serving:
        readers = await asyncio.gather(*(subscribed(serving, "/answer/film") for _ in range(8)))
        # The edge takes a worker for slow that a busy machine keeps from its core, and asks the other for all.
        async with asyncio.timeout(30):
            while len({reader.head.one("Worker") for reader in readers}) < 2:
                await asyncio.sleep(0.01)
                readers.append(await subscribed(serving, "/answer/film"))
        for model in models:
            model.send("data: a\n\n")
            model.end()
        for reader in readers:
            assert await reader.data(1) == ["a"]
            assert [event.type for event in await rest(reader)] == ["penstock-end"]
        # Two workers may have asked in one moment; the answer of one was dropped.
        assert 1 <= sum(model.requests for model in models) <= 2


async def test_a_topic_goes_on_without_the_one_who_asked_first(directory: Path) -> None:
    model = Model()
    async with ScriptedOrigin(model) as origin, workers(directory, app=app(origin)) as serving:
        first: RawClient = (await subscribed(serving, "/answer/film")).client
        first.abort()
        await no_client_listens(serving)
        model.send("data: a\n\n")
        reader = await subscribed(serving, "/answer/film")
        assert await reader.data(1) == ["a"]
        model.end()


async def test_workers_listen_for_no_request(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        await until(lambda: serving.pids("listens") == serving.alive(), "both listen")
        await serving.ask("/publish/watched?data=one")
        await until(lambda: serving.pids("heard-one") == serving.alive(), "both have heard it")
        killed = min(serving.alive())
        kill(killed)
        await until(lambda: len(serving.pids("listens")) == 3, "another one listens")
        await serving.ask("/publish/watched?data=two")
        await until(lambda: serving.pids("heard-two") == serving.alive(), "it has heard it")
        await no_client_listens(serving)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_a_worker_has_itself_feeds_a_topic_as_long_as_it_lives(
    directory: Path, is_killed: bool
) -> None:
    models = [Model(), Model()]
    async with ScriptedOrigin(*models) as origin, workers(directory, app=app(origin)) as serving:
        pid, refused = (await serving.ask("/own/film")).split()
        assert refused == "BUSY"
        reader = await subscribed(serving, "/events/film")
        models[0].send("data: a\n\n")
        assert await reader.data(1) == ["a"]
        if is_killed:
            kill(int(pid))
        else:
            models[0].end()
        *told, end = await rest(reader)
        assert [json.loads(event.data)["error"]["name"] for event in told] == ["WORKER_GONE"] * is_killed
        assert end.type == "penstock-end"
