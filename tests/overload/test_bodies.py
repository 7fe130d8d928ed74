"""Clients that send their bodies slowly: what they keep from others, and for how long."""

import json

import pytest

from penstock.config import Edge
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Served
from support.origins import Recorder
from support.waiting import until

from .conftest import CONNECTIONS, Overloaded

COUNTED = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


async def slow(edge: Overloaded, served: Served, message: bytes, count: int) -> list[RawClient]:
    clients = [await edge.connect(served) for _ in range(count)]
    for client in clients:
        await client.send(message)
    await until(lambda: served.requests >= count, "their heads have come")
    return clients


async def refusal(client: RawClient) -> tuple[int, str]:
    head = await client.head()
    return head.status, json.loads(await client.body(head))["name"]


async def test_a_body_of_which_too_little_is_here_takes_no_connection(edge: Overloaded) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url)
        clients = await slow(edge, served, COUNTED + b"x", 5 * CONNECTIONS * edge.threads)
        honest = await edge.connect(served)
        for _ in range(20):
            assert (await honest.ask()).body == b"ok"
        assert len(origin.connections) == 1, "the honest one's"
        await clients[0].send(b"y" * 9)
        assert (await clients[0].head()).status == 200
        assert recorder.arrivals[-1].body == b"x" + b"y" * 9


async def test_a_large_body_takes_a_connection_when_a_part_of_it_is_here(edge: Overloaded) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await edge.relay(origin.url)
        client = await edge.connect(served)
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + b"x" * 200_000)
        await origin.connection()
        await client.send(b"x" * 100_000)
        assert (await client.head()).status == 200
        assert len(recorder.arrivals[0].body) == 300_000


async def test_slow_bodies_of_unknown_length_have_a_share_of_the_connections(edge: Overloaded) -> None:
    """They may be live streams: they are waited for, but not for long."""

    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        await slow(edge, served, CHUNKED + b"1\r\nx\r\n", 5 * CONNECTIONS * edge.threads)
        share = CONNECTIONS // 2 * edge.threads
        await until(lambda: len(origin.connections) == share, "they have half of the connections")
        honest = await edge.connect(served)
        for _ in range(20):
            assert (await honest.ask()).body == b"ok"
        # A body that is all here is no slow one.
        await honest.send(CHUNKED + b"2\r\nxy\r\n0\r\n\r\n")
        assert (await honest.body(await honest.head())) == b"ok"
        assert len(origin.connections) == share + 1


@pytest.mark.parametrize("framing", [COUNTED + b"x", CHUNKED + b"1\r\nx\r\n"], ids=["counted", "chunked"])
async def test_a_body_that_comes_too_slowly_is_refused(edge: Overloaded, framing: bytes) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(least_rate=1000, body_patience=0.05))
        (client,) = await slow(edge, served, framing, 1)
        assert await refusal(client) == (408, "REQUEST_TOO_SLOW")
        assert not origin.connections, "no request has reached the origin"
        assert (await (await edge.connect(served)).ask()).body == b"ok"
        await until(lambda: "REQUEST_TOO_SLOW" in edge.text(), "it is counted")


async def test_a_body_has_a_limit_as_a_whole(edge: Overloaded) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url, edge=Edge(body_total_timeout=0.1, least_rate=None))
        (client,) = await slow(edge, served, COUNTED + b"x", 1)
        assert await refusal(client) == (408, "REQUEST_TIMEOUT")
