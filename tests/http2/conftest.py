"""Clients of HTTP/2 in front of native routes, applications, a cache and a hub; scripted origins behind."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

import penstock
import penstock.metrics
from penstock.config import TLS, Cache, Caching, Edge, Http2
from penstock.web import Gateway, Site
from support.certificates import written
from support.http2 import Http2Client
from support.leaks import engine_under_test

BODY = bytes(range(256)) * 1024


async def describe(request: web.Request) -> web.Response:
    transport = request.transport
    assert transport is not None
    return web.json_response(
        {
            "scheme": request.scheme,
            "host": request.host,
            "version": list(request.version),
            "fields": {name.lower(): value for name, value in request.headers.items()},
            "certificate": transport.get_extra_info("peercert") is not None,
            "body": len(await request.read()),
        }
    )


async def stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    async for piece in request.content.iter_any():
        await response.write(piece)
    return response


async def whole(_request: web.Request) -> web.Response:
    return web.Response(body=BODY)


async def empty(_request: web.Request) -> web.Response:
    return web.Response(status=204)


async def fail(_request: web.Request) -> web.Response:
    raise RuntimeError("on purpose")


async def file(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(Path(__file__))


@dataclass
class Served:
    """A server, and the clients of it."""

    engine: penstock.Engine
    site: Site
    authority: trustme.CA
    clients: list[Http2Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        port = self.site.port
        assert port is not None
        return port

    async def connect(self, **options: Any) -> Http2Client:
        client = await Http2Client.connect(self.port, self.authority, **options)
        self.clients.append(client)
        return client

    def refusals(self) -> dict[str, int]:
        """How many connections, or streams, were refused, by why."""
        lines = penstock.metrics.text(self.engine).splitlines()
        start = 'penstock_http2_refusals_total{reason="'
        counts = (line.removeprefix(start).split('"} ') for line in lines if line.startswith(start))
        return {reason: int(count) for reason, count in counts if int(count)}


Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def serve(
    request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Path
) -> AsyncIterator[Serve]:
    """Serve an origin below `/native/`, `/cached/` and `/relay/`, and an application."""

    async def serve(
        origin: str = "http://127.0.0.1:1",
        *,
        http2: Http2 | None = None,
        memory: str = "16MiB",
        routes: Any = (),
        **edge: Any,
    ) -> Served:
        engine = await stack.enter_async_context(
            engine_under_test(request, memory=memory, cache=Cache(memory="4MiB"))
        )
        app = web.Application(client_max_size=1 << 26)
        gateway = Gateway(origin, engine=engine)
        app.add_routes(
            [
                gateway.native("/native/"),
                gateway.native("/cached/", caching=Caching()),
                web.route("*", "/relay/{path:.*}", gateway.relay),
                web.route("*", "/describe", describe),
                web.post("/stream", stream),
                web.get("/empty", empty),
                web.get("/fail", fail),
                web.get("/file", file),
                web.get("/body", whole),
                *routes,
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        tls = TLS(*written(authority, tmp_path, "localhost", "127.0.0.1"))
        settings = Edge(http2=http2 or Http2(), linger=0.2, **edge)
        site = Site(runner, "127.0.0.1", 0, engine=engine, edge=settings, ssl_context=tls)
        await site.start()
        served = Served(engine, site, authority)

        async def end() -> None:
            for client in served.clients:
                await client.close()
            await runner.cleanup()

        stack.push_async_callback(end)
        return served

    async with AsyncExitStack() as stack:
        yield serve
