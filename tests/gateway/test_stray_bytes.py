"""Bytes that follow a whole response of the origin: the response is delivered, and they reach no client."""

import asyncio

import pytest

import penstock
from penstock.testing import ScriptedOrigin
from support.stray import KINDS, ask, meet_nothing, strays

from .conftest import Connect
from .server import Serving


@pytest.mark.parametrize("kind", KINDS)
async def test_the_client_of_a_relay_gets_the_whole_response_whatever_the_packets(
    serving: Serving, connect: Connect, kind: str
) -> None:
    for what, script in strays(KINDS[kind]):
        async with ScriptedOrigin(script) as origin, asyncio.timeout(20):
            served = await serving.gateway(origin.url)
            client = await connect(served)
            reply = await ask(client, script.kind)
            assert (reply.head.status, reply.body) == (script.kind.status, script.kind.body), what
            assert await served.error() is None, what
            script.over.set()
            await script.sent.wait()
            other = await connect(served)
            await meet_nothing(what, client, other)
            assert len(origin.connections) == 2, what


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_of_the_library_gets_the_whole_response_whatever_the_packets(
    engine: penstock.Engine, kind: str
) -> None:
    for what, script in strays(KINDS[kind]):
        async with ScriptedOrigin(script) as origin, asyncio.timeout(20):
            pairs = [field.split(": ", 1) for field in script.kind.fields]
            headers = [(name, value) for name, value in pairs]
            async with engine.request(script.kind.method, origin.url, headers=headers) as response:
                assert (response.status, await response.bytes()) == (script.kind.status, script.kind.body), (
                    what
                )
            script.over.set()
            await script.sent.wait()
            async with engine.request("POST", origin.url) as response:
                assert await response.bytes() == b"next", what
            assert len(origin.connections) == 2, what
