"""Which engine serves where the gateway was given one and the site was not, and the other way round."""

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web

import penstock
from penstock import config
from penstock.exceptions import ConfigurationError, PenstockError
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import Gateway, RelayEnd, Site
from support.client import answer
from support.waiting import in_time, until

from .conftest import Connect, Serve

OK = answer("Cache-Control: max-age=60", "Content-Length: 2", body=b"ok")


@pytest.fixture
async def own() -> AsyncIterator[penstock.Engine]:
    async with penstock.Engine(memory="8MiB", cache=config.Cache(memory="1MiB")) as engine:
        yield engine


async def twice(app: web.Application, engine: penstock.Engine | None = None) -> None:
    """Ask a site for one path, two times."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = Site(runner, "127.0.0.1", 0, engine=engine)
        await site.start()
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.get(f"http://127.0.0.1:{site.port}/a") as response:
                    assert (response.status, await response.read()) == (200, b"ok")
    finally:
        await runner.cleanup()


def native(app: web.Application, gateway: Gateway) -> None:
    app.add_routes([gateway.native("/")])


def handler(app: web.Application, gateway: Gateway) -> None:
    app.router.add_get("/{path:.*}", gateway.relay)


def own_handler(app: web.Application, gateway: Gateway) -> None:
    async def relay(request: web.Request) -> web.StreamResponse:
        return await gateway.relay(request)

    app.router.add_get("/{path:.*}", relay)


def feature(app: web.Application, gateway: Gateway) -> None:
    """A handler whose relays need the engine for more than to fetch."""

    async def relay(request: web.Request) -> web.StreamResponse:
        return await gateway.relay(request, caching=config.Caching(), events=config.EventRelay(idle=60))

    app.router.add_get("/{path:.*}", relay)


@pytest.fixture
def no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has no default engine, and may not make one."""
    monkeypatch.setattr("penstock.engine._default", None)
    monkeypatch.setattr("penstock.engine.make_default", lambda _: pytest.fail("a second engine was made"))


@pytest.mark.usefixtures("no_default")
@pytest.mark.parametrize("add", [native, handler, own_handler, feature])
async def test_a_gateway_without_an_engine_uses_that_of_the_site(
    own: penstock.Engine, add: Callable[[web.Application, Gateway], None]
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        add(app, Gateway(origin.url))
        await twice(app, own)
        assert len(origin.requests) == (1 if add is feature else 2)


@pytest.mark.usefixtures("no_default")
async def test_a_gateway_without_an_engine_uses_that_of_each_site(
    own: penstock.Engine, engine: penstock.Engine
) -> None:
    """Whatever it was used for before, and whichever came first."""
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        handler(app, Gateway(origin.url))
        await twice(app, own)
        await twice(app, engine)
        assert own.stats().bytes_received == engine.stats().bytes_received > 0, "each has asked"


@pytest.mark.usefixtures("no_default")
async def test_a_relay_whose_client_has_left_makes_no_engine(serve: Serve, connect: Connect) -> None:
    asked = asyncio.Event()
    ended: asyncio.Queue[RelayEnd] = asyncio.Queue()
    gateway = Gateway("http://127.0.0.1:9")

    async def relay(request: web.Request) -> web.StreamResponse:
        asked.set()
        await until(lambda: request.transport is None, "the client has left")
        return await gateway.relay(request, on_complete=ended.put_nowait)

    client = await connect(await serve(relay))
    await client.get("/")
    await in_time(asked.wait(), "the origin is asked")
    client.abort()
    error = (await ended.get()).error
    assert isinstance(error, PenstockError)
    assert error.name == "CLIENT_GONE"


async def stalling(peer: Peer) -> None:
    await peer.request()
    await peer.stall()


async def test_a_native_route_has_the_timeouts_of_the_engine_that_serves_it() -> None:
    timeouts = config.Timeouts(first_byte=0.2)
    async with (
        penstock.Engine(memory="8MiB", timeouts=timeouts) as impatient,
        ScriptedOrigin(stalling) as origin,
        aiohttp.ClientSession() as session,
    ):
        app = web.Application()
        native(app, Gateway(origin.url))
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = Site(runner, "127.0.0.1", 0, engine=impatient)
            await site.start()
            async with session.get(f"http://127.0.0.1:{site.port}/a") as response:
                problem = await response.json(content_type="application/problem+json")
                assert (response.status, problem["code"]) == (504, "0x108")
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("add", [native, handler])
async def test_a_site_serves_by_the_engine_that_its_gateways_were_given(
    own: penstock.Engine, monkeypatch: pytest.MonkeyPatch, add: Callable[[web.Application, Gateway], None]
) -> None:
    monkeypatch.setattr("penstock.web.site.default_engine", lambda: pytest.fail("a second engine was made"))
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        add(app, Gateway(origin.url, engine=own, caching=config.Caching()))
        await twice(app)
        assert len(origin.requests) == 1
    assert own.cache is not None
    assert own.cache.stats().hits == 1


async def test_a_handler_relays_by_the_engine_of_its_gateway_on_a_site_of_another(
    own: penstock.Engine, engine: penstock.Engine
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        own_handler(app, Gateway(origin.url, engine=own, caching=config.Caching()))
        await twice(app, engine)
        assert len(origin.requests) == 1


async def test_native_routes_of_several_engines_ask_for_one(
    own: penstock.Engine, engine: penstock.Engine
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        app = web.Application()
        app.add_routes(
            [Gateway(origin.url, engine=own).native("/"), Gateway(origin.url, engine=engine).native("/b/")]
        )
        with pytest.raises(
            ConfigurationError, match="2 different engines: give the one that serves as engine="
        ):
            await twice(app)
        await twice(app, engine)
