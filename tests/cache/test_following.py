"""One fetch for all clients that ask at once: which joins, follows and leaves it, and how each ends when it fails."""

import asyncio

import pytest

from penstock.config import Caching
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges
from support.waiting import in_time, until

from .origins import Held

CROWD = 30
FRESH = "Cache-Control: max-age=60"


async def crowd(edges: Edges, port_of: object, count: int = CROWD) -> list[RawClient]:
    clients = [await edges.connect(port_of) for _ in range(count)]  # type: ignore[arg-type]
    for client in clients:
        await client.get("/segment")
    return clients


async def test_a_crowd_is_one_request_and_reads_what_has_come(caching: Edges) -> None:
    script = Held()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = await crowd(caching, served)
        await until(lambda: served.requests == CROWD, "all have asked")
        script.head_may_go.set()
        for client in clients:
            head = await in_time(client.head())
            assert head.status == 200
            # The origin has not sent more.
            assert await in_time(client.reader.readexactly(len(script.first))) == script.first
        script.rest_may_go.set()
        for client in clients:
            assert await in_time(client.reader.readexactly(len(script.rest))) == script.rest
        late = await caching.connect(served)
        assert (await in_time(late.ask("/segment"))).body == script.first + script.rest
        assert script.requests == 1


async def test_a_client_that_joins_a_fill_reads_from_the_first_byte(caching: Edges) -> None:
    script = Held()
    script.head_may_go.set()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/segment")
        await first.head()
        await first.reader.readexactly(len(script.first))
        await second.get("/segment", "Range: bytes=39999-40000")
        head = await in_time(second.head())
        assert (head.status, head.one("Content-Range")) == (206, "bytes 39999-40000/80000")
        assert await in_time(second.reader.readexactly(1)) == b"a"
        script.rest_may_go.set()
        assert await in_time(second.reader.readexactly(1)) == b"b"
        assert await in_time(first.reader.readexactly(len(script.rest))) == script.rest
        assert script.requests == 1


@pytest.mark.parametrize("stage", ["before the head", "in the body"])
async def test_the_one_who_asked_first_leaves_and_the_others_read_on(caching: Edges, stage: str) -> None:
    script = Held()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(unread=100))
        first = await caching.connect(served)
        await first.get("/segment")
        await in_time(script.asked.wait(), "the origin is asked")
        second = await caching.connect(served)
        await second.get("/segment")
        await until(lambda: served.requests == 2, "both have asked")
        if stage == "in the body":
            script.head_may_go.set()
            await first.head()
            await second.head()
        first.abort()
        await until(lambda: served.connections == 1, "the first has left")
        script.head_may_go.set()
        script.rest_may_go.set()
        if stage == "before the head":
            await in_time(second.head())
        assert await in_time(second.reader.readexactly(80_000)) == script.first + script.rest
        assert script.requests == 1


async def test_a_fill_without_readers_goes_on(caching: Edges) -> None:
    script = Held()
    script.head_may_go.set()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first = await caching.connect(served)
        await first.get("/segment")
        await first.head()
        first.abort()
        await until(lambda: served.connections == 0, "it has left")
        script.rest_may_go.set()
        second = await caching.connect(served)
        assert (await in_time(second.ask("/segment"))).body == script.first + script.rest
        assert script.requests == 1


async def test_a_fill_without_readers_is_cancelled_if_the_route_says_so(caching: Edges) -> None:
    script = Held()
    script.head_may_go.set()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(unread=100))
        first = await caching.connect(served)
        await first.get("/segment")
        await first.head()
        first.abort()
        await in_time(script.left.wait())
        script.rest_may_go.set()
        second = await caching.connect(served)
        assert (await in_time(second.ask("/segment"))).body == script.first + script.rest
        assert script.requests == 2


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_an_origin_that_breaks_off_aborts_every_reader_and_is_asked_again(
    caching: Edges, how: str
) -> None:
    may_break = asyncio.Event()
    requests = 0

    async def break_off(peer: Peer) -> None:
        nonlocal requests
        await peer.request()
        requests += 1
        await peer.send(answer(FRESH, "Content-Length: 10") + b"half")
        await may_break.wait()
        peer.reset() if how == "reset" else peer.close()

    async with ScriptedOrigin(break_off) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = await crowd(caching, served)
        for client in clients:
            await in_time(client.reader.readuntil(b"half"))
        may_break.set()
        for client in clients:
            with pytest.raises(ConnectionResetError):
                await in_time(client.rest())
        assert requests == 1
        again = await caching.connect(served)
        await again.get("/segment")
        await until(lambda: requests == 2, "the origin is asked again")


async def test_an_origin_that_does_not_answer_fails_all_who_wait_at_once(caching: Edges) -> None:
    requests = 0
    may_close = asyncio.Event()

    async def refuse(peer: Peer) -> None:
        nonlocal requests
        await peer.request()
        requests += 1
        await may_close.wait()
        peer.close()

    async with ScriptedOrigin(refuse) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = await crowd(caching, served)
        await until(lambda: served.requests == CROWD, "all have asked")
        may_close.set()
        for client in clients:
            assert (await in_time(client.head())).status == 502
        assert requests == 1


async def test_what_is_not_shared_does_not_wait_for_each_other(caching: Edges) -> None:
    """Clients that waited are released by the head, and clients that come later do not wait at all."""
    waiting = 0
    all_there = asyncio.Event()
    first_may_go = asyncio.Event()

    async def private(peer: Peer) -> None:
        nonlocal waiting
        await peer.request()
        waiting += 1
        if waiting == 1:
            await first_may_go.wait()
        else:
            # Every other one is answered once all of them have come: one after the other would be for ever.
            if waiting == CROWD:
                all_there.set()
            await all_there.wait()
        await peer.send(answer("Cache-Control: private", "Content-Length: 2") + b"ok")

    async with ScriptedOrigin(private) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = await crowd(caching, served)
        await until(lambda: served.requests == CROWD, "all have asked")
        first_may_go.set()
        for client in clients:
            head = await in_time(client.head())
            assert await in_time(client.body(head)) == b"ok"
        assert waiting == CROWD


async def test_a_body_that_turns_out_too_large_is_read_to_its_end_and_not_kept(caching: Edges) -> None:
    """No head said how long it is: 4 MiB pass a limit of 64 KiB, at the pace of the slower client."""
    pieces = 64
    piece = bytes(range(256)) * 256
    may_go_on = asyncio.Event()
    requests = 0

    async def endless(peer: Peer) -> None:
        nonlocal requests
        await peer.request()
        requests += 1
        await peer.send(answer(FRESH, "Transfer-Encoding: chunked") + b"10000\r\n" + piece + b"\r\n")
        await may_go_on.wait()
        for _ in range(pieces - 1):
            await peer.send(b"10000\r\n" + piece + b"\r\n")
        await peer.send(b"0\r\n\r\n")

    async with ScriptedOrigin(endless) as origin:
        served = await caching.relay(origin.url, caching=Caching(max_object="64KiB"))
        clients = await crowd(caching, served, 3)
        heads = [await in_time(client.head()) for client in clients]
        may_go_on.set()
        cache = caching.engine.cache
        assert cache is not None
        for client, head in zip(clients, heads, strict=True):
            assert await in_time(client.body(head)) == piece * pieces
            stats = cache.stats()
            used, limit = stats.used, stats.limit
            assert used < limit
        assert requests == 1
        again = await caching.connect(served)
        await again.get("/segment")
        await in_time(again.head())
        assert requests == 2
        again.abort()
