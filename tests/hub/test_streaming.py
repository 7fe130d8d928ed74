"""`Hub.stream` where the engine owns the sockets: subscribers of a handler are served as those of a native route are."""

import asyncio
import json

import pytest
from aiohttp import web

from penstock.config import Subscriptions
from support.client import RawClient
from support.subscribers import parse
from support.waiting import in_time, until

from .amounts import DATA, ENOUGH, SMALL
from .applications import Served

on_the_engine = pytest.mark.parametrize("served", ["one thread", "three threads", "workers"], indirect=True)
# With workers, what is served is not the application's to stop.
on_a_site = pytest.mark.parametrize("served", ["one thread", "three threads"], indirect=True)


def streaming(served: Served, **subscriptions: object) -> web.Application:
    """An application whose only handler streams, and which signals may be added to."""

    async def handler(request: web.Request) -> web.StreamResponse:
        terms = Subscriptions(**subscriptions)  # type: ignore[arg-type]
        return await served.hub.stream(request, request.match_info["topic"], subscriptions=terms)

    app = web.Application()
    app.router.add_get("/{topic}", handler)
    return app


@on_the_engine
async def test_an_event_wakes_neither_python_nor_a_stream(served: Served) -> None:
    hub, engine = served.hub, served.engine
    port = await served.serve(streaming(served))
    everyone = [await served.subscribe(port) for _ in range(30)]
    assert (hub.stats().subscribers, engine.stats().streams) == (30, 0), "no subscriber has a stream"
    first = await hub.publish("news", "first")
    for reader in everyone:
        # As it lies in the history, chunk and all.
        assert await in_time(reader.client.chunk()) == f"id: {first}\ndata: first\n\n".encode()
    before = engine.stats().wakeups
    for number in range(100):
        await hub.publish("news", str(number))
    for reader in everyone:
        assert await reader.data(100) == [str(number) for number in range(100)]
    assert engine.stats().wakeups == before
    await until(lambda: hub.stats().counts.delivered == 30 * 101, "all are counted")


@on_the_engine
async def test_a_connection_goes_on_after_a_topic(served: Served) -> None:
    port = await served.serve(streaming(served))
    reader = await served.subscribe(port, path="/one")
    for topic in ("one", "two", "three"):
        if topic != "one":
            await reader.client.get(f"/{topic}")
            assert (await in_time(reader.client.head())).status == 200
        await served.hub.publish(topic, "x")
        await served.hub.finish(topic)
        blocks = []
        while block := await in_time(reader.client.chunk()):
            blocks.append(parse(block).type)
        assert blocks == ["message", "penstock-end"]
    await until(lambda: served.hub.stats().subscribers == 0, "every subscriber has left")


async def test_a_client_of_http_1_0_gets_events_without_chunks(served: Served) -> None:
    port = await served.serve(streaming(served))
    client = await RawClient.connect(port)
    served.clients.append(client)
    await client.get("/news", version="1.0")
    assert (await in_time(client.head())).one("Transfer-Encoding") is None
    ids = [await served.hub.publish("news", str(number)) for number in range(3)]
    await served.hub.finish("news")
    expected = "".join(f"id: {id_}\ndata: {number}\n\n" for number, id_ in enumerate(ids))
    expected += f'id: {ids[-1]}\nevent: penstock-end\ndata: {{"last": "{ids[-1]}"}}\n\n'
    assert await in_time(client.rest()) == expected.encode()


async def test_what_is_published_between_decision_and_head_is_not_missed(served: Served) -> None:
    app = streaming(served)

    async def publish(_: web.Request, __: web.StreamResponse) -> None:
        assert served.hub.stats().subscribers == 1
        await served.hub.publish("news", "between")

    app.on_response_prepare.append(publish)
    reader = await served.subscribe(await served.serve(app))
    await served.hub.publish("news", "behind")
    assert await reader.data(2) == ["between", "behind"]


async def test_one_who_leaves_between_decision_and_head_is_counted_out(served: Served) -> None:
    app = streaming(served)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request, __: web.StreamResponse) -> None:
        begun.set()
        await go_on.wait()

    app.on_response_prepare.append(wait)
    client = await RawClient.connect(await served.serve(app))
    await client.get("/news")
    await in_time(begun.wait())
    assert served.hub.stats().subscribers == 1
    client.abort()
    await until(lambda: served.hub.stats().subscribers == 0, "it is counted out")
    go_on.set()


@on_the_engine
async def test_a_slow_subscriber_goes_on_after_a_gap(served: Served) -> None:
    hub = served.hub
    port = await served.serve(streaming(served, slow="drop-oldest"))
    client = await RawClient.connect(port, SMALL)
    served.clients.append(client)
    client.writer.transport.pause_reading()
    await client.get("/news")
    await until(lambda: hub.stats().subscribers == 1, "it is let in")
    fast = await served.subscribe(port)
    ids = []
    for number in range(ENOUGH):
        ids.append(await hub.publish("news", f"{number} {DATA}"))
        await fast.event()
    await hub.finish("news")
    client.writer.transport.resume_reading()
    head = await in_time(client.head())
    blocks = (await in_time(client.body(head))).decode().split("\n\n")
    last, gaps, position = None, 0, ""
    for block in blocks[:-2]:
        event = parse((block + "\n\n").encode())
        if event.type == "penstock-gap":
            said = json.loads(event.data)
            assert said["after"] == last, "what it had last"
            gaps, position = gaps + 1, said["resumed"]
        elif gaps and position:
            assert event.id == ids[ids.index(position) + 1]
            position = ""
        last = event.id
    assert last == ids[-1]
    assert gaps == hub.stats().counts.gaps > 0


@on_a_site
async def test_a_server_that_stops_ends_subscriptions_after_whole_events(served: Served) -> None:
    port = await served.serve(streaming(served))
    everyone = [await served.subscribe(port) for _ in range(5)]
    for number in range(20):
        await served.hub.publish("news", str(number))
    stopped = asyncio.ensure_future(served.runners[0].cleanup())
    for reader in everyone:
        got = []
        while (event := await reader.event()) is not None:
            got.append(event.data)
        # The last one has no data: it tells when to come back.
        assert got == [*map(str, range(20)), ""], "what was published before the stop"
        assert await in_time(reader.client.rest()) == b""
    await stopped


@on_the_engine
async def test_a_revoked_permit_ends_a_subscription_after_a_whole_event(served: Served) -> None:
    hub = served.hub
    may = True

    async def authorise(_: web.Request, __: str) -> bool | float:
        return 0.05 if may else False

    async def handler(request: web.Request) -> web.StreamResponse:
        return await hub.stream(request, request.match_info["topic"], authorise=authorise)

    reader = await served.subscribe(await served.serve(handler))
    got = []
    await hub.publish("news", "0")
    while (event := await reader.event()) is not None:
        got.append(event.data)
        may = len(got) < 50
        await hub.publish("news", str(len(got)))
    assert got == [str(number) for number in range(len(got))]
    assert len(got) >= 50
