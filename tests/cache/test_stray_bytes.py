"""Bytes that follow a whole response which is stored: what is stored is that response, whatever the packets."""

import asyncio

import pytest

from penstock.config import Caching
from penstock.testing import ScriptedOrigin
from support.edges import Edges
from support.stray import KINDS, meet_nothing, strays


@pytest.mark.parametrize("kind", ["length", "chunked", "trailers"])
async def test_a_fill_that_stray_bytes_follow_is_stored_without_them(caching: Edges, kind: str) -> None:
    for what, script in strays(KINDS[kind]):
        async with ScriptedOrigin(script) as origin, asyncio.timeout(20):
            served = await caching.relay(origin.url, caching=Caching())
            client = await caching.connect(served)
            for _ in range(2):
                reply = await client.ask("/stored")
                assert (reply.head.status, reply.body) == (200, b"hello"), what
                script.over.set()
                await script.sent.wait()
            assert len(origin.requests) == 1, what
            await meet_nothing(what, client, await caching.connect(served))
