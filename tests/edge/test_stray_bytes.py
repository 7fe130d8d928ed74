"""Bytes after a whole response of the origin of a native route: the response is delivered, and they
reach no client."""

import asyncio

import pytest

from penstock.testing import ScriptedOrigin
from support.edges import Edges
from support.stray import KINDS, ask, meet_nothing, strays


@pytest.mark.parametrize("kind", KINDS)
async def test_the_client_of_a_native_route_gets_the_whole_response_whatever_the_packets(
    anywhere: Edges, kind: str
) -> None:
    for what, script in strays(KINDS[kind]):
        async with ScriptedOrigin(script) as origin, asyncio.timeout(20):
            served = await anywhere.relay(origin.url)
            client = await anywhere.connect(served)
            reply = await ask(client, script.kind)
            assert (reply.head.status, reply.body) == (script.kind.status, script.kind.body), what
            script.over.set()
            await script.sent.wait()
            await meet_nothing(what, client, await anywhere.connect(served))
