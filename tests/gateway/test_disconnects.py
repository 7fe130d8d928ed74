"""The client leaves: the upstream request ends at once, whatever it was waiting for, and nothing stays behind."""

import asyncio

import pytest
from aiohttp import web

import penstock
from penstock.config import OriginLimits
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import FAILURE, Gateway
from support.client import RawClient, answer
from support.origins import says
from support.waiting import in_time, until

from .conftest import Connect
from .server import Served, Serving

CHUNKED = answer("Transfer-Encoding: chunked")
LEAVE = {"closing": RawClient.abort, "resetting": RawClient.reset, "ending its side": None}


def leave(client: RawClient, how: str) -> None:
    action = LEAVE[how]
    if action is None:
        client.writer.write_eof()
    else:
        action(client)


async def assert_gone(served: Served) -> None:
    """The relay has ended because its client left."""
    error = await served.error()
    assert isinstance(error, penstock.ConnectionFailedError)
    assert error.name == "CLIENT_GONE"


async def assert_cancelled(served: Served) -> None:
    """The handler was cancelled because its client left; aiohttp expects that, and logs nothing."""
    await assert_gone(served)
    outcome = await served.outcomes.get()
    assert isinstance(outcome, asyncio.CancelledError)
    assert isinstance(outcome.__cause__, penstock.ConnectionFailedError)
    assert outcome.__cause__.name == "CLIENT_GONE"


def connections(serving: Serving, origin: ScriptedOrigin) -> tuple[int, int, int]:
    stats = serving.engine.stats().origins.get(origin.url)
    return (0, 0, 0) if stats is None else (stats.active, stats.idle, stats.waiting)


@pytest.mark.parametrize("how", LEAVE)
async def test_leaving_before_the_head(
    serving: Serving, connect: Connect, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get()
        peer = await origin.connection()
        leave(client, how)
        await peer.wait_left()
        await assert_cancelled(served)
        await until(lambda: connections(serving, origin) == (0, 0, 0), "the connection is closed")
    assert not caplog.records


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize(
    "data", [answer("Content-Length: 10", body=b"half"), CHUNKED + b"4\r\nhalf\r\n"], ids=["length", "chunks"]
)
async def test_leaving_between_bytes(
    serving: Serving, connect: Connect, data: bytes, version: str, how: str
) -> None:
    async with ScriptedOrigin(says(data, then="stall")) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get(version=version)
        await client.head()
        await client.reader.readuntil(b"half")
        leave(client, how)
        await (await origin.connection()).wait_left()
        end = await served.ends.get()
        assert isinstance(end.error, penstock.ConnectionFailedError)
        assert (end.error.name, end.status, end.bytes) == ("CLIENT_GONE", 200, 4)
        assert end.timings is not None


async def test_a_relay_that_was_cancelled_leaves_why_on_the_request(
    serving: Serving, connect: Connect
) -> None:
    noted: list[tuple[str, int | None]] = []

    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        gateway = Gateway(origin.url, engine=serving.engine)

        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                return await gateway.relay(request)
            finally:
                noted.append((request[FAILURE].error.name, request[FAILURE].status))

        served = await serving.handler(handler)
        client = await connect(served)
        await client.get()
        peer = await origin.connection()
        client.abort()
        await peer.wait_left()
        assert isinstance(await served.outcomes.get(), asyncio.CancelledError)
        assert noted == [("CLIENT_GONE", None)]


@pytest.mark.parametrize("how", ["closing", "resetting"])
@pytest.mark.parametrize("reads", [True, False], ids=["origin reads", "origin does not read"])
@pytest.mark.parametrize("framing", ["Content-Length: 1000000000", "Transfer-Encoding: chunked"])
async def test_leaving_while_uploading(
    serving: Serving, connect: Connect, framing: str, reads: bool, how: str
) -> None:
    received = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        if reads:
            await peer.read(100)
            received.set()
            while True:
                await peer.read(1)
        await peer.stall()

    async with ScriptedOrigin(script) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get("/", framing, method="PUT")
        await client.send(b"3e8\r\n" + bytes(500))
        peer = await origin.connection()
        if reads:
            await in_time(received.wait(), "the origin has received some of it")
        leave(client, how)
        await peer.wait_left()
        await assert_gone(served)


async def test_leaving_while_nothing_is_read(serving: Serving, connect: Connect) -> None:
    """The gateway's transport is full and paused: not even then is the connection's end overlooked."""

    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 10000000000"))
        while True:
            await peer.send(bytes(64 * 1024))

    async with ScriptedOrigin(endless) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        client.writer.transport.pause_reading()
        await client.get()
        peer = await origin.connection()
        await until(lambda: peer.sent > 1024 * 1024, "the client's socket is full")
        client.reset()
        await peer.wait_left()
        await assert_gone(served)


async def test_leaving_in_the_line_for_a_connection(connect: Connect, transport: str) -> None:
    async with (
        penstock.Engine(memory="4MiB", limits=OriginLimits(connections=1)) as engine,
        ScriptedOrigin(says(b"", then="stall")) as origin,
    ):
        serving = Serving(engine, transport)
        served = await serving.gateway(origin.url)
        first, second = await connect(served), await connect(served)
        await first.get()
        await origin.connection()
        await second.get()
        await until(lambda: connections(serving, origin) == (1, 0, 1), "the second request waits")
        second.abort()
        await assert_gone(served)
        await until(lambda: connections(serving, origin) == (1, 0, 0), "no request waits")
        first.abort()
        await assert_gone(served)
        assert len(origin.connections) == 1
        await serving.close()


async def test_leaving_after_the_end_keeps_the_origins_connection(serving: Serving, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer("Content-Length: 2", body=b"ok"))

    async with ScriptedOrigin(script) as origin:
        served = await serving.gateway(origin.url)
        for _ in range(3):
            client = await connect(served)
            assert (await client.ask()).body == b"ok"
            client.reset()
            # The client may have its response before the engine has its connection back.
            await until(lambda: connections(serving, origin) == (0, 1, 0), "the connection is kept")
        assert len(origin.connections) == 1


async def test_a_crowd_that_leaves_leaves_nothing(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(says(CHUNKED + b"4\r\nhalf\r\n", then="stall")) as origin:
        served = await serving.gateway(origin.url)
        clients = [await connect(served) for _ in range(100)]
        for number, client in enumerate(clients):
            await client.get()
            if number % 2:
                await client.head()
        for number, client in enumerate(clients):
            leave(client, ("closing", "resetting")[number % 3 == 0])
        for _ in clients:
            await assert_gone(served)
        await until(lambda: connections(serving, origin) == (0, 0, 0), "every connection is closed")
        for peer in origin.connections:
            await peer.wait_left()
        assert serving.engine.stats().pool.live_bytes == 0


@pytest.mark.parametrize("transport", ["stock"], indirect=True)
async def test_the_error_of_a_connection_that_closed_before_its_body_holds_none_of_it(
    serving: Serving, connect: Connect
) -> None:
    """An application may keep the error, as this test does. Python sends the body, and its first write fails."""

    async def close_at_the_head(request: web.Request, _: web.StreamResponse) -> None:
        await until(lambda: serving.engine.stats().bytes_received == len("half"), "the body has begun")
        transport = request.transport
        assert transport is not None
        transport.abort()

    async with ScriptedOrigin(says(CHUNKED + b"4\r\nhalf\r\n", then="stall")) as origin:
        served = await serving.gateway(origin.url, close_at_the_head)
        client = await connect(served)
        await client.get()
        await assert_gone(served)
        outcome = await served.outcomes.get()
        assert isinstance(outcome, asyncio.CancelledError)
        await until(lambda: connections(serving, origin) == (0, 0, 0), "the connection is closed")
        assert serving.engine.stats().pool.live_bytes == 0
