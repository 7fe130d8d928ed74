"""Applications whose native routes ask who may, on the engine's sockets and on stock transports."""

import pytest
from aiohttp import web

import penstock
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, RelayEnd, Site
from support.client import RawClient
from support.hooks import TOKEN, Hook, problem
from support.origins import Recorder
from support.waiting import until


@pytest.mark.parametrize("stock", [False, True], ids=["site", "stock"])
async def test_the_end_of_a_request_says_whose_it_was(engine: penstock.Engine, stock: bool) -> None:
    ends: list[RelayEnd] = []
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = Gateway(upstream.url, engine=engine)
        route = gateway.native(
            "/", authorise=hook, decision_key=TOKEN, on_complete=ends.append, tenant="no tenant"
        )
        app = web.Application()
        app.add_routes([route])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        where = (runner, "127.0.0.1", 0)
        site = web.TCPSite(*where) if stock else Site(*where, engine=engine)
        await site.start()
        port = runner.addresses[0][1]
        for token in ("good-a", "good-b", "bad"):
            client = await RawClient.connect(port)
            reply = await client.ask("/", f"Token: {token}")
            assert reply.body == b"ok" if token != "bad" else problem(reply) == (403, "ACCESS_DENIED")
            client.abort()
        await until(lambda: len(ends) == 3, "all are told")
        told = [(end.tenant, end.status, getattr(end.error, "name", None)) for end in ends]
        assert told == [("a", 200, None), ("b", 200, None), ("no tenant", None, "ACCESS_DENIED")]
        await runner.cleanup()
