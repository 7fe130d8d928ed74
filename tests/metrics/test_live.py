"""What flows now: the events of the page, against traffic whose figures are known."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import Origins
from penstock.config import Cache, Caching, Health, Status
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import RawClient, answer
from support.hooks import TOKEN, Hook
from support.leaks import engine_under_test
from support.origins import Recorder
from support.waiting import in_time

from .conftest import Serve

ROWS = 20


def row(event: dict[str, Any], table: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in event[table]["rows"] if each["name"] == name)
    return dict(found)


def requests(event: dict[str, Any], table: str, path: str) -> list[dict[str, Any]]:
    return [each for each in event[table] if each["path"] == path]


class Held:
    """An origin that sends the beginning of each response, or nothing, until it is released."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue[str]()
        self.release = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        if "/begun" in request.target:
            await peer.send(answer("Content-Length: 10", body=b"hello"))
        self.asked.put_nowait(request.target)
        await self.release.wait()
        if "/begun" in request.target:
            await peer.send(b"world")
        else:
            await peer.send(answer("Content-Length: 2", body=b"ok"))


async def test_requests_say_what_they_wait_for(engine: penstock.Engine, serve: Serve) -> None:
    script = Held()
    answered = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await answered.wait()
        return web.Response(text="done")

    async with ScriptedOrigin(script) as origin:
        gateway = Gateway(origin.url, engine=engine)
        app = web.Application()
        app.add_routes(
            [
                gateway.native("/vod/", name="vod"),
                web.get("/slow", slow),
                web.get("/relayed/{path}", gateway.relay),
            ]
        )
        served = await serve(engine, app)
        targets = ["/vod/begun?token=secret", "/vod/waits?token=secret", "/slow", "/relayed/waits"]
        clients = [await served.connect() for _ in targets]
        async with served.pages.viewer() as viewer:
            for client, target in zip(clients, targets, strict=True):
                await client.get(target)
            for _ in range(3):
                await in_time(script.asked.get(), "the origin is asked")
            event = await viewer.until(
                lambda event: len(event["slowest"]) == 3 and len(event["longest"]) == 1, "all are told"
            )
            assert "secret" not in str(event)
            (begun,) = requests(event, "longest", "/vod/begun")
            assert (begun["method"], begun["route"], begun["lane"]) == ("GET", "vod", "native")
            assert (begun["status"], begun["sent"], begun["awaits"]) == (200, 5, "origin")
            assert begun["client"] == "127.0.0.1"
            assert begun["age"] > 0
            waits = {one["path"]: (one["awaits"], one["lane"], one["status"]) for one in event["slowest"]}
            assert waits == {
                "/vod/waits": ("origin", "native", None),
                "/slow": ("application", "app", None),
                "/relayed/waits": ("origin", "app", None),
            }
            ages = [one["age"] for one in event["slowest"]]
            assert ages == sorted(ages, reverse=True)
            assert event["totals"]["active"] == 4
            assert event["silent"] == 0
            script.release.set()
            answered.set()
            for client in clients:
                head = await client.head()
                assert head.status == 200
                await client.body(head)
            await viewer.until(
                lambda event: (
                    not event["slowest"] and not event["longest"] and event["totals"]["active"] == 0
                ),
                "nothing is left",
            )
        for client in clients:
            client.abort()


async def test_a_client_that_does_not_read_is_what_a_response_waits_for(
    engine: penstock.Engine, serve: Serve
) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 1000000000", body=bytes(4 << 20)))
        await peer.wait_left()

    async with ScriptedOrigin(endless) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app)
        client = await RawClient.connect(served.site.port, receive_buffer=4096)
        try:
            await client.get("/vod/film")
            async with served.pages.viewer() as viewer:
                event = await viewer.until(
                    lambda event: any(one["awaits"] == "client" for one in event["longest"]), "the client"
                )
                (film,) = event["longest"]
                assert film["sent"] > 0
                assert row(event, "routes", "vod")["active"] == 1
        finally:
            client.abort()


async def test_figures_of_routes_origins_and_the_cache(serve: Serve, request: pytest.FixtureRequest) -> None:
    cached = "Cache-Control: max-age=600"
    async with (
        engine_under_test(request, cache=Cache(memory="1MiB"), threads=1) as engine,
        ScriptedOrigin(Recorder(response=answer("Content-Length: 2", cached, body=b"ok"))) as origin,
    ):
        closed = origin.url.rpartition(":")[0] + ":1"
        app = web.Application()
        vod = Gateway(origin.url, engine=engine, caching=Caching()).native("/vod/", name="vod")
        down = Gateway(closed, engine=engine).native("/down/", name="down")
        app.add_routes([vod, down])
        served = await serve(engine, app)
        asked = 0

        async def ask() -> None:
            nonlocal asked
            client = await served.connect()
            assert (await client.ask("/vod/a")).head.status == 200
            assert (await client.ask("/down/a")).head.status == 502
            asked += 1
            client.abort()

        await ask()
        seen = dict[str, float]()
        async with served.pages.viewer() as viewer:
            assert await viewer.history() == {"at": [], "figures": {}}
            first = await viewer.until(lambda _: True, "the first event")
            assert row(first, "routes", "vod")["requests"] is None, "no rate is known yet"
            for _ in range(20):
                await ask()
            before = first["at"]

            def add(event: dict[str, Any]) -> bool:
                nonlocal before
                seconds, before = (event["at"] - before) / 1000, event["at"]
                for name in ("vod", "down"):
                    found = row(event, "routes", name)
                    seen[name] = seen.get(name, 0) + found["requests"] * seconds
                    seen[f"{name} failed"] = seen.get(f"{name} failed", 0) + found["failures"] * seconds
                for each in event["origins"]["rows"]:
                    attempts = seen.get(each["name"], 0) + each["attempts"] * seconds
                    seen[each["name"]] = attempts
                return seen["vod"] > 19.5 and seen["down"] > 19.5

            event = await viewer.until(add, "all requests were in some event")
            assert seen["vod"] == pytest.approx(20, rel=0.05)
            assert seen["down failed"] == pytest.approx(20, rel=0.05)
            assert (seen["vod failed"], seen[origin.url]) == (0, 0), "all came from the cache"
            assert seen[closed] == pytest.approx(20, rel=0.05)
            assert row(event, "routes", "vod")["hits"] == 1
            assert row(event, "routes", "vod")["p95"] is not None
            assert row(event, "origins", closed)["health"] is None
            assert all(check["ok"] for check in event["checks"])
            assert (event["draining"], event["totals"]["pool_state"]) == (False, "open")
        # The next viewer has the last minutes.
        async with served.pages.viewer() as viewer:
            history = await viewer.history()
            assert len(history["at"]) == len(history["figures"]["route native vod"]) >= 2
            assert history["at"] == sorted(history["at"])
        await served.runner.cleanup()


async def test_origins_for_one_another_have_a_health(engine: penstock.Engine, serve: Serve) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        closed = origin.url.rpartition(":")[0] + ":1"
        health = Health(failures=1, eject=600.0, max_eject=600.0)
        origins = Origins([closed, origin.url], name="http://media.example", health=health)
        app = web.Application()
        app.add_routes([Gateway(origins, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app)

        async def ask() -> None:
            client = await served.connect()
            assert (await client.ask("/vod/a")).head.status == 200
            client.abort()

        async with served.pages.viewer() as viewer:
            for _ in range(20):
                await ask()
            event = await viewer.until(
                lambda event: any(each["health"] == "ejected" for each in event["origins"]["rows"]), "ejected"
            )
            assert row(event, "origins", closed)["ejected"] > 0
            assert row(event, "origins", origin.url)["health"] == "up"


async def test_topics_with_the_most_subscribers(engine: penstock.Engine, serve: Serve) -> None:
    hub = penstock.Hub(engine=engine)
    app = web.Application()
    app.add_routes([hub.native("/live/", name="live")])
    served = await serve(engine, app)
    clients = [await served.connect() for _ in range(3)]
    for client, topic in zip(clients, ["a", "a", "b"], strict=True):
        await client.get(f"/live/{topic}")
        assert (await client.head()).status == 200
    for number in range(1000):
        await hub.publish(f"other-{number}", "x")
    async with served.pages.viewer() as viewer:
        event = await viewer.until(lambda event: event["totals"]["subscribers"] == 3, "they are there")
        assert [each["name"] for each in event["topics"]["rows"][:2]] == ["a", "b"]
        assert [each["subscribers"] for each in event["topics"]["rows"][:3]] == [2, 1, 0]
        assert (len(event["topics"]["rows"]), event["topics"]["more"]) == (ROWS, 1002 - ROWS)
        assert {one["awaits"] for one in event["longest"]} == {"events"}
        await hub.publish("a", "hello")
        event = await viewer.until(lambda event: row(event, "topics", "a")["published"], "an event")
        seen = row(event, "topics", "a")
        assert seen["delivered"] == pytest.approx(2 * seen["published"], rel=0.01)
        assert (seen["lost"], seen["events"], seen["finished"]) == (0, 1, False)
    for client in clients:
        client.abort()
    hub.close()


async def test_viewers_above_the_limit_are_refused_until_one_leaves(
    engine: penstock.Engine, serve: Serve
) -> None:
    served = await serve(engine, web.Application(), status=Status(listen="127.0.0.1:0", viewers=2))
    async with served.pages.viewer() as first, served.pages.viewer() as second:
        for viewer in (first, second):
            assert viewer.head.status == 200
            assert viewer.head.one("Content-Type") == "text/event-stream"
            await viewer.until(lambda _: True, "an event")
        assert (await served.pages.get("/penstock/events")).head.status == 429
        assert (await served.pages.metrics()).text
        second.client.abort()
        while True:
            async with served.pages.viewer() as third:
                if third.head.status == 200:
                    await third.until(lambda _: True, "an event")
                    break
        await first.until(lambda _: True, "an event")


async def test_without_viewers_there_is_nothing_to_see(engine: penstock.Engine, serve: Serve) -> None:
    served = await serve(engine, web.Application(), status=Status(listen="127.0.0.1:0", viewers=0))
    assert (await served.pages.get("/events")).head.status == 404
    index = await served.pages.get("/", "Accept: text/html")
    assert index.head.one("Content-Type") == "text/plain; charset=utf-8"
    assert "events" not in index.body.decode()


async def test_a_viewer_that_does_not_read_costs_the_others_nothing(
    engine: penstock.Engine, serve: Serve
) -> None:
    # Names so long that an event is more than what sockets keep after some.
    gateway = Gateway("http://127.0.0.1:1", engine=engine)
    app = web.Application()
    app.add_routes([gateway.native(f"/{number}/", name=f"{number:03}" * 60) for number in range(250)])
    served = await serve(engine, app)
    for number in range(250):
        client = await served.connect()
        assert (await client.ask(f"/{number}/")).head.status == 502
        client.abort()
    stuck = await served.pages.connect(receive_buffer=4096)
    await stuck.get("/events")
    assert (await stuck.head()).status == 200
    async with served.pages.viewer() as viewer:
        for _ in range(3):
            event = await viewer.until(lambda _: True, "an event")
        assert (len(event["routes"]["rows"]), event["routes"]["more"]) == (ROWS, 250 - ROWS)
        assert (await served.pages.check("health"))[0] == 200
    # It gets whole events, of which some are missing, when it reads on.
    stuck.writer.write_eof()
    stuck.abort()


async def test_an_event_is_bounded_whatever_clients_ask(engine: penstock.Engine, serve: Serve) -> None:
    script = Held()
    async with ScriptedOrigin(script) as origin:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/vod/", name="vod")])
        served = await serve(engine, app)
        strange = "&'%22%3Cscript%3E"
        clients = []
        for number in range(60):
            client = await served.connect()
            clients.append(client)
            await client.get(f"/vod/{'a' * 1000}{strange}{number}")
        async with served.pages.viewer() as viewer:
            event = await viewer.until(
                lambda event: event["totals"]["lasting"] == 60 and event["slowest"], "all are there, and slow"
            )
            assert len(event["slowest"]) == ROWS
            assert all(len(one["path"]) <= 201 for one in event["slowest"])
        script.release.set()
        for client in clients:
            client.abort()


async def test_a_decision_is_waited_for_and_its_tenant_is_named(
    engine: penstock.Engine, serve: Serve
) -> None:
    script = Held()

    gate = asyncio.Event()
    hook = Hook(gate=gate)
    async with ScriptedOrigin(script) as origin:
        app = web.Application()
        gateway = Gateway(origin.url, engine=engine)
        app.add_routes([gateway.native("/vod/", name="vod", authorise=hook, decision_key=TOKEN)])
        served = await serve(engine, app)
        client = await served.connect()
        await client.get("/vod/a", "Token: good-a")
        async with served.pages.viewer() as viewer:
            event = await viewer.until(lambda event: event["slowest"], "the request")
            (waiting,) = event["slowest"]
            assert (waiting["awaits"], waiting["tenant"]) == ("decision", None)
            gate.set()
            await in_time(script.asked.get(), "the origin is asked")
            event = await viewer.until(
                lambda event: event["slowest"][0]["awaits"] == "origin", "it is let in"
            )
            assert event["slowest"][0]["tenant"] == "a"
            assert "good-a" not in str(event)
        script.release.set()
        client.abort()


async def test_the_page_goes_on_while_the_site_drains_and_ends_with_it(
    engine: penstock.Engine, serve: Serve
) -> None:
    release = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await release.wait()
        return web.Response(text="done")

    app = web.Application()
    app.router.add_get("/", slow)
    served = await serve(engine, app, shutdown=30)
    client = await served.connect()
    await client.get("/")
    async with served.pages.viewer() as viewer:
        await viewer.until(lambda event: event["slowest"], "it waits")
        stopping = asyncio.create_task(served.runner.cleanup())
        event = await viewer.until(lambda event: event["draining"], "it drains")
        assert [one["path"] for one in event["slowest"]] == ["/"]
        release.set()
        assert (await client.head()).status == 200
        client.abort()
        await in_time(stopping, "a viewer holds nothing up")
        with pytest.raises((ConnectionError, EOFError)):
            while await viewer.client.chunk():
                pass
            raise EOFError
