"""The ways to relay an event stream, each behind one call, and what tests of them send and receive."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web, web_app

import penstock
from penstock.config import Edge, EventRelay, Timeouts
from penstock.stats import InspectionStats, RelayStats
from penstock.testing import Peer
from penstock.web import Gateway, RelayEnd, Site

from .client import RawClient
from .family import Family
from .leaks import engine_under_test
from .loops import leave_out
from .waiting import until
from .worker_ends import EdgeEnd, Worker

BEAT = b":\n\n"
# Waited for often, and far above what a busy machine needs to send an event.
SOON = EventRelay(heartbeat=0.05)
# What no test waits for.
NEVER = Timeouts(between_bytes=None, first_byte=None)


@dataclass
class Relay:
    """A gateway on a port of its own."""

    way: "Way"
    port: int
    ends: "asyncio.Queue[RelayEnd]" = field(default_factory=asyncio.Queue)
    """What became of each relay, in order; none of a route."""

    async def ask(self, *fields: str, version: str = "1.1", receive_buffer: int | None = None) -> RawClient:
        """A client that has asked."""
        client = await self.way.connect(self.port, receive_buffer)
        await client.get("/", *fields, version=version)
        return client


class Way:
    """One way to relay, until the test ends."""

    def __init__(self, engine: penstock.Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.sites: list[web.BaseSite] = []
        self._runners: list[web.AppRunner] = []
        self._clients: list[RawClient] = []
        self._edges: list[tuple[EdgeEnd, Worker]] = []
        self._family: Family | None = None

    @property
    def is_route(self) -> bool:
        return self.name in {"native", "stock route"}

    @property
    def is_stock(self) -> bool:
        return self.name.startswith("stock")

    def counts(self) -> RelayStats:
        return self.engine.stats().relays

    async def relay(self, origin: str, *, edge: Edge | None = None, **options: Any) -> Relay:
        """Relay every path to `origin`. What only a route or only a relay takes is for that alone."""
        gateway = await self.gateway(origin)
        app = web.Application()
        ends: asyncio.Queue[RelayEnd] = asyncio.Queue()
        if self.is_route:
            app.add_routes([gateway.native("/", **options)])
        else:

            async def handler(request: web.Request) -> web.StreamResponse:
                return await gateway.relay(request, on_complete=ends.put_nowait, **options)

            app.router.add_route("*", "/{path:.*}", handler)
        return await self.serve(app, ends, edge=edge)

    async def gateway(self, origin: str, **options: Any) -> Gateway:
        """A gateway where the application is: with workers in one of them, whose parent fetches what it relays."""
        if self.name != "workers":
            return Gateway(origin, engine=self.engine, **options)
        worker = (await self._parent()).workers[0]
        with worker.inside():
            gateway = Gateway(origin, engine=self.engine, **options)
        # The first relay would wait for the parent, which is on this loop; the first with `caching` once more.
        await asyncio.to_thread(worker.declared.number, gateway)
        await asyncio.to_thread(lambda: worker.declared.has_cache)
        return gateway

    async def _parent(self) -> Family:
        if self._family is None:
            self._family = Family(self.engine)
            self._family.ready(await self._family.worker())
        return self._family

    def stats(self, gateway: Gateway) -> dict[str, InspectionStats]:
        """What it has inspected."""
        if self._family is None:
            return gateway.stats()
        number = self._family.workers[0].declared.number(gateway)
        parents: Any = self._family.declarations._object(number)
        return dict(parents.stats())

    async def serve(
        self, app: web.Application, ends: "asyncio.Queue[RelayEnd] | None" = None, *, edge: Edge | None = None
    ) -> Relay:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._runners.append(runner)
        if self.name == "workers":
            worker = Worker(runner, self.engine)
            edge_end = EdgeEnd(self.engine, (await self._parent()).declarations.plan, edge=edge)
            self._edges.append((edge_end, worker))
            await edge_end.workers.add(1, 0, worker.path)
            return Relay(self, edge_end.port, ends or asyncio.Queue())
        site: web.BaseSite
        if self.is_stock:
            site = web.TCPSite(runner, "127.0.0.1", 0)
        else:
            site = Site(runner, "127.0.0.1", 0, engine=self.engine, edge=edge)
        await site.start()
        self.sites.append(site)
        return Relay(self, runner.addresses[0][1], ends or asyncio.Queue())

    async def connect(self, port: int, receive_buffer: int | None = None) -> RawClient:
        client = await RawClient.connect(port, receive_buffer)
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        """End the servers; their clients have to see to themselves."""
        for edge, worker in self._edges:
            await edge.close(worker)
        self._edges.clear()
        for runner in self._runners:
            await runner.cleanup()

    async def close(self) -> None:
        for client in self._clients:
            client.abort()
        await self.stop()
        if self._family is not None:
            await self._family.close()
            self._family = None
        # aiohttp caches the handlers of applications that have middlewares, and so what they refer to.
        web_app._cached_build_middleware.cache_clear()


async def blocks(client: RawClient, *, until: bytes) -> list[bytes]:
    """The blocks that come up to the one that is awaited, however many share a chunk."""
    found: list[bytes] = []
    data = b""
    while until not in found:
        data += await client.chunk()
        *whole, data = data.replace(b"\r\n", b"\n").split(b"\n\n")
        found += [block + b"\n\n" for block in whole]
    assert data == b"", "events are sent whole"
    return found


async def beats(client: RawClient, count: int) -> int:
    """So many heartbeats or more, and nothing else; how many have come."""
    data = b""
    while len(data) < count * len(BEAT):
        data += await client.chunk()
    come = len(data) // len(BEAT)
    assert data == BEAT * come
    return come


async def left(way: Way, peer: Peer) -> None:
    await peer.wait_left()
    await until(lambda: way.engine.stats().streams == 0, "the stream has ended")


WAYS = [(name, threads) for name in ("native", "app") for threads in (1, 3)]
# The clients there are on the loop's own sockets.
WAYS += [("stock route", 1), ("stock relay", 1)]
# An edge, and a worker that it hands requests to.
WAYS += [("workers", 1)]


# On the engine's sockets the loop serves the test's clients alone, or is woken alike by one thread and by three; and to
# a route on stock transports it is what it is to a relay.
NEEDLESS = {
    *((("native", threads), "uvloop") for threads in (1, 3)),
    (("app", 1), "uvloop"),
    (("app", 3), "asyncio"),
    (("stock route", 1), "uvloop"),
    (("workers", 1), "uvloop"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items, "way", NEEDLESS)


def fixture_of(kind: type[Way], ways: list[tuple[str, int]]) -> Any:
    """A fixture of one way after the other; afterwards every slab must be back, and no task of the test running."""

    @pytest.fixture(params=ways, ids=lambda way: f"{way[0]}, {way[1]} threads")
    async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
        name, threads = request.param
        async with engine_under_test(request, threads=threads) as engine:
            way = kind(engine, name)
            yield way
            await way.close()
            del way

    return way


way = fixture_of(Way, WAYS)
