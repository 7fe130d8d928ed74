"""Slow heads, stalled readers and half-open uploads, hundreds of each at once, and more than a thousand of one kind, on
a small pool: an honest client gets every byte that it asks for, and no attacker gets more memory than there is.

`make adversary` has thousands of them, and says how long the honest client waits.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.config import Cache, Caching, Edge, OriginLimits
from support.client import RawClient
from support.edges import Edges, Served
from support.leaks import engine_under_test
from support.waiting import until

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CROWD = 120
"""Of each kind; their windows alone are more than the pool."""
MEMORY = 16 << 20
ASKED = 150
STORED = b"x" * (1 << 20)
SMALL = b"x" * 1024
GRACE = 0.5
LEFT = len(STORED) + (1 << 20)
"""Bytes of what is stored, and for the connections of the honest client."""


def attack(name: str, first: str, **more: object) -> dict[str, object]:
    return {"name": name, "connections": CROWD, "first": first, "reconnects": 400, **more}


HEADS, HITS, MISSES, UPLOADS = ATTACKS = [
    attack("heads", "GET /small HTTP/1.1\r\nHost: a\r\nX-Slow: ", padding=16_000, drip="x"),
    attack("hits", "GET /stored HTTP/1.1\r\nHost: a\r\n\r\n", reads=False),
    attack("misses", "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", reads=False),
    attack("uploads", "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", padding=40_000),
]


@asynccontextmanager
async def program(name: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of the benchmark's, which ends with its standard input; so that this loop is the honest client's alone."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"adversary.{name}", *arguments),
        cwd=BENCHMARKS,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()


@asynccontextmanager
async def origin() -> AsyncIterator[str]:
    """The URL of an origin."""
    async with program("origin") as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(await child.stdout.readline())}"


@asynccontextmanager
async def swarm(
    served: Served, seen: Counter[str], attacks: list[dict[str, object]] = ATTACKS
) -> AsyncIterator[None]:
    """All `attacks` at once; their outcomes are put into `seen`."""
    async with program("swarm", str(served.port), json.dumps(attacks)) as child:
        yield
        told, _ = await child.communicate(b"")
        seen.update(json.loads(told))


async def ask(client: RawClient, number: int) -> float | None:
    """One request of an honest client. If it is refused: the seconds after which it may come back."""
    if number % 3 == 2:
        sent = b"b" * 20_000
        await client.get("/take", f"Content-Length: {len(sent)}", method="POST")
        await client.send(sent)
        head = await client.head()
        body = await client.body(head)
    else:
        reply = await client.ask(("/stored", "/small")[number % 3])
        head, body = reply.head, reply.body
    if head.status == 503:
        assert json.loads(body)["name"] == "POOL_FULL"
        assert head.one("Connection") == "close"
        return float(head.one("Retry-After") or "nothing")
    assert head.status == 200
    assert body == (STORED, SMALL, SMALL)[number % 3]
    return None


async def attacked(edges: Edges, url: str) -> tuple[int, Counter[str], float]:
    """Refusals of an honest client during all attacks, their outcomes, and its slowest answer in seconds.

    A full pool refuses until the stalled clients are cut, and the client comes back.
    """
    routes = [edges.gateway(url).native("/", caching=Caching())]
    # On a busy machine a late engine thread would refuse the honest client too, and that is another test's.
    served = await edges.serve(routes, edge=Edge(stall_grace=GRACE, overload_after=None))
    client = await edges.connect(served)
    assert [await ask(client, number) for number in range(3)] == [None] * 3
    refused = 0
    outcomes: Counter[str] = Counter()
    loop, slowest = asyncio.get_running_loop(), 0.0
    async with swarm(served, outcomes):
        await until(lambda: served.connections > 2 * CROWD, "the attackers are there")
        for number in range(ASKED):
            begun = loop.time()
            if number % 2:
                client = await edges.connect(served)
            while (pause := await ask(client, number)) is not None:
                refused += 1
                await asyncio.sleep(pause)
                client = await edges.connect(served)
            slowest = max(slowest, loop.time() - begun)
    return refused, outcomes, slowest


@pytest.mark.timeout(120)
async def test_an_honest_client_is_served_and_memory_is_bounded(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    limits, cache = OriginLimits(idle_timeout=30), Cache(memory=MEMORY // 4)
    async with (
        engine_under_test(request, memory=f"{MEMORY}", threads=1, limits=limits, cache=cache) as engine,
        origin() as url,
    ):
        edges = Edges(engine)
        refused, outcomes, slowest = await attacked(edges, url)
        record_property("slowest_ms", 1000 * slowest)
        record_property("refused", refused)
        record_property("attackers", dict(outcomes))
        assert refused <= ASKED // 10
        pool = engine.stats().pool
        assert pool.peak_bytes <= pool.budget
        # It was worth an attack.
        assert pool.peak_bytes > pool.budget // 2
        assert all(outcomes[f"{kind['name']}: connections"] >= CROWD for kind in ATTACKS)
        await until(lambda: engine.stats().pool.live_bytes <= LEFT, "all of it is given back")
        await edges.close()
        del edges


THOUSANDS = 1500
"""Of one kind; if each had a window, they would have three times the pool."""
RUSH = 1500
"""Connections that they make a second."""
WHOLE = 32 << 20
CLIENTS = 8
EACH = 25
"""Requests of each of these honest clients, at the least."""


async def besieged(edges: Edges, url: str, kind: dict[str, object]) -> tuple[int, Counter[str], float]:
    """As `attacked`, by more than a thousand of one kind, from the moment on at which they come, and for several honest
    clients: one that waits for memory asks for nothing else meanwhile."""
    routes = [edges.gateway(url).native("/", caching=Caching())]
    served = await edges.serve(routes, edge=Edge(overload_after=None))
    client = await edges.connect(served)
    assert [await ask(client, number) for number in range(3)] == [None] * 3
    outcomes, slowest, refused, asked = Counter[str](), 0.0, 0, 1

    async def ask_on() -> None:
        nonlocal slowest, refused, asked
        loop, number = asyncio.get_running_loop(), 0
        # From the first attacker on, and until all have been there.
        while number < EACH or served.native.counts().accepted - asked < THOUSANDS:
            begun = loop.time()
            asked += 1
            client = await RawClient.connect(served.port)
            refused += await ask(client, number) is not None
            client.abort()
            slowest = max(slowest, loop.time() - begun)
            number += 1

    rush = {**kind, "connections": THOUSANDS, "reconnects": RUSH}
    async with swarm(served, outcomes, [rush]):
        await asyncio.gather(*(ask_on() for _ in range(CLIENTS)))
    return refused, outcomes, slowest


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", [HEADS, HITS, MISSES, UPLOADS], ids=lambda kind: str(kind["name"]))
async def test_no_honest_request_is_refused_while_a_thousand_attackers_hold_what_they_get(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None], kind: dict[str, object]
) -> None:
    limits = OriginLimits(idle_timeout=30, connections=2 * THOUSANDS, waiting=2 * THOUSANDS)
    async with (
        engine_under_test(
            request, memory=f"{WHOLE}", threads=1, limits=limits, cache=Cache(memory=WHOLE // 4)
        ) as engine,
        origin() as url,
    ):
        edges = Edges(engine)
        refused, outcomes, slowest = await besieged(edges, url, kind)
        record_property("slowest_ms", 1000 * slowest)
        record_property("attackers", dict(outcomes))
        assert refused == 0
        assert outcomes[f"{kind['name']}: connections"] >= THOUSANDS
        pool = engine.stats().pool
        assert pool.peak_bytes <= pool.budget
        await until(lambda: engine.stats().pool.live_bytes <= LEFT, "all of it is given back")
        await edges.close()
        del edges
