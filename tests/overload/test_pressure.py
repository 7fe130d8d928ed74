"""More to do than can be done: what gives way, what does not, and that all of it comes back."""

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest
from aiohttp import web

import penstock
from penstock.config import Cache, Caching, Edge, OriginLimits
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import RawClient, answer
from support.edges import Edges, app_of, serving
from support.leaks import engine_under_test
from support.waiting import until

from .conftest import count, full_pool

FRESH = answer("Cache-Control: max-age=600", "Content-Length: 3", body=b"hit")
# Stale at once, and good for a long time while it is asked for anew.
STALE = answer(
    "Cache-Control: max-age=0, stale-while-revalidate=600", "Content-Length: 5", 'ETag: "a"', body=b"stale"
)


@dataclass
class Origin:
    """Counts what is asked for."""

    asked: Counter[str]

    async def __call__(self, peer: Peer) -> None:
        bodies = {"/hit": FRESH, "/stored/hit": FRESH, "/stale": STALE}
        while True:
            target = (await peer.request()).target
            self.asked[target] += 1
            await peer.send(bodies.get(target) or answer("Content-Length: 2", body=b"ok"))


def is_at(engine: penstock.Engine, part: str, state: str) -> bool:
    return count(engine, "pressure_state", part=part, state=state) == 1


async def test_a_full_pool_refuses_new_work_and_takes_all_of_it_again(
    request: pytest.FixtureRequest,
) -> None:
    limits, origin = OriginLimits(connections=100, idle_timeout=30), Origin(Counter())
    cache = Cache(memory="512KiB")
    async with (
        engine_under_test(request, memory="4MiB", threads=1, limits=limits, cache=cache) as engine,
        ScriptedOrigin(origin) as server,
    ):
        edges = Edges(engine)
        gateway = edges.gateway(server.url)
        routes = [gateway.native("/", caching=Caching()), gateway.native("/relayed/")]
        served = await edges.serve(routes)
        client = await edges.connect(served)
        for _ in range(3):
            assert [(await client.ask(path)).body for path in ("/hit", "/stale")] == [b"hit", b"stale"]
        async with full_pool(engine):
            await until(lambda: is_at(engine, "engine", "shedding"), "work is shed")
            before = origin.asked["/stale"]

            # What is stored is served as before, and nothing is asked for that no client waits for.
            for _ in range(20):
                assert [(await client.ask(path)).body for path in ("/hit", "/stale")] == [b"hit", b"stale"]
            assert origin.asked["/stale"] == before

            refused: Counter[str] = Counter()
            for number in range(40):
                # What the pool alone refuses, after a second, ends the connection.
                other = await edges.connect(served)
                reply = await other.ask(f"/relayed/{number}" if number % 2 else f"/fill/{number}")
                assert reply.head.status == 503
                name = json.loads(reply.body)["name"]
                refused[name] += 1
                if name == "OVERLOADED":
                    assert 1 <= int(reply.head.one("Retry-After") or 0) <= 4
                    assert reply.head.one("Connection") is None
                    assert (await other.ask("/hit")).body == b"hit"
            assert set(refused) <= {"OVERLOADED", "POOL_FULL"}
            assert refused["OVERLOADED"] > 10
        await until(lambda: is_at(engine, "engine", "ok"), "nothing is shed any more")
        for number in range(20):
            assert (await client.ask(f"/relayed/{number}")).body == b"ok"
        assert (await client.ask("/stale")).body == b"stale"
        await until(lambda: origin.asked["/stale"] > before, "it is asked for anew")
        await edges.close()
        del edges, gateway, routes, served, client, other


def asked(port: int, target: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return connection


def reply(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body; `connection` may serve again."""
    read = b""
    while b"\r\n\r\n" not in read:
        part = connection.recv(65536)
        assert part, read
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(65536)
    return int(head.split(b" ")[1]), body


@contextlib.contextmanager
def crowd(port: int, target: str, size: int) -> Iterator[list[socket.socket]]:
    connections = [asked(port, target) for _ in range(size)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def blocking(seconds: float) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that blocks its loop."""

    async def slow(_: web.Request) -> web.Response:
        time.sleep(seconds)
        return web.Response(text="done")

    return slow


def outcomes(port: int, size: int) -> Counter[int | str]:
    """Count the outcomes of the requests of a crowd: statuses, and the names of errors in place of 503."""
    seen: Counter[int | str] = Counter()
    with crowd(port, "/slow", size) as connections:
        for connection in connections:
            status, body = reply(connection)
            seen[json.loads(body)["name"] if status == 503 else status] += 1
    return seen


def storm(port: int, seen: Counter[int | str]) -> None:
    """Asks the application for more than it can do until 50 in `seen` are refused; and, meanwhile, the cache."""
    for _ in range(100):
        with crowd(port, "/slow", 16) as connections:
            for connection in connections:
                status, body = reply(connection)
                seen[status] += 1
                if status != 200:
                    seen[str(json.loads(body)["name"])] += 1
                    # It serves again.
                    connection.sendall(b"GET /stored/hit HTTP/1.1\r\nHost: a\r\n\r\n")
                    assert reply(connection) == (200, b"hit")
        if seen["OVERLOADED"] >= 50:
            break


async def test_a_loop_that_falls_behind_refuses_new_requests_and_what_needs_none_goes_on(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    limits, cache = OriginLimits(idle_timeout=30), Cache(memory="8MiB")
    async with (
        engine_under_test(request, threads=1, limits=limits, cache=cache) as engine,
        ScriptedOrigin(Origin(Counter())) as origin,
    ):
        edges = Edges(engine)
        app = app_of(("/slow", blocking(0.02)))
        gateway = Gateway(origin.url, engine=engine)
        app.add_routes([gateway.native("/stored/", caching=Caching())])
        with caplog.at_level(logging.DEBUG):
            async with serving(edges, "site", app) as port:
                first = await RawClient.connect(port)
                edges.keep(first)
                assert (await first.ask("/stored/hit")).body == b"hit"
                # Several, so that some ask while the loop is busy with others.
                seen: Counter[int | str] = Counter()
                await asyncio.gather(*(asyncio.to_thread(storm, port, seen) for _ in range(4)))
                assert seen["OVERLOADED"] >= 50, seen
                assert set(seen) == {200, 503, "OVERLOADED"}
                await until(lambda: is_at(engine, "application", "ok"), "nothing is shed any more")
                assert is_at(engine, "engine", "ok")
                for _ in range(10):
                    assert (await first.ask("/slow")).body == b"done"
                await until(lambda: "the application is ok" in caplog.text, "the last change is logged")
        lines = [
            record.getMessage() for record in caplog.records if "the application is" in record.getMessage()
        ]
        words = [line.partition("the application is ")[2].split()[0].strip(":") for line in lines]
        # Once for each change, which is by one step.
        levels = [("ok", "pressed", "shedding").index(word) for word in words]
        assert all(abs(one - other) == 1 for one, other in zip([0, *levels], levels, strict=False)), words
        assert max(levels) == 2
        await edges.close()
        del edges, gateway, app, first


async def test_an_application_that_was_overloaded_lately_refuses_what_would_wait_at_once(
    request: pytest.FixtureRequest,
) -> None:
    async with engine_under_test(request, threads=1) as engine:
        edges = Edges(engine)
        async with serving(edges, "site", app_of(("/slow", blocking(0.005)))) as port:
            # Two seconds of work, half of which is refused.
            await asyncio.to_thread(outcomes, port, 400)
            await until(lambda: is_at(engine, "application", "ok"), "nothing is shed any more")
            # How long each takes is known once some have waited for others that the loop took together.
            await asyncio.to_thread(outcomes, port, 24)
            seen = await asyncio.to_thread(outcomes, port, 48)
        assert set(seen) == {200, "OVERLOADED"}, seen
        assert seen["OVERLOADED"] >= 24, seen
        await edges.close()
        del edges


async def test_what_waits_in_overload_is_refused_before_it_would_be_served_in_vain(
    request: pytest.FixtureRequest,
) -> None:
    async with engine_under_test(request, threads=1) as engine:
        edges = Edges(engine)
        async with serving(edges, "site", app_of(("/slow", blocking(0.02)))) as port:
            # More than the loop answers in the second until work is shed: eight seconds of it.
            seen = await asyncio.to_thread(outcomes, port, 400)
            assert set(seen) == {200, "OVERLOADED"}, seen
            assert seen["OVERLOADED"] > 200, seen
            await until(lambda: is_at(engine, "application", "ok"), "nothing is shed any more")
        await edges.close()
        del edges


async def test_without_a_limit_nothing_is_read_and_nothing_refused(request: pytest.FixtureRequest) -> None:
    limits = OriginLimits(connections=100, idle_timeout=30)
    async with (
        engine_under_test(request, memory="4MiB", threads=1, limits=limits) as engine,
        ScriptedOrigin(Origin(Counter())) as server,
    ):
        edges = Edges(engine)
        served = await edges.serve([edges.gateway(server.url).native("/")], edge=Edge(overload_after=None))
        async with full_pool(engine):
            for _ in range(4):
                reply = await (await edges.connect(served)).ask()
                # It has waited for memory for a second.
                assert json.loads(reply.body)["name"] == "POOL_FULL"
        assert is_at(engine, "engine", "ok")
        assert (await (await edges.connect(served)).ask()).body == b"ok"
        await edges.close()
        del edges, served
