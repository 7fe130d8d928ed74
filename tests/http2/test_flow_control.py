"""Windows: what a client that does not read costs, and in which order what it reads comes."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from penstock import metrics
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import EVENTS, chunk
from support.waiting import until

from .conftest import BODY, Serve

LARGE = BODY * 8


def large(*fields: str) -> Callable[[Peer], Awaitable[None]]:
    async def say(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer(f"Content-Length: {len(LARGE)}", *fields, body=LARGE))

    return say


@pytest.mark.parametrize("window", [1, 100, 16_384, 65_534, 65_536])
async def test_any_window_brings_the_whole_body(serve: Serve, window: int) -> None:
    # A client that opens its window by little is cut off after 1,000 frames.
    body = BODY[: min(500 * window, 200_000)]

    async def some(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    client = await (await serve(routes=[web.get("/some", some)])).connect(window=window)
    assert (await client.ask("/some")).body == body


async def test_a_client_may_open_its_windows_in_small_steps(serve: Serve) -> None:
    """As Go's client does: by 4 KiB, for the stream and for the connection."""
    async with ScriptedOrigin(large()) as origin:
        served = await serve(origin.url)
        client = await served.connect(step=4096)
        for _ in range(4):
            assert (await client.ask("/native/a")).body == LARGE
        assert served.refusals() == {}


async def test_a_stream_that_is_not_read_does_not_hold_up_the_others(serve: Serve) -> None:
    async with ScriptedOrigin(large()) as origin:
        served = await serve(origin.url)
        client = await served.connect()
        client.h2.increment_flow_control_window(1 << 24)
        await client.flush()
        client.reads = False
        unread = await client.request("/native/unread")
        got = client.answers[unread]
        await client.until(lambda: len(got.body) == 65_535, "the window is full")
        client.reads = True
        for _ in range(3):
            assert (await client.ask("/native/read")).body == LARGE
            assert (await client.ask("/body")).body == BODY
        assert len(got.body) == 65_535
        assert served.engine.stats().pool.live_bytes < 2 << 20
        client.h2.increment_flow_control_window(len(LARGE), unread)
        await client.flush()
        assert (await client.answer(unread)).body == LARGE


async def test_an_upload_that_is_not_read_stops_at_its_window(serve: Serve) -> None:
    gate = asyncio.Event()

    async def late(request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response(text=str(len(await request.read())))

    served = await serve(routes=[web.post("/late", late)])
    client = await served.connect()
    stream = await client.request("/late", method="POST", ends=False)
    sending = asyncio.create_task(client.send(stream, LARGE))
    other = await served.connect()
    assert (await other.ask("/describe")).status == 200
    assert not sending.done()
    assert served.engine.stats().pool.live_bytes < 1 << 20
    gate.set()
    await sending
    assert (await client.answer(stream)).body == str(len(LARGE)).encode()


@pytest.mark.parametrize("how", ["field", "frame", "media type"])
async def test_the_most_urgent_response_comes_first(serve: Serve, how: str) -> None:
    async def say(peer: Peer) -> None:
        request = await peer.request()
        kind = "application/vnd.apple.mpegurl" if request.target.endswith("soon") else "video/mp4"
        await peer.send(answer(f"Content-Length: {len(LARGE)}", f"Content-Type: {kind}"))
        await peer.send(LARGE)
        await peer.stall()

    late, soon = (("priority", "u=5"), ("priority", "u=1")) if how == "field" else ((), ())
    async with ScriptedOrigin(say) as origin:
        served = await serve(origin.url)
        client = await served.connect(window=1 << 24, receive_buffer=16_384)
        client.h2.increment_flow_control_window(1 << 24)
        first = await client.request("/native/first")
        await client.until(lambda: bool(client.answers[first].body), "it has begun")
        # From here on nothing is read: the socket is full, and each response waits for its turn.
        streams = [
            await client.request(f"/native/{name}", *field)
            for name, field in (("late", [late] * bool(late)), ("soon", [soon] * bool(soon)))
        ]
        if how == "frame":
            payload = struct.pack(">I", streams[1]) + b"u=0"
            await client.raw(struct.pack(">I", len(payload))[1:] + b"\x10\0\0\0\0\0" + payload)
        answered = f'penstock_origin_responses_total{{origin="{origin.url}",status="2xx"}} 3'
        await until(lambda: answered in metrics.text(served.engine), "penstock has three responses")
        for stream in streams[::-1]:
            got = await client.answer(stream) if stream == streams[1] else client.answers[stream]
            if stream == streams[0]:
                assert len(got.body) < len(LARGE) / 4, "it has waited"
        for stream in (first, streams[0]):
            assert (await client.answer(stream)).body == LARGE


async def test_of_requests_that_come_at_once_what_is_stored_waits_for_no_other(serve: Serve) -> None:
    gate = asyncio.Event()
    body = BODY[:50_000]

    async def say(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.target.endswith("slow"):
                await gate.wait()
            await peer.send(answer(f"Content-Length: {len(body)}", "Cache-Control: max-age=60", body=body))

    async with ScriptedOrigin(say) as origin:
        served = await serve(origin.url)
        client = await served.connect(window=1 << 24)
        client.h2.increment_flow_control_window(1 << 24)
        assert (await client.ask("/cached/a")).body == body
        asked = [("/cached/a", "u=5"), ("/native/slow", "u=0"), *[("/cached/a", "u=1")] * 8]
        late, slow, *urgent = [client.begin(path, ("priority", value)) for path, value in asked]
        await client.flush()
        for stream in (late, *urgent):
            assert (await client.answer(stream)).body == body
        assert not client.answers[slow].fields
        first = [client.order.index(stream) for stream in (*urgent, late)]
        assert first == sorted(first), "one write has all of them, the urgent ones first"
        gate.set()
        assert (await client.answer(slow)).body == body


async def test_events_come_beside_a_download(serve: Serve) -> None:
    gate = asyncio.Event()

    async def say(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.target.endswith("/events"):
                for number in range(5):
                    await peer.send((EVENTS if number == 0 else b"") + chunk(b"data: %d\n\n" % number))
                await gate.wait()
                await peer.send(chunk(b"data: last\n\n") + b"0\r\n\r\n")
            else:
                await peer.send(answer(f"Content-Length: {len(LARGE)}", body=LARGE))

    async with ScriptedOrigin(say) as origin:
        client = await (await serve(origin.url)).connect()
        events = await client.request("/native/events")
        await client.until(lambda: client.answers[events].body.count(b"data") == 5, "the first events")
        download = await client.request("/native/large")
        gate.set()
        await client.until(lambda: client.answers[events].ended, "the last event")
        assert (await client.answer(download)).body == LARGE


async def test_fifty_event_streams_share_one_connection(serve: Serve) -> None:
    async def say(peer: Peer) -> None:
        while True:
            await peer.request()
            for number in range(10):
                await peer.send((EVENTS if number == 0 else b"") + chunk(b"data: %d\n\n" % number))
            await peer.send(b"0\r\n\r\n")

    async with ScriptedOrigin(say) as origin:
        served = await serve(origin.url)
        client = await served.connect()
        streams = [await client.request(f"/native/{number}") for number in range(50)]
        for stream in streams:
            got = await client.answer(stream)
            assert got.body.count(b"data:") == 10
        assert served.refusals() == {}
