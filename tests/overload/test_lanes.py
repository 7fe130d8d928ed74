"""Clients that stall and hold connections to an origin, by native routes, or relays of an application or a worker."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from penstock import Origins
from penstock.config import Cache, Caching, Edge, OriginLimits
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.leaks import engine_under_test
from support.waiting import in_time, until
from support.ways import Relay, Way

from .conftest import CONNECTIONS, count, endless

SMALL = 4096


class Lane:
    """A way to relay, on so many engine threads."""

    def __init__(self, way: Way, threads: int) -> None:
        self.way = way
        self.connections = CONNECTIONS * threads

    async def relay(self, origin: str | Origins, grace: float, **options: Any) -> Relay:
        edge = Edge(stall_grace=grace, write_timeout=None)
        return await self.way.relay(origin, edge=edge, **options)

    def cut(self) -> float:
        return count(self.way.engine, "client_evictions_total", reason="connection")

    def waiting(self) -> int:
        return sum(origin.waiting for origin in self.way.engine.stats().origins.values())

    def requests(self) -> int:
        """Under way, or waiting for a connection."""
        return self.waiting() + sum(origin.active for origin in self.way.engine.stats().origins.values())


@pytest.fixture(
    params=[
        *(
            pytest.param((name, threads), id=f"{name}, {threads} threads")
            for name in ("native", "app")
            for threads in (1, 3)
        ),
        pytest.param(("workers", 1), id="workers"),
    ]
)
async def lane(request: pytest.FixtureRequest) -> AsyncIterator[Lane]:
    name, threads = request.param
    limits = OriginLimits(connections=CONNECTIONS, waiting=64, idle_timeout=30)
    cache = Cache(memory="1MiB")
    async with engine_under_test(
        request, memory="16MiB", threads=threads, limits=limits, cache=cache
    ) as engine:
        lane = Lane(Way(engine, name), threads)
        yield lane
        await lane.way.close()
        del lane


async def stalled(relay: Relay) -> RawClient:
    client = await relay.way.connect(relay.port, SMALL)
    client.writer.transport.pause_reading()
    await client.get("/endless")
    return client


async def make_room(lane: Lane, relay: Relay, origin: ScriptedOrigin) -> None:
    """Clients that stall hold all connections, and some of them are cut for clients that wait."""
    for _ in range(lane.connections):
        await stalled(relay)
    await until(lambda: len(origin.connections) == lane.connections, "they hold all connections")
    for _ in range(3):
        client = await lane.way.connect(relay.port)
        assert (await in_time(client.ask(), "a client that waits is served")).body == b"ok"
    assert 1 <= lane.cut() < lane.connections, "others are left alone"


@pytest.mark.parametrize("options", [{}, {"caching": Caching()}], ids=["plain", "cached"])
@pytest.mark.parametrize("several", [False, True], ids=["one origin", "several"])
async def test_those_that_hold_all_connections_make_room_for_those_that_wait(
    lane: Lane, several: bool, options: dict[str, Any]
) -> None:
    async with ScriptedOrigin(endless) as origin:
        relay = await lane.relay(Origins([origin.url]) if several else origin.url, 0.2, **options)
        await make_room(lane, relay, origin)


async def test_a_client_that_takes_its_responses_does_not_wait_for_those_that_stall(lane: Lane) -> None:
    asked: list[str] = []

    async def noted(peer: Peer) -> None:
        await endless(peer, asked)

    async with ScriptedOrigin(noted) as origin:
        relay = await lane.relay(origin.url, 1.0)
        reader = await lane.way.connect(relay.port)
        assert (await reader.ask()).body == b"ok"
        asked.clear()
        line = 24
        crowd = [await stalled(relay) for _ in range(lane.connections + line)]
        await until(lambda: lane.waiting() + lane.cut() >= line, "a line")
        assert (await in_time(reader.ask(), "the client that reads is served")).body == b"ok"
        threads = lane.connections // CONNECTIONS
        assert asked.index("/") <= lane.connections + line - line // threads // 2, (
            "most of its line comes after it"
        )
        for client in crowd:
            client.abort()
        await until(lambda: lane.requests() == 0, "none of them reaches an origin that closes")


APP = [pytest.param(("app", threads), id=f"app, {threads} threads") for threads in (1, 3)]


@pytest.mark.parametrize("lane", APP, indirect=True)
@pytest.mark.parametrize("size", [1024, 65536])
async def test_handlers_that_write_what_they_fetch_lose_clients_that_hold_connections(
    lane: Lane, size: int
) -> None:
    async with ScriptedOrigin(endless) as origin:

        async def handler(request: web.Request) -> web.StreamResponse:
            # In chunks aiohttp joins what it writes, on most versions of Python, and what that is of is lost.
            length = "2" if request.path == "/" else f"{1 << 40}"
            response = web.StreamResponse(headers={"Content-Length": length})
            await response.prepare(request)
            async with lane.way.engine.get(f"{origin.url}{request.path}") as upstream:
                async for frame in upstream:
                    view = memoryview(frame)
                    for start in range(0, len(view), size):
                        await response.write(view[start : start + size])
            return response

        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        relay = await lane.way.serve(app, edge=Edge(stall_grace=0.2, write_timeout=None))
        await make_room(lane, relay, origin)
