"""Ways on which the fault stands between a client and the edge: hits, uploads, subscribers of a hub; and workers."""

import asyncio
import os
import tempfile

from aiohttp import web

from penstock import Hub
from penstock.config import Caching, Edge, History, Subscriptions
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer, client_of
from support.edges import Edges
from support.fault_relay import Action, FaultRelay
from support.origins import FRESH, chunk
from support.waiting import until
from support.worker_ends import EdgeEnd, Worker

from . import places
from .cells import Cell
from .fills import PIECE, TOKENS, TYPE, CellOrigin, ask, body_of, framed
from .rules import brief, check_seen
from .seen import Message, events, read, read_request, see

FIELD = "X-Cell: something"


def quick(cell: Cell) -> Edge:
    """Limits of clients, short where one may stall."""
    return (
        Edge() if cell.is_harmless else Edge(head_timeout=0.5, body_timeout=0.5, idle_timeout=5, linger=0.1)
    )


async def hit(edges: Edges, cell: Cell) -> None:
    """The response is in the cache; one client's connection has the fault, and the next client's has not."""
    script, truth = CellOrigin(cell, framed(cell, TYPE, FRESH)), body_of(cell)
    async with ScriptedOrigin(script) as origin:
        served = await edges.relay(origin.url, caching=Caching(), edge=quick(cell))
        warm = await ask(served.port, cell.path, within=30)
        assert (warm.status, warm.body == truth) == (200, True)
        async with FaultRelay(served.port, cell.fault) as relay:
            seen = await ask(relay.port, cell.path, FIELD, within=cell.patience)
            assert relay.fired.is_set(), "the place did not come"
            check_sent(cell, seen, read(relay.passages[0].down.received, finished=False), truth)
        after = await ask(served.port, cell.path, within=30)
        assert (after.status, after.whole, after.body == truth) == (200, True, True), brief(after)
        assert sum(one.target == cell.path for one in script.requests) == 1 or cell.alters, (
            "the origin is asked again"
        )
        await until(lambda: served.connections == 0, "no connection is left")


def check_sent(cell: Cell, seen: Message, sent: Message, truth: bytes) -> None:
    """What the edge sent is right, whatever became of it."""
    if cell.is_harmless:
        check_seen(cell, seen, truth, [])
    if sent.status == 200:
        assert truth.startswith(sent.body), "other bytes than the film's"
        assert not sent.whole or sent.body == truth, "a truncated body looks whole"


class Uploads:
    """Keeps each request that came whole."""

    def __init__(self) -> None:
        self.arrived: list[tuple[RecordedRequest, bytes]] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            head = await peer.request()
            self.arrived.append((head, await peer.read_body()))
            await peer.send(answer("Content-Length: 4", body=b"done"))


async def upload(edges: Edges, cell: Cell) -> None:
    """A client sends a body."""
    script, truth = Uploads(), body_of(cell)
    message = _message(cell, truth)
    async with ScriptedOrigin(script) as origin:
        served = await edges.relay(origin.url, edge=quick(cell))
        async with FaultRelay(served.port, cell.fault) as relay, client_of(relay.port) as client:
            await client.send(message)
            seen = await see(client, within=cell.patience)
            assert relay.fired.is_set(), "the place did not come"
            meant = read_request(relay.passages[0].up.passed)
        # The edge is done with it, and what it would still send has come.
        await until(lambda: served.connections == 0, "no connection is left")
        came = script.arrived[:]
        assert len(came) <= 1, "a request arrives twice"
        if cell.is_harmless:
            assert (seen.status, seen.body, len(came)) == (200, b"done", 1), brief(seen)
        if came:
            wanted = meant if cell.alters else Message(None, (), truth, whole=True)
            assert wanted.whole, f"a truncated upload looks whole to the origin: {len(came[0][1])} bytes"
            assert (came[0][1] == wanted.body) is True, "another body"
        async with client_of(served.port) as client:
            await client.send(message)
            after = await see(client, within=30)
        assert (after.status, script.arrived[-1][1] == truth) == (200, True), brief(after)


def _message(cell: Cell, body: bytes) -> bytes:
    first = b"POST /take HTTP/1.1\r\nHost: gateway.test\r\n"
    if not places.is_chunked(cell.place):
        return first + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    pieces = [chunk(body[at : at + PIECE]) for at in range(0, len(body), PIECE)]
    return first + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(pieces) + b"0\r\n\r\n"


async def subscriber(edges: Edges, cell: Cell) -> None:
    """A subscriber whose connection has the fault, and which comes back with the last id that it saw."""
    topic, count = f"cell-{cell.number}", TOKENS
    path = f"/events/{topic}"
    hub = Hub(engine=edges.engine, history=History(memory="64KiB"))
    route = hub.native("/events/", subscriptions=Subscriptions(join="start", heartbeat=None))
    served = await edges.serve([route], edge=quick(cell))
    truth = [f"id: {cell.number}-{n}\ndata: größe € {n}".encode() for n in range(count)]

    async def publish(numbers: range) -> None:
        for n in numbers:
            await hub.publish(topic, f"größe € {n}", id=f"{cell.number}-{n}")

    async def end_and_ask() -> Message:
        await until(lambda: relay.passages, "it has connected")
        await publish(range(count // 2, count))
        await hub.finish(topic)
        return await asked

    await publish(range(count // 2))
    try:
        async with FaultRelay(served.port, cell.fault) as relay:
            asked = asyncio.create_task(ask(relay.port, path, FIELD, within=cell.patience))
            seen = await end_and_ask()
            assert relay.fired.is_set(), "the place did not come"
            sent = read(relay.passages[0].down.received, finished=False)
        check_given(sent, truth)
        # Where the relay altered what the edge sent, the client was told what no server said, and begins anew.
        trusts = seen.status == 200 and (not cell.alters or cell.place.startswith("up"))
        got = events(seen.body) if trusts else []
        assert got == truth[: len(got)], f"not in order, or not once: {got[-2:]}"
        assert not cell.is_harmless or got == truth, f"{len(got)} of {count} events"
        fields = [f"Last-Event-ID: {cell.number}-{len(got) - 1}"] if got else []
        after = await ask(served.port, path, *fields, within=30)
        assert got + events(after.body) == truth, f"after {len(got)} events: {brief(after)}"
        lost = await ask(served.port, path, f"Last-Event-ID: {cell.number}-lost", within=30)
        check_gap(lost, truth)
        await until(lambda: served.connections == 0, "no connection is left")
    finally:
        hub.close()


def check_given(sent: Message, truth: list[bytes]) -> None:
    """What the edge sent is right, whatever became of it."""
    given = events(sent.body)
    if sent.status == 200 and given:
        assert given == truth[: len(given)], f"not in order, or not once: {given[-2:]}"
        assert not sent.whole or given == truth, "a truncated stream looks whole"


def check_gap(seen: Message, truth: list[bytes]) -> None:
    """One whose last event is not known any more is told so, before all that is there."""
    assert seen.field("penstock-resume") == "gap", f"a gap is not announced: {seen.fields}"
    first = seen.body.partition(b"\n\n")[0].split(b"\n")
    assert b"event: penstock-gap" in first, f"a gap is not announced: {first}"
    assert events(seen.body) == truth, f"after a gap: {brief(seen)}"


async def worker(edges: Edges, cell: Cell) -> None:
    """An application in a worker process; the fault stands between it and the edge."""
    truth = body_of(cell)

    async def film(request: web.Request) -> web.Response:
        return web.Response(body=truth, headers={"Cache-Control": "no-store"})

    app = web.Application()
    app.router.add_get(cell.path, film)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    end, edge = Worker(runner, edges.engine), EdgeEnd(edges.engine, edge=Edge(app_wait=2))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "faulty")
        async with FaultRelay(end.path, cell.fault, unix=path) as relay:
            await edge.workers.add(1, 0, path)
            seen = await ask(edge.port, cell.path, within=cell.patience)
            assert relay.fired.is_set(), "the place did not come"
            if not cell.alters:
                check_seen(cell, seen, truth, [])
            elif cell.action is Action.CORRUPT and seen.whole and seen.status == 200:
                differ = sum(one != two for one, two in zip(seen.body, truth, strict=False))
                assert differ <= 1, "more than the changed byte differs"
            after = await ask(edge.port, cell.path, within=30)
            assert (after.status, after.whole, after.body == truth) == (200, True, True), brief(after)
        await edge.close()
    await runner.cleanup()
