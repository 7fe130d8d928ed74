"""`Gateway.relay` in a worker: what the parent fetches for it, by what the gateway says, and who is told of the end."""

import asyncio
import functools

import pytest
from aiohttp import web

from penstock import Origins, config
from penstock.testing import ScriptedOrigin
from penstock.web import RelayEnd
from support.client import answer
from support.echo import EVIL, NAMES, ask, echoed, get
from support.origins import NumberedOrigin, Recorder, Steps
from support.relaying import Relaying
from support.waiting import in_time, until

_told: list[RelayEnd] = []


def told(end: RelayEnd) -> None:
    """What another worker finds by its name."""
    _told.append(end)


async def test_the_parent_fetches_what_a_worker_relays(relaying: Relaying) -> None:
    recorder = Recorder(response=answer("Content-Length: 5", "X-Of: origin", body=b"hello"))
    async with ScriptedOrigin(recorder) as upstream:
        await relaying.serve(relaying.gateway(upstream.url).relay)
        client = await relaying.connect()
        reply = await client.ask("/a?b", "X-From: client")
        assert (reply.body, reply.head.one("X-Of")) == (b"hello", "origin")
        assert recorder.arrivals[0].head.get("X-Forwarded-For") == "127.0.0.1"
        assert upstream.url in relaying.family.engine.stats().origins
        assert upstream.url not in relaying.own.stats().origins


async def test_no_client_shapes_what_the_parent_stores_for_another(relaying: Relaying) -> None:
    async with ScriptedOrigin(NumberedOrigin(echoed())) as upstream:
        gateway = relaying.gateway(upstream.url, caching=config.Caching())
        await relaying.serve(gateway.relay)
        port = relaying.edge.port
        for number, name in enumerate((*NAMES, "Host")):
            raw = get(f"/{number}", host=EVIL) if name == "Host" else get(f"/{number}", f"{name}: {EVIL}")
            assert EVIL not in await ask(port, raw), name
            assert EVIL not in await ask(port, get(f"/{number}")), name
        assert len(upstream.requests) == len(NAMES) + 1
        assert EVIL not in await ask(port, get(f"/query?CMCD={EVIL}&x=1"))
        assert await ask(port, get("/query?x=1")) == await ask(port, get(f"/query?x=1&CMCD={EVIL}"))
        assert upstream.requests[-1].target == "/query?x=1"
        put = get("/query?CMCD=all", "Content-Length: 0").replace("GET", "PUT")
        assert "CMCD=all" in await ask(port, put)


async def test_an_origins_own_location_is_mapped_in_a_worker(relaying: Relaying) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as upstream:
        recorder.response = answer(f"Location: {upstream.url}/x", "Content-Length: 0", status="302 Found")
        await relaying.serve(relaying.gateway(upstream.url, prefix="/live").relay)
        reply = await (await relaying.connect()).ask("/live/a")
        assert reply.head.one("Location") == "/live/x"


async def test_relays_are_stored_in_the_parents_cache(relaying: Relaying) -> None:
    recorder = Recorder(response=answer("Content-Length: 4", "Cache-Control: max-age=60", body=b"film"))
    async with ScriptedOrigin(recorder) as upstream:
        gateway = relaying.gateway(upstream.url, caching=config.Caching(tags=("all",)))
        overrides = config.Overrides(key="/one", tags=("this",))

        async def handler(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, overrides=overrides if "one" in request.query else None)

        await relaying.serve(handler)
        client = await relaying.connect()
        for target in ("/7", "/7", "/8?one", "/9?one"):
            assert (await client.ask(target)).body == b"film"
        assert len(recorder.arrivals) == 2
        cache = relaying.family.engine.cache
        assert cache is not None
        assert [(one.url.removeprefix(upstream.url), one.tags) for one in cache.list()] == [
            ("/7", ("all",)),
            ("/one", ("all", "this")),
        ]


async def test_origins_are_the_parents_for_relays_too(relaying: Relaying) -> None:
    async with ScriptedOrigin(Recorder()) as upstream:
        with relaying.worker.inside():
            origins = Origins([upstream.url])
        gateway = relaying.gateway(origins)
        # The first relay would wait for the parent, which is on this loop.
        await asyncio.to_thread(relaying.worker.declared.number, origins)
        await relaying.serve(gateway.relay)
        client = await relaying.connect()
        for _ in range(2):
            assert (await client.ask()).body == b"ok"
        assert (await asyncio.to_thread(origins.stats)).requests == 2
        assert origins.native.stats([upstream.url]).requests == 0


async def test_the_worker_is_told_how_a_relay_has_ended(relaying: Relaying) -> None:
    ended: list[RelayEnd] = []
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = relaying.gateway(upstream.url)
        await relaying.serve(functools.partial(gateway.relay, on_complete=ended.append, tenant="t"))
        assert (await (await relaying.connect()).ask("/a")).body == b"ok"
        await until(lambda: ended, "the end is told")
    (end,) = ended
    assert (end.status, end.bytes, end.error, end.tenant, end.path) == (200, 2, None, "t", "/a")
    assert end.timings is not None
    assert end.timings.first_byte > 0


async def test_another_worker_is_told_where_the_first_is_gone(relaying: Relaying) -> None:
    _told.clear()
    steps = Steps(answer("Content-Length: 6"))
    async with ScriptedOrigin(steps) as upstream:
        gateway = relaying.gateway(upstream.url)
        site = await relaying.serve(functools.partial(gateway.relay, on_complete=told, tenant="t"))
        client = await relaying.connect()
        await client.get("/film")
        steps.pieces.put_nowait(b"one")
        head = await client.head()
        assert await client.reader.readexactly(3) == b"one"
        site.site.close()
        relaying.edge.workers.remove(1)
        steps.pieces.put_nowait(b"two")
        steps.pieces.put_nowait(None)
        assert head.status == 200
        assert await client.reader.readexactly(3) == b"two"
        await until(lambda: relaying.edge.orphans, "there is no worker to report the end to")
        relaying.family.declarations.orphan(relaying.edge.orphans[0])
        await until(lambda: _told, "the end is told")
    (end,) = _told
    assert (end.status, end.bytes, end.error, end.path, end.tenant) == (200, 6, None, "/film", "t")


async def test_events_are_relayed_by_policy(relaying: Relaying) -> None:
    steps = Steps(answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
    async with ScriptedOrigin(steps) as upstream:
        gateway = relaying.gateway(upstream.url, events=config.EventRelay(heartbeat=0.05))
        await relaying.serve(gateway.relay)
        client = await relaying.connect()
        await client.get()
        head = await client.head()
        assert head.one("X-Accel-Buffering") == "no"
        assert (await in_time(client.chunk())).startswith(b":")
        steps.pieces.put_nowait(b"b\r\ndata: one\n\n\r\n0\r\n\r\n")
        steps.pieces.put_nowait(None)
        rest = b""
        while piece := await in_time(client.chunk()):
            rest += piece
        assert rest.replace(b":\n\n", b"").endswith(b"data: one\n\n")


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "when some has come"])
async def test_what_a_client_sends_goes_on_without_the_worker(
    relaying: Relaying, chunked: bool, late: bool
) -> None:
    """What has come when the relay begins goes back, and all that follows never comes."""
    recorder = Recorder()
    body = bytes(range(256)) * 32 * 1024
    some_has_come = asyncio.Event()
    async with ScriptedOrigin(recorder) as upstream:
        gateway = relaying.gateway(upstream.url)

        async def handler(request: web.Request) -> web.StreamResponse:
            if late and request.can_read_body:
                await until(lambda: request.content.total_bytes >= 1024, "some of the body has come")
                some_has_come.set()
            return await gateway.relay(request)

        await relaying.serve(handler)
        client = await relaying.connect()
        for number in range(2):
            some_has_come.clear()
            head = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
            await client.get(f"/{number}", head, method="PUT")
            start = 2048
            await client.send(b"%x\r\n%s\r\n" % (start, body[:start]) if chunked else body[:start])
            if late:
                await in_time(some_has_come.wait(), "the origin has some of the body")
            rest = body[start:]
            await client.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(rest), rest) if chunked else rest)
            reply = await client.head()
            assert (reply.status, await client.body(reply)) == (200, b"ok")
        # The connection goes on, also with a request that has no body.
        assert (await client.ask("/after")).body == b"ok"
    assert [arrival.body for arrival in recorder.arrivals] == [body, body, b""]
    # What came before the relay had begun, of twice 8 MiB.
    assert relaying.own.stats().pool.bytes_copied["worker"] < 4 * 1024 * 1024
