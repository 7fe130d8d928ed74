"""What an application's runner was told, and applications of other shapes than most."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractRouter

import penstock
from penstock.config import Edge

from .conftest import Connect, Serve


async def ok(request: web.Request) -> web.Response:
    return web.Response(text=str(len(request.path_qs)))


@pytest.mark.parametrize("where", ["runner", "application"])
async def test_an_idle_client_leaves_after_the_keepalive_timeout_of_the_runner(
    serve: Serve, connect: Connect, where: str
) -> None:
    told = {"keepalive_timeout": 0.05}
    if where == "runner":
        served = await serve(ok, server=told, edge=Edge(idle_timeout=3600))
    else:
        app = web.Application(handler_args=told)
        app.router.add_get("/", ok)
        served = await serve(app)
    client = await connect(served)
    assert (await client.ask()).body == b"1"
    assert await client.rest() == b""


async def test_a_keepalive_timeout_of_zero_closes_connections(serve: Serve, connect: Connect) -> None:
    client = await connect(await serve(ok, server={"keepalive_timeout": 0}))
    # Before its first request it may wait: as long as another is served.
    assert (await (await connect(await serve(ok))).ask()).body == b"1"
    assert (await client.ask()).body == b"1"
    assert await client.rest() == b""


async def test_higher_limits_of_the_runner_are_the_engines_too(serve: Serve, connect: Connect) -> None:
    higher = {"max_line_size": 100_000, "max_field_size": 100_000, "max_headers": 1000}
    long = "/" + "x" * 90_000
    for told, status in ((higher, 200), ({}, 414)):
        client = await connect(await serve(ok, server=told))
        assert (await client.ask(long)).head.status == status
    client = await connect(await serve(ok, server=higher))
    assert (await client.ask("/", "X: " + "y" * 90_000)).head.status == 200
    assert (await client.ask("/", *(f"X-{number}: y" for number in range(900)))).head.status == 200


async def test_lower_limits_are_aiohttps_to_apply(serve: Serve, connect: Connect) -> None:
    client = await connect(await serve(ok, server={"max_line_size": 100, "max_headers": 10}))
    assert (await client.ask("/" + "x" * 200)).head.status == 400


@pytest.mark.parametrize(
    "told",
    [
        {"tcp_keepalive": False},
        {"max_line_size": 1 << 20},
        {"max_field_size": 1 << 20},
        {"max_headers": 9999},
    ],
)
async def test_what_the_engine_cannot_do_is_refused_by_its_name(serve: Serve, told: dict[str, Any]) -> None:
    (name,) = told
    with pytest.raises(penstock.ConfigurationError, match=name):
        await serve(ok, server=told)


class Own(AbstractRouter):
    """A router of an application's own: everything has one handler."""

    async def resolve(self, _: web.Request) -> Any:
        class Match(web.UrlMappingMatchInfo):
            def __init__(self) -> None:
                super().__init__({}, web.ResourceRoute("*", ok, web.PlainResource("/")))

        return Match()


async def test_an_application_with_a_router_of_its_own(serve: Serve, connect: Connect) -> None:
    with pytest.warns(DeprecationWarning, match="router"):
        app = web.Application(router=Own())
    client = await connect(await serve(app))
    assert (await client.ask("/any/where")).body == b"10"
