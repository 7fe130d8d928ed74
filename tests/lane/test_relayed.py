"""Responses that the engine relays as a whole: what the application sees of them, and what it can still change."""

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

import penstock
from penstock.testing import ScriptedOrigin, respond
from penstock.web import Gateway
from support.client import RawClient, answer

from .conftest import Connect, Serve

RESPONSE = answer(
    "Content-Type: video/mp4",
    "Content-Length: 2",
    "Set-Cookie: a=1",
    "Set-Cookie: b=2",
    "Keep-Alive: x",
    status="206 Partial",
    body=b"ok",
)


async def ask(client: RawClient, **how: str) -> tuple[int, list[tuple[str, str]], bytes]:
    await client.get("/", **how)
    head = await client.head()
    return head.status, head.fields, await client.body(head, how.get("method", "GET"))


async def test_a_middleware_sees_the_origins_response(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    seen: list[web.StreamResponse] = []

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        assert isinstance(response, web.StreamResponse)
        seen.append(response)
        return response

    async with ScriptedOrigin(respond(RESPONSE)) as origin:
        app = web.Application(middlewares=[look])
        app.router.add_get("/", Gateway(origin.url, engine=engine).relay)
        client = await connect(await serve(app))
        for _ in range(2):
            status, fields, body = await ask(client)
            assert (status, body) == (206, b"ok")
            assert ("Set-Cookie", "b=2") in fields
            assert "Keep-Alive" not in dict(fields)
            assert "Server" not in dict(fields), "the origin has said none"
    for response in seen:
        assert (response.status, response.reason, response.prepared) == (206, "Partial", True)
        assert (response.content_type, response.content_length) == ("video/mp4", 2)
        assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
        assert "Keep-Alive" not in response.headers
        assert response.keep_alive
        with pytest.raises(AttributeError, match="nothing"):
            response.nothing  # noqa: B018 (it must raise)


async def test_who_is_asked_before_a_response_is_sent_can_change_it(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async def change(_: web.Request, response: web.StreamResponse) -> None:
        del response.headers["Set-Cookie"]
        response.headers["X-Added"] = response.headers["Content-Type"]

    async with ScriptedOrigin(respond(RESPONSE)) as origin:
        inner = web.Application()
        inner.router.add_get("/", Gateway(origin.url, engine=engine).relay)
        inner.on_response_prepare.append(change)
        outer = web.Application()
        outer.add_subapp("/inner", inner)
        client = await connect(await serve(outer))
        await client.get("/inner/")
        head = await client.head()
        assert (await client.body(head), head.one("X-Added"), head.one("Set-Cookie")) == (
            b"ok",
            "video/mp4",
            None,
        )


async def test_what_a_middleware_says_of_the_client_reaches_the_origin(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    @web.middleware
    async def disguise(request: web.Request, handler: Handler) -> web.StreamResponse:
        other = request.clone(remote="192.0.2.7", scheme="https", host="other.example")
        return await handler(other)

    async with ScriptedOrigin(respond(RESPONSE)) as origin:
        app = web.Application(middlewares=[disguise])
        app.router.add_get("/", Gateway(origin.url, engine=engine).relay)
        await ask(await connect(await serve(app)))
        (request,) = origin.requests
    names = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host")
    assert [request.get(name) for name in names] == ["192.0.2.7", "https", "other.example"]


async def test_the_origin_is_told_of_the_client(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(RESPONSE)) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        await client.get()
        await client.head()
        (request,) = origin.requests
    names = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host")
    assert [request.get(name) for name in names] == ["127.0.0.1", "http", "gateway.test"]


@pytest.mark.parametrize(
    ("version", "fields", "connection"),
    [
        ("1.1", (), None),
        ("1.1", ("Connection: close",), "close"),
        ("1.0", ("Connection: keep-alive",), "keep-alive"),
        ("1.0", (), "close"),
    ],
)
async def test_the_connection_goes_on_as_the_client_has_asked(
    engine: penstock.Engine,
    serve: Serve,
    connect: Connect,
    version: str,
    fields: tuple[str, ...],
    connection: str | None,
) -> None:
    async with ScriptedOrigin(respond(RESPONSE)) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        await client.get("/", *fields, version=version)
        head = await client.head()
        assert (head.one("Connection"), await client.body(head)) == (connection, b"ok")
        if connection == "close":
            assert await client.rest() == b""
        else:
            assert (await ask(client))[2] == b"ok"


async def test_a_head_alone_is_relayed_with_its_length(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    async with ScriptedOrigin(respond(answer("Content-Length: 7"))) as origin:
        client = await connect(await serve(Gateway(origin.url, engine=engine).relay))
        for _ in range(2):
            status, fields, body = await ask(client, method="HEAD")
            assert (status, dict(fields)["Content-Length"], body) == (200, "7", b"")
