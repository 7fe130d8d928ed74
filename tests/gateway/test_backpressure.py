"""A client that does not read stops the origin from being read, and nothing else; then it gets everything."""

import asyncio

import pytest

from penstock.testing import Peer, ScriptedOrigin, respond
from support.client import answer

from .conftest import Connect
from .server import Serving

PIECE = bytes(range(256)) * 256
COUNT = 1024
TOTAL = len(PIECE) * COUNT

# An event of 64 KiB, too.
EVENT = b"data: " + b"e" * (len(PIECE) - 8) + b"\n\n"


class Source:
    """An origin that sends COUNT pieces as fast as they are taken."""

    def __init__(self, framing: str) -> None:
        self.piece = EVENT if framing == "events" else PIECE
        fields = {
            "length": (f"Content-Length: {TOTAL}",),
            "chunks": ("Transfer-Encoding: chunked",),
            "events": ("Transfer-Encoding: chunked", "Content-Type: text/event-stream"),
            "close": (),
        }[framing]
        self.head = answer(*fields)
        self.chunked = "Transfer-Encoding: chunked" in fields

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(self.head)
        for _ in range(COUNT):
            await peer.send(b"%x\r\n%s\r\n" % (len(self.piece), self.piece) if self.chunked else self.piece)
        if self.chunked:
            await peer.send(b"0\r\n\r\n")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("framing", ["length", "chunks", "events", "close"])
async def test_a_client_that_does_not_read_stops_the_origin(
    serving: Serving, connect: Connect, engine, framing: str, version: str
) -> None:
    source = Source(framing)
    async with (
        ScriptedOrigin(source) as origin,
        ScriptedOrigin(respond(answer("Content-Length: 0"))) as other,
    ):
        served = await serving.gateway(origin.url)
        slow = await connect(served)
        beside = await connect(await serving.gateway(other.url))
        slow.writer.transport.pause_reading()
        await slow.get(version=version)
        peer = await origin.connection()
        # Whole requests pass beside it while it stands still.
        before = -1
        while before != peer.sent or not peer.sent:
            before = peer.sent
            for _ in range(100):
                assert (await beside.ask()).head.status == 200
        # What fills the sockets' buffers on both sides, which grow to several MiB, and one window between.
        assert peer.sent < TOTAL // 2
        assert engine.stats().pool.live_bytes <= 2 * 1024 * 1024
        assert engine.stats().bytes_received < TOTAL // 2

        slow.writer.transport.resume_reading()
        head = await slow.head()
        body = await slow.body(head)
        assert (body == source.piece * COUNT) is True
        assert len(origin.connections) == 1


async def test_each_slow_client_holds_its_own_origin_alone(
    serving: Serving, connect: Connect, engine
) -> None:
    """Eight that do not read hold eight windows, and the ninth gets all it wants at once."""
    source = Source("length")
    async with ScriptedOrigin(source) as origin:
        served = await serving.gateway(origin.url)
        slow = [await connect(served) for _ in range(8)]
        for client in slow:
            client.writer.transport.pause_reading()
            await client.get()
        await origin.connection(7)
        reply = await (await connect(served)).ask()
        assert reply.body == PIECE * COUNT
        assert all(peer.sent < TOTAL for peer in origin.connections[:8])
        assert engine.stats().pool.peak_bytes <= 16 * 1024 * 1024
        for client in slow:
            client.reset()
        await asyncio.gather(*(peer.wait_left() for peer in origin.connections[:8]))
