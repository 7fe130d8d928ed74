"""Which engine serves where a gateway was given one and the site was not."""

from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web

import penstock
from penstock import config
from penstock.exceptions import ConfigurationError
from penstock.testing import ScriptedOrigin, respond
from penstock.web import Gateway, Site
from support.client import answer

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
