"""A 206 that ends before the last byte of its Content-Range, by a framing that does not tell: it is an error wherever it
is read, a reset toward a client, and nothing of it is stored."""

import asyncio

import pytest
from aiohttp import web

import penstock
from penstock import Origins
from penstock.config import Caching
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer, client_of
from support.edges import Edges, caching, serving
from support.relaying import Relaying, family, relaying
from support.waiting import in_time

__all__ = ["caching", "family", "relaying"]

RANGE = "bytes=100-199"
PART = ("Content-Range: bytes 100-199/30000000", 'ETag: "a"', "Cache-Control: max-age=60")
UNFRAMED = answer(*PART, status="206 Partial Content")
CHUNKED = answer(*PART, "Transfer-Encoding: chunked", status="206 Partial Content")

SHORT = {
    "the connection ends": UNFRAMED + b"x" * 60,
    "before the first byte": UNFRAMED,
    "before the last byte": UNFRAMED + b"x" * 99,
    "chunks end": CHUNKED + b"3c\r\n" + b"x" * 60 + b"\r\n0\r\n\r\n",
}
WHOLE = {
    "to the end of the connection": UNFRAMED + b"x" * 100,
    "in chunks": CHUNKED + b"64\r\n" + b"x" * 100 + b"\r\n0\r\n\r\n",
}
LONG = {
    "to the end of the connection": UNFRAMED + b"x" * 101,
    "in chunks": CHUNKED + b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n",
}


class Once:
    """Sends the same to each connection, and ends it."""

    def __init__(self, sends: bytes) -> None:
        self.sends = sends
        self.requests = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        self.requests += 1
        await peer.send(self.sends)


async def assert_never_whole(client: RawClient) -> None:
    """A 206 whose body does not end well, or none at all."""
    await client.get("/film", f"Range: {RANGE}")
    try:
        head = await in_time(client.head())
    except (ConnectionResetError, asyncio.IncompleteReadError):
        return
    if head.status == 502:
        return
    assert head.status == 206
    if head.one("Transfer-Encoding") is None and head.one("Content-Length") is None:
        with pytest.raises(ConnectionResetError):
            await in_time(client.rest())
    else:
        with pytest.raises((EOFError, ConnectionError)):
            await in_time(client.body(head))


@pytest.mark.parametrize("several", [False, True], ids=["one origin", "one of several"])
@pytest.mark.parametrize("case", SHORT)
async def test_the_library_raises(engine: penstock.Engine, case: str, several: bool) -> None:
    async with ScriptedOrigin(Once(SHORT[case])) as origin:
        origins = Origins([origin.url]) if several else None
        url = "/film" if several else f"{origin.url}/film"
        with pytest.raises(penstock.PenstockError) as caught:
            async with engine.get(url, headers={"Range": RANGE}, origins=origins) as response:
                assert response.status == 206
                await response.bytes()
        assert caught.value.name == "BODY_TRUNCATED"
        caught.value.__traceback__ = None


@pytest.mark.parametrize("case", WHOLE)
async def test_a_whole_part_is_one(engine: penstock.Engine, case: str) -> None:
    async with (
        ScriptedOrigin(Once(WHOLE[case])) as origin,
        engine.get(f"{origin.url}/film", headers={"Range": RANGE}) as response,
    ):
        assert await response.bytes() == b"x" * 100


@pytest.mark.parametrize("case", LONG)
async def test_more_than_the_part_is_an_error(engine: penstock.Engine, case: str) -> None:
    async with ScriptedOrigin(Once(LONG[case])) as origin:
        with pytest.raises(penstock.PenstockError) as caught:
            async with engine.get(f"{origin.url}/film", headers={"Range": RANGE}) as response:
                await response.bytes()
        assert caught.value.name == "BAD_PART"
        caught.value.__traceback__ = None


POLICIES: dict[str, Caching | None] = {
    "no cache": None,
    "a cache": Caching(),
    "ranges as asked": Caching(range_fill="asked"),
    "whole objects": Caching(range_fill="whole"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lane", ["native", "site", "stock"])
@pytest.mark.parametrize("case", SHORT)
async def test_a_client_is_cut_off_and_nothing_is_stored(
    caching: Edges, lane: str, case: str, policy: str
) -> None:
    script = Once(SHORT[case])
    async with ScriptedOrigin(script) as origin:
        options = {} if POLICIES[policy] is None else {"caching": POLICIES[policy]}
        if lane == "native":
            served = await caching.relay(origin.url, **options)
            for _ in range(2):
                await assert_never_whole(await caching.connect(served))
        else:
            app = web.Application()
            app.router.add_get("/{path:.*}", caching.gateway(origin.url, **options).relay)
            async with serving(caching, lane, app) as port:
                for _ in range(2):
                    async with client_of(port) as client:
                        await assert_never_whole(client)
        assert script.requests >= 2
        assert caching.engine.cache is not None
        assert caching.engine.cache.stats().objects == 0


@pytest.mark.parametrize("case", SHORT)
async def test_a_worker_that_reads_it_is_told(relaying: Relaying, case: str) -> None:
    """Both ways: by a relay, and by the worker's own engine."""
    async with ScriptedOrigin(Once(SHORT[case])) as origin:
        gateway = relaying.gateway(origin.url)
        names: list[str] = []

        async def handler(request: web.Request) -> web.StreamResponse:
            if request.path == "/film":
                return await gateway.relay(request)
            try:
                async with relaying.own.get(f"{origin.url}/film", headers={"Range": RANGE}) as response:
                    await response.bytes()
            except penstock.PenstockError as error:
                names.append(error.name)
                error.__traceback__ = None
            return web.Response()

        await relaying.serve(handler)
        client = await relaying.connect()
        await in_time(client.ask("/read"))
        assert names == ["BODY_TRUNCATED"]
        await assert_never_whole(client)
