"""Subscriptions from Python: by a handler, on the engine's sockets and on stock transports, and as frames."""

from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock.config import Subscriptions
from penstock.web import TENANT
from support.client import RawClient
from support.waiting import in_time, until

from .applications import Handler, Served


def streaming(served: Served, **options: Any) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await served.hub.stream(request, request.match_info["topic"], **options)

    return handler


async def test_a_handler_lets_clients_subscribe_and_resume(served: Served) -> None:
    hub = served.hub
    port = await served.serve(streaming(served, headers={"X-Accel-Buffering": None, "X-Own": "a"}))
    everyone = [await served.subscribe(port) for _ in range(5)]
    for reader in everyone:
        head = reader.head
        assert (head.status, head.one("Content-Type")) == (200, "text/event-stream")
        assert (head.one("Cache-Control"), head.one("X-Own")) == ("no-cache", "a")
        assert head.one("X-Accel-Buffering") is None
    ids = [await hub.publish("news", str(number)) for number in range(10)]
    for reader in everyone:
        assert await reader.data(10) == [str(number) for number in range(10)]
    back = await served.subscribe(port, f"Last-Event-ID: {ids[7]}")
    assert (back.head.one("Penstock-Resume"), await back.data(2)) == ("full", ["8", "9"])
    back = await served.subscribe(port, path=f"/news?lastEventId={ids[8]}")
    assert (back.head.one("Penstock-Resume"), await back.data(1)) == ("full", ["9"])
    back = await served.subscribe(port, "Last-Event-ID: \xff")
    event = await back.event()
    assert event is not None
    assert (back.head.one("Penstock-Resume"), event.type) == ("gap", "penstock-gap")
    await hub.finish("news")
    assert (await everyone[0].event()).type == "penstock-end"  # type: ignore[union-attr]
    assert await everyone[0].event() is None
    over = await served.subscribe(port, f"Last-Event-ID: {ids[9]}")
    assert (over.head.status, over.head.one("Content-Type")) == (204, None)
    await over.client.get("/other")
    assert (await in_time(over.client.head())).status == 200


async def test_a_native_route_is_the_same_on_every_server(served: Served) -> None:
    app = web.Application()
    sub = web.Application()
    subscriptions = Subscriptions(join="start", open=False)
    sub.add_routes([served.hub.native("/events/", subscriptions=subscriptions)])

    async def published(request: web.Request) -> web.Response:
        return web.Response(text=await served.hub.publish(request.match_info["topic"], await request.text()))

    sub.router.add_post("/events/{topic}", published)
    app.add_subapp("/live", sub)
    port = await served.serve(app)
    client = await RawClient.connect(port)
    served.clients.append(client)
    await client.get("/live/events/a%20%C3%A9", "Content-Length: 2", method="POST")
    await client.send(b"hi")
    head = await in_time(client.head())
    assert (head.status, bool(await client.body(head))) == (200, True)
    reader = await served.subscribe(port, path="/live/events/a%20%C3%A9")
    assert await reader.data(1) == ["hi"]
    for path, status in (("/live/events/none", 404), ("/live/events/%ff", 400), ("/live/events/", 400)):
        assert (await served.subscribe(port, path=path)).head.status == status, path
    await client.get("/live/events/a%20%C3%A9", method="HEAD")
    head = await in_time(client.head())
    assert (head.status, head.one("Content-Type")) == (200, "text/event-stream")


async def test_a_hook_is_asked_once_and_again_when_its_answer_has_run_out(served: Served) -> None:
    answers: list[bool | float] = [0.05, 0.05, False]
    asked: list[tuple[str | None, str]] = []

    async def authorise(request: web.Request, topic: str) -> bool | float:
        asked.append((request.get(TENANT), topic))
        return answers.pop(0) if answers else False

    port = await served.serve(streaming(served, authorise=authorise, tenant="t"))
    reader = await served.subscribe(port)
    await served.hub.publish("news", "a")
    assert await reader.data(1) == ["a"]
    assert await reader.event() is None, "the last answer was no"
    assert asked == [("t", "news")] * 3
    refused = await served.subscribe(port)
    assert refused.head.status == 403
    answers.append(True)
    allowed = await served.subscribe(port)
    await served.hub.publish("news", "b")
    assert await allowed.data(1) == ["b"]
    assert len(asked) == 5


async def test_a_hook_that_fails_later_has_refused(served: Served) -> None:
    calls = 0

    async def authorise(_: web.Request, __: str) -> bool | float:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError
        return 0.02

    port = await served.serve(streaming(served, authorise=authorise))
    assert await (await served.subscribe(port)).event() is None


async def test_tenants_have_limits_of_their_own(served: Served) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        terms = Subscriptions(per_tenant=2)
        return await served.hub.stream(
            request, request.match_info["topic"], tenant=request.query["tenant"], subscriptions=terms
        )

    port = await served.serve(handler)
    for number in range(2):
        assert (await served.subscribe(port, path=f"/t{number}?tenant=a")).head.status == 200
    assert (await served.subscribe(port, path="/t2?tenant=a")).head.status == 429
    assert (await served.subscribe(port, path="/t2?tenant=b")).head.status == 200


async def test_a_quiet_subscription_gets_comments(served: Served) -> None:
    port = await served.serve(streaming(served, subscriptions=Subscriptions(heartbeat=0.02)))
    reader = await served.subscribe(port)
    # However it is cut into chunks.
    text = b""
    while len(text) < 9:
        text += await in_time(reader.client.chunk())
    assert text[:9] == b":\n\n" * 3


async def test_one_who_leaves_is_counted_out(served: Served) -> None:
    port = await served.serve(streaming(served))
    readers = [await served.subscribe(port) for _ in range(4)]
    assert served.hub.stats().subscribers == 4
    for reader in readers[:2]:
        reader.client.abort()
    await until(lambda: served.hub.stats().subscribers == 2, "they have left")
    await served.hub.publish("news", "x")
    assert await readers[2].data(1) == ["x"]


async def test_python_listens_too(served: Served) -> None:
    hub = served.hub
    await served.serve(web.Application())
    async with hub.subscribe("news", subscriptions=Subscriptions(retry=1)) as events:
        assert (events.status, events.headers.get("Penstock-Resume")) == (200, None)
        first = await hub.publish("news", "a", event="kind")
        await hub.publish("news", "b\nc")
        await hub.finish("news")
        got = []
        async for frame in events:
            got.append((bytes(frame.event or b""), bytes(frame.data or b"")))
            frame.release()
    assert got[:2] == [(b"kind", b"a"), (b"", b"b\nc")]
    assert [kind for kind, _ in got[2:]] == [b"penstock-end"]
    async with hub.subscribe("news", after=first) as events:
        assert events.headers["Penstock-Resume"] == "full"
        assert len([frame async for frame in events]) == 2
    async with hub.subscribe("news") as events:
        assert events.status == 204
    with pytest.raises(penstock.ArgumentError, match="BAD_TOPIC"):
        await hub.subscribe("")
    with pytest.raises(penstock.ArgumentError, match="UNKNOWN_TOPIC"):
        await hub.subscribe("none", subscriptions=Subscriptions(open=False))
    async with hub.subscribe("closing") as events:
        # A worker ends nothing of what all have.
        served.owner.close()
        assert [frame async for frame in events] == []
