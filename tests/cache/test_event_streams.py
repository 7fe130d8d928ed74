"""Event streams are never stored, whatever their origin says: they would be told again as if they happened then."""

import asyncio

from penstock.config import Caching, EventRelay
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import EVENTS, chunk
from support.waiting import in_time

FRESH = "Cache-Control: max-age=60"
HEAD = EVENTS.removesuffix(b"\r\n") + FRESH.encode() + b"\r\n\r\n"


async def test_each_client_has_the_origin_asked_and_what_is_done_with_events_is_done(caching: Edges) -> None:
    go = asyncio.Event()

    async def stream(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(HEAD + chunk(b"data: x\n\n"))
            await go.wait()
            await peer.send(b"0\r\n\r\n")

    async with ScriptedOrigin(stream) as origin:
        served = await caching.relay(origin.url, caching=Caching(), events=EventRelay(heartbeat=0.05))
        client = await caching.connect(served)
        await client.get()
        head = await in_time(client.head())
        assert (head.one("X-Accel-Buffering"), head.one("Cache-Control")) == ("no", "max-age=60")
        assert head.one("Cache-Status") == "penstock; fwd=uri-miss; fwd-status=200"
        assert await in_time(client.chunk()) == b"data: x\n\n"
        assert await in_time(client.chunk()) == b":\n\n", "a heartbeat"
        go.set()
        while await in_time(client.chunk()):
            pass
        again = await in_time(client.ask())
        assert again.body.replace(b":\n\n", b"") == b"data: x\n\n"
        assert len(origin.requests) == 2


async def test_no_request_waits_for_another_clients_event_stream(caching: Edges) -> None:
    held = asyncio.Event()

    async def endless(peer: Peer) -> None:
        await peer.request()
        await held.wait()
        await peer.send(HEAD + chunk(b"data: x\n\n"))
        await peer.stall()

    async with ScriptedOrigin(endless) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = [await caching.connect(served) for _ in range(5)]
        for client in clients:
            await client.get()
        await origin.connection()
        held.set()
        for client in clients:
            await in_time(client.head())
            assert await in_time(client.chunk()) == b"data: x\n\n"
        assert len(origin.requests) == 5


async def test_a_transcript_that_says_how_long_it_is_is_a_document(caching: Edges) -> None:
    body = b"data: x\n\n"

    async def transcript(peer: Peer) -> None:
        while True:
            await peer.request()
            fields = ("Content-Type: text/event-stream", f"Content-Length: {len(body)}", FRESH)
            await peer.send(answer(*fields, body=body))

    async with ScriptedOrigin(transcript) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert (await client.ask()).body == (await client.ask()).body == body
        assert len(origin.requests) == 1
