"""`penstock serve` in front of clients that stop reading: the origin waits, and the process stays within its budget."""

import asyncio
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import Running, serve
from support.waiting import until

KIB = 1024
MIB = 1024 * KIB
BODY = 1000 * MIB
POOL = 16 * MIB
PER_CONNECTION = 16 * KIB
PIECE = bytes(64 * KIB)


async def origin(peer: Peer) -> None:
    while True:
        if (await peer.request()).target == "/small":
            await peer.send(answer("Content-Length: 2", body=b"ok"))
            continue
        await peer.send(answer(f"Content-Length: {BODY}"))
        for _ in range(BODY // len(PIECE)):
            await peer.send(PIECE)


def resident(running: Running) -> int:
    """VmRSS of the gateway, in bytes. The pool's pages count, as shared memory."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * KIB


async def stopped(beside: RawClient, peers: list[Peer], statuses: set[int]) -> int:
    """What the origin has sent when nothing more is taken, however many requests pass beside it."""
    before = -1
    while before != (sent := sum(peer.sent for peer in peers)):
        before = sent
        for _ in range(100):
            assert (await beside.ask("/small")).head.status in statuses
    return sent


ASYNCIO_COPIES = pytest.mark.skipif(
    sys.version_info < (3, 12),
    reason="asyncio's transport of Python 3.11 copies what the socket did not take",
)


@pytest.mark.parametrize(
    ("count", "loop"),
    [
        (1, "--uvloop"),
        (1, "--no-uvloop"),
        (8, "--uvloop"),
        (8, "--no-uvloop"),
        (64, "--uvloop"),
        pytest.param(64, "--no-uvloop", marks=ASYNCIO_COPIES),
    ],
)
async def test_clients_that_stop_reading_cost_no_more_than_the_budget(count: int, loop: str) -> None:
    async with (
        ScriptedOrigin(origin) as server,
        serve("--origin", server.url, "--memory", "16MiB", "--no-access-log", loop) as running,
    ):
        beside = await RawClient.connect(running.port)
        for _ in range(500):
            assert (await beside.ask("/small")).body == b"ok"
        idle = resident(running)
        clients = [await RawClient.connect(running.port, receive_buffer=64 * KIB) for _ in range(count)]
        for client in clients:
            client.writer.transport.pause_reading()
            await client.get("/large")

        def large() -> list[Peer]:
            return [peer for peer in server.connections if any(r.target == "/large" for r in peer.requests)]

        await until(lambda: len(large()) == count, "every request has reached the origin")
        peers = large()
        # 64 windows of up to 1 MiB, which grow while the sockets' buffers fill, could take the whole pool: new work
        # may be refused then.
        sent = await stopped(beside, peers, {200} if count < POOL // MIB else {200, 503})
        # What the kernel's buffers on both sides take, which grow to several MiB for each connection.
        assert sent < count * BODY // 20
        limit = idle + POOL + count * PER_CONNECTION
        used = resident(running)
        assert used <= limit, f"{used // KIB} KiB of {limit // KIB}; {idle // KIB} when idle"

        # And it is slowness, not failure: who reads again gets more.
        first = clients[0]
        first.writer.transport.resume_reading()
        assert (await first.head()).one("Content-Length") == str(BODY)
        await first.reader.readexactly(64 * MIB)
        assert resident(running) <= limit
        for client in (beside, *clients):
            client.reset()
        await asyncio.gather(*(peer.wait_left() for peer in peers))
        running.process.terminate()
        assert await running.ended() == 0


CROWD = 1000
CROWD_POOL = 64 * MIB
SMALL_BUFFER = 16 * KIB
"""Of the sockets at either end: the kernel's memory is not the gateway's, and a thousand connections have much of it."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Enough for both ends of a crowd, here and in children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 4 * CROWD
    if soft < needed and hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"only {hard} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("lane", ["native", "app"])
@pytest.mark.usefixtures("many_descriptors")
async def test_a_crowd_that_stops_reading_leaves_room_for_others(lane: str) -> None:
    """A thousand readers of a body of 1 GB, on a pool of 64 MiB: a client that comes then is served as before."""
    async with (
        ScriptedOrigin(origin) as server,
        serve(
            *("--origin", server.url, "--memory", "64MiB", "--threads", "1"),
            *("--no-access-log", "--lane", lane),
        ) as running,
    ):
        # Connections that are accepted take it from the listener.
        server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        beside = await RawClient.connect(running.port)
        for _ in range(500):
            assert (await beside.ask("/small")).body == b"ok"
        idle = resident(running)
        crowd = [await RawClient.connect(running.port, receive_buffer=SMALL_BUFFER) for _ in range(CROWD)]
        for client in crowd:
            client.writer.transport.pause_reading()
            await client.get("/large")

        def large() -> list[Peer]:
            return [peer for peer in server.connections if any(r.target == "/large" for r in peer.requests)]

        await until(lambda: len(large()) == CROWD, "every request has reached the origin")
        peers = large()
        # None of the requests beside them is refused, before the windows are full and after.
        sent = await stopped(beside, peers, {200})
        assert sent < CROWD * BODY // 20
        limit = idle + CROWD_POOL + CROWD * PER_CONNECTION
        used = resident(running)
        assert used <= limit, f"{used // KIB} KiB of {limit // KIB}; {idle // KIB} when idle"
        for _ in range(100):
            fresh = await RawClient.connect(running.port)
            for _ in range(3):
                assert (await fresh.ask("/small")).body == b"ok"
            fresh.abort()
        assert not any(peer.left for peer in peers), "a client was cut off to make room"

        # A client that reads again gets more.
        first = crowd[0]
        first.writer.transport.resume_reading()
        assert (await first.head()).one("Content-Length") == str(BODY)
        await first.reader.readexactly(16 * MIB)
        assert resident(running) <= limit
        for client in (beside, *crowd):
            client.reset()
        await asyncio.gather(*(peer.wait_left() for peer in peers))
        running.process.terminate()
        assert await running.ended() == 0
