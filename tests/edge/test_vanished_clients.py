"""Clients whose hosts have vanished: nothing comes from there any more, not even that what was sent has arrived."""

import ctypes
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock import Hub
from penstock.config import Edge, EventRelay, History, Subscriptions, Timeouts
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Edges, Served
from support.origins import ChunkSteps
from support.waiting import until

LIMIT = Edge(write_timeout=1)
HEARTBEATS = [pytest.param(0.1, id="heartbeats"), pytest.param(None, id="nothing")]

_SO_ATTACH_FILTER = 26
_DROP = struct.pack("HBBI", 0x06, 0, 0, 0)
"""An instruction of the kernel's packet filter: take 0 bytes of a packet."""


def vanish(client: RawClient) -> None:
    """Have the kernel drop whatever comes for the client, unseen and unacknowledged."""
    code = ctypes.create_string_buffer(_DROP)
    program = struct.pack("HL", 1, ctypes.addressof(code))
    connection = client.writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


@pytest.fixture
async def hub(edge: Edges) -> AsyncIterator[Hub]:
    hub = Hub(engine=edge.engine, history=History(memory="1MiB"))
    yield hub
    hub.close()


async def gone(served: Served) -> None:
    await until(lambda: served.connections == 0, "the connection is closed")


@pytest.mark.parametrize("heartbeat", HEARTBEATS)
async def test_a_subscriber_that_has_vanished_is_gone(edge: Edges, hub: Hub, heartbeat: float | None) -> None:
    route = hub.native("/events/", subscriptions=Subscriptions(heartbeat=heartbeat))
    served = await edge.serve([route], edge=LIMIT)
    client = await edge.connect(served)
    await client.get("/events/news")
    await client.head()
    vanish(client)
    await gone(served)
    assert hub.stats().subscribers == 0


@pytest.mark.parametrize("heartbeat", HEARTBEATS)
async def test_a_relayed_stream_of_one_that_has_vanished_is_cancelled(
    edge: Edges, heartbeat: float | None
) -> None:
    async with ScriptedOrigin(ChunkSteps(b"data: x\n\n")) as origin:
        events = EventRelay(heartbeat=heartbeat)
        timeouts = Timeouts(between_bytes=None)
        served = await edge.relay(origin.url, edge=LIMIT, events=events, timeouts=timeouts)
        client = await edge.connect(served)
        await client.get()
        await client.head()
        await client.chunk()
        vanish(client)
        await (await origin.connection()).wait_left()
        await gone(served)


async def test_one_that_answers_the_kernels_probes_is_left_alone(edge: Edges, hub: Hub) -> None:
    """For longer than it takes to find out that another one has vanished."""
    route = hub.native("/events/", subscriptions=Subscriptions(heartbeat=None))
    served = await edge.serve([route], edge=LIMIT)
    quiet, other = await edge.connect(served), await edge.connect(served)
    for client in (quiet, other):
        await client.get("/events/news")
        await client.head()
    vanish(other)
    await until(lambda: served.connections == 1, "the other is gone")
    await hub.publish("news", "x")
    assert b"data: x\n" in await quiet.chunk()


async def test_a_socket_that_was_passed_in_has_the_same_limit(edge: Edges, hub: Hub) -> None:
    site = edge.site([hub.native("/events/", subscriptions=Subscriptions(heartbeat=None))], edge=LIMIT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        site.listen_fd(listener.fileno())
    served = Served(port, site)
    client = await edge.connect(served)
    await client.get("/events/news")
    await client.head()
    vanish(client)
    await gone(served)


async def test_what_became_of_it_is_told(edge: Edges, hub: Hub, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    served = await edge.serve([hub.native("/events/")], edge=LIMIT, log=log)
    client = await edge.connect(served)
    await client.get("/events/news")
    await client.head()
    vanish(client)
    await gone(served)
    await until(lambda: log.exists() and log.read_text(), "a line is written")
    assert "/WRITE_TIMEOUT" in log.read_text()
