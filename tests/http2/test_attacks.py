"""Clients that send what costs them nothing: each is cut off, is counted, and delays no other client."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import hpack
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from penstock.testing import Peer, ScriptedOrigin
from support.http2 import Http2Client
from support.waiting import in_time

from .conftest import Serve

ENHANCE_YOUR_CALM = 11
HEAD = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/describe")]
COUNT = 20_000


def head(*fields: tuple[str, str]) -> bytes:
    """Fields as each stream may have them: none of them is indexed."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode([*HEAD, *fields], huffman=False)


def opened(stream: int, *flags: str, data: bytes | None = None) -> HeadersFrame:
    return HeadersFrame(stream, data=head() if data is None else data, flags=["END_HEADERS", *flags])


@dataclass(frozen=True)
class Unknown:
    """A frame that hyperframe has no name for."""

    kind: int
    body: bytes

    def serialize(self) -> bytes:
        return struct.pack(">I", len(self.body))[1:] + bytes([self.kind]) + bytes(5) + self.body


def repeated(*frames: Frame | Unknown) -> Callable[[Http2Client], Awaitable[None]]:
    """Send frames again and again, in one write after the other."""

    async def attack(client: Http2Client) -> None:
        once = b"".join(frame.serialize() for frame in frames)
        for _ in range(COUNT // 100):
            await client.raw(once * 100)

    return attack


async def resets(client: Http2Client) -> None:
    for stream in range(1, 2 * COUNT, 2):
        await client.frames(opened(stream, "END_STREAM"), RstStreamFrame(stream, error_code=8))


async def made_resets(client: Http2Client) -> None:
    """Have the server reset streams: by windows that are opened too far (CVE-2025-8671)."""
    for stream in range(1, 2 * COUNT, 2):
        await client.frames(opened(stream), WindowUpdateFrame(stream, window_increment=(1 << 31) - 1))


async def empty_data(client: Http2Client) -> None:
    await client.frames(opened(1))
    await repeated(DataFrame(1))(client)


async def tiny_data(client: Http2Client) -> None:
    """To a handler that has not been asked to read: what is here is kept, with what it costs."""
    await client.frames(opened(1))
    await repeated(DataFrame(1, data=b"x"))(client)


async def drips(client: Http2Client) -> None:
    """A window that is opened by one byte, again and again."""
    await client.frames(SettingsFrame(0, settings={4: 0}), opened(1, "END_STREAM"))
    await repeated(WindowUpdateFrame(1, window_increment=1))(client)


async def continuations(client: Http2Client) -> None:
    await client.frames(HeadersFrame(1, data=head()))
    await repeated(ContinuationFrame(1, data=b""))(client)


ATTACKS: dict[str, tuple[str, Callable[[Http2Client], Awaitable[None]]]] = {
    "resets": ("resets", resets),
    "resets of the server's": ("resets", made_resets),
    "CONTINUATION": ("continuations", continuations),
    "PING": ("control_frames", repeated(PingFrame(0, opaque_data=b"12345678"))),
    "SETTINGS": ("control_frames", repeated(SettingsFrame(0))),
    "PRIORITY": ("control_frames", repeated(PriorityFrame(1, depends_on=0, stream_weight=1))),
    "PRIORITY_UPDATE": (
        "control_frames",
        repeated(Unknown(16, struct.pack(">I", 1) + b"u=1")),
    ),
    "WINDOW_UPDATE": ("control_frames", repeated(WindowUpdateFrame(0, window_increment=1))),
    "unknown frames": ("control_frames", repeated(Unknown(99, b"x"))),
    "empty DATA": ("control_frames", empty_data),
    "tiny DATA": ("control_frames", tiny_data),
    "a window by one byte": ("control_frames", drips),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_flood_is_cut_off_and_delays_nobody(serve: Serve, name: str) -> None:
    reason, attack = ATTACKS[name]
    served = await serve()
    bystander = await served.connect()
    attacker = await served.connect()

    async def run() -> None:
        with suppress(ConnectionError):
            await attack(attacker)

    attacking = asyncio.create_task(run())
    await attacker.end()
    await in_time(attacking, "the attacker has noticed")
    assert attacker.goodbye in (ENHANCE_YOUR_CALM, None), (
        "what it has not read may have been lost with a reset"
    )
    assert served.refusals() == {reason: 1}
    assert (await bystander.ask("/describe")).status == 200
    assert served.engine.stats().pool.live_bytes < 1 << 20


async def test_tiny_frames_of_a_body_that_nobody_reads_have_a_limit(serve: Serve) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.stall()

    async with ScriptedOrigin(silent) as origin:
        served = await serve(origin.url)
        attacker = await served.connect()
        await attacker.frames(opened(1))
        with suppress(ConnectionError):
            await repeated(DataFrame(1, data=b"x"))(attacker)
        bystander = await served.connect()
        assert (await bystander.ask("/describe")).status == 200
        assert served.engine.stats().pool.live_bytes < 4 << 20


@pytest.mark.parametrize("crumbs", [True, False], ids=["cookies", "fields"])
async def test_fields_that_unpack_to_many_are_refused(serve: Serve, crumbs: bool) -> None:
    """A field of 4 KB that is indexed once, and named by one byte after that."""
    encoder = hpack.Encoder()
    field = ("cookie" if crumbs else "x", "y" * 3900)
    first, again = encoder.encode([*HEAD, field]), encoder.encode([*HEAD, *[field] * 2000])
    assert len(again) < 8000
    served = await serve()
    client = await served.connect()
    await client.frames(HeadersFrame(1, data=first, flags=["END_HEADERS", "END_STREAM"]))
    await client.frames(HeadersFrame(3, data=again, flags=["END_HEADERS", "END_STREAM"]))
    bystander = await served.connect()
    assert (await bystander.ask("/describe")).status == 200
    assert served.engine.stats().pool.live_bytes < 1 << 20


async def test_a_client_that_never_speaks_is_closed(serve: Serve) -> None:
    served = await serve(head_timeout=0.2)
    client = await served.connect(begins=False)
    assert await in_time(client.reader.read(-1), "the connection ends") is not None


async def test_a_client_that_does_not_speak_http_2_is_refused(serve: Serve) -> None:
    served = await serve()
    client = await served.connect(begins=False)
    await client.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await in_time(client.reader.read(-1), "the connection ends")
    other = await served.connect(begins=False)
    await other.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\x01\x00\x00\0\0\0\0x")
    await in_time(other.reader.read(-1), "the connection ends")
    assert served.refusals() == {"malformed": 2}


async def test_more_streams_than_the_client_may_open_are_refused(serve: Serve) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.stall()

    async with ScriptedOrigin(silent) as origin:
        served = await serve(origin.url)
        client = await served.connect()
        data = hpack.Encoder().encode([*HEAD[:3], (":path", "/native/a")], huffman=False)
        for stream in range(1, 2 * 101 + 1, 2):
            await client.frames(HeadersFrame(stream, data=data, flags=["END_HEADERS", "END_STREAM"]))
        other = await served.connect()
        assert (await other.ask("/describe")).status == 200
        assert served.engine.stats().pool.live_bytes < 4 << 20
