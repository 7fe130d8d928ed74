"""The origin breaks off within the body: no client can take what it has for the whole.

How a client is told depends on how its response is framed: one with a length gets fewer bytes, one in chunks
gets no last chunk, and one that would end with the connection gets a reset.
"""

import asyncio
import json

import pytest
from aiohttp import web

import penstock
from penstock.config import Timeouts
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.client import Head, RawClient, answer
from support.origins import end, says

from .conftest import Connect
from .server import Serving

SHORT = Timeouts(between_bytes=0.2)
LENGTH = answer("Content-Length: 10")
CHUNKED = answer("Transfer-Encoding: chunked")
UNFRAMED = answer()

# What the origin sends before the client has "half", what it sends after that, how it ends, and the failure.
BREAKS = {
    "a length cut short": (LENGTH + b"half", b"", "close", "BODY_TRUNCATED"),
    "a length and a reset": (LENGTH + b"half", b"", "reset", "ORIGIN_RESET"),
    "a length and silence": (LENGTH + b"half", b"", "stall", "IO_TIMEOUT"),
    "a chunk cut short": (CHUNKED + b"a\r\nhalf", b"", "close", "BODY_TRUNCATED"),
    "a chunk without its end": (CHUNKED + b"4\r\nhalf", b"", "close", "BODY_TRUNCATED"),
    "no next chunk": (CHUNKED + b"4\r\nhalf\r\n", b"", "close", "BODY_TRUNCATED"),
    "a size cut short": (CHUNKED + b"4\r\nhalf\r\n", b"1", "close", "BODY_TRUNCATED"),
    "a last chunk without its end": (CHUNKED + b"4\r\nhalf\r\n", b"0\r\n", "close", "BODY_TRUNCATED"),
    "trailers cut short": (CHUNKED + b"4\r\nhalf\r\n", b"0\r\nX: y\r\n", "close", "BODY_TRUNCATED"),
    "chunks and a reset": (CHUNKED + b"4\r\nhalf\r\n", b"", "reset", "ORIGIN_RESET"),
    "chunks and silence": (CHUNKED + b"4\r\nhalf\r\n", b"", "stall", "IO_TIMEOUT"),
    "a size of letters": (CHUNKED + b"4\r\nhalf\r\n", b"x\r\n", "stall", "BAD_CHUNK"),
    "an endless extension": (
        CHUNKED + b"4\r\nhalf\r\n",
        b"4;" + b"x" * 100_000,
        "stall",
        "CHUNK_EXTENSION_TOO_LARGE",
    ),
    "no framing and a reset": (UNFRAMED + b"half", b"", "reset", "ORIGIN_RESET"),
    "no framing and silence": (UNFRAMED + b"half", b"", "stall", "IO_TIMEOUT"),
}


async def half(client: RawClient, version: str) -> Head:
    """Asks, and reads up to what the origin sends of the body before it breaks off."""
    await client.get(version=version)
    head = await client.head()
    assert head.status == 200
    if head.one("Transfer-Encoding") is not None:
        assert await client.chunk() == b"half"
    else:
        assert await client.reader.readexactly(4) == b"half"
    return head


async def assert_cut_off(client: RawClient, head: Head) -> None:
    """Nothing follows, and the end is not that of a whole response."""
    if head.one("Transfer-Encoding") is not None:
        assert await client.rest() == b"", "there is no last chunk"
    elif head.one("Content-Length") is not None:
        assert head.one("Content-Length") == "10"
        assert await client.rest() == b"", "six bytes are missing"
    else:
        with pytest.raises(ConnectionResetError):
            await client.rest()


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("case", BREAKS)
async def test_a_body_that_breaks_off_is_not_taken_for_whole(
    serving: Serving, connect: Connect, case: str, version: str
) -> None:
    before, after, how, name = BREAKS[case]
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(before)
        await go_on.wait()
        await peer.send(after)
        await end(peer, how)

    async with ScriptedOrigin(script) as origin:
        served = await serving.gateway(origin.url, timeouts=SHORT)
        client = await connect(served)
        head = await half(client, version)
        go_on.set()
        await assert_cut_off(client, head)
        told = await served.ends.get()
        assert isinstance(told.error, penstock.PenstockError), "truncation is never a clean end"
        assert (told.error.name, told.status, told.bytes) == (name, 200, 4)
        if serving.transport == "stock":
            assert await served.outcomes.get() is told.error, "it raises and never returns"


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_the_end_of_the_connection_is_a_whole_response_without_framing(
    serving: Serving, connect: Connect, version: str
) -> None:
    """The other side of the tests above: they would pass if every response were cut off."""
    async with ScriptedOrigin(says(UNFRAMED + b"half")) as origin:
        reply = await (await connect(await serving.gateway(origin.url))).ask(version=version)
        assert (reply.head.status, reply.body) == (200, b"half")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("data", [LENGTH, LENGTH + b"half", CHUNKED, CHUNKED + b"a\r\nhalf"])
async def test_a_failure_right_after_the_head_is_a_problem_or_a_reset(
    serving: Serving, connect: Connect, data: bytes, version: str
) -> None:
    """Head and failure can come together, before anything was sent: then the client is told."""
    async with ScriptedOrigin(says(data)) as origin:
        served = await serving.gateway(origin.url)
        client = await connect(served)
        await client.get(version=version)
        try:
            head = await client.head()
        except ConnectionResetError:
            # It overtakes what was sent before it.
            assert (version, CHUNKED in data) == ("1.0", True)
            head = None
        if head is not None and head.status == 502:
            assert json.loads(await client.body(head))["name"] == "BODY_TRUNCATED"
            if serving.transport == "stock":
                assert isinstance(await served.outcomes.get(), web.Response)
        elif head is not None:
            with pytest.raises((EOFError, ConnectionResetError)):
                await client.body(head)
        assert isinstance(await served.error(), penstock.BodyTruncatedError)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_cancelled_relay_is_not_taken_for_whole(
    serving: Serving, connect: Connect, version: str
) -> None:
    if serving.transport != "stock":
        pytest.skip("the handler is done before its body is sent")
    tasks: list[asyncio.Task[object] | None] = []

    async with ScriptedOrigin(says(CHUNKED + b"4\r\nhalf\r\n", then="stall")) as origin:
        gateway = Gateway(origin.url, engine=serving.engine)

        async def handler(request: web.Request) -> web.StreamResponse:
            tasks.append(asyncio.current_task())
            return await gateway.relay(request)

        client = await connect(await serving.handler(handler))
        head = await half(client, version)
        assert tasks[0] is not None
        tasks[0].cancel()
        await assert_cut_off(client, head)
        await (await origin.connection()).wait_left()
