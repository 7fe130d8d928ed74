"""The gateway that an aiohttp application writes by hand: fetch with ClientSession, write to a
StreamResponse.

`--body chunk` forwards what arrived (`iter_any`), which is the cheapest such loop. `--body line` forwards
line by line, as gateways in front of language models do that look at each event. `--transport aiofastnet`
replaces uvloop's transports with aiofastnet's. `--store` fetches each path once and answers from a dict. `--traces` has
OpenTelemetry's SDK send spans there. Nothing is logged; both sides are kept alive.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

import uvloop
from aiohttp import ClientSession, ClientTimeout, StreamReader, TCPConnector, web
from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
)
SESSION = web.AppKey("session", ClientSession)


def end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)


def by_chunk(content: StreamReader) -> AsyncIterable[bytes]:
    return content.iter_any()


def by_line(content: StreamReader) -> AsyncIterable[bytes]:
    return content


BODIES: dict[str, Callable[[StreamReader], AsyncIterable[bytes]]] = {"chunk": by_chunk, "line": by_line}


def relay_to(
    origin: str,
    body: Callable[[StreamReader], AsyncIterable[bytes]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def relay(request: web.Request) -> web.StreamResponse:
        async with request.app[SESSION].request(
            request.method,
            origin + request.raw_path,
            headers=end_to_end(request.headers),
            allow_redirects=False,
        ) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=end_to_end(upstream.headers))
            await response.prepare(request)
            async for data in body(upstream.content):
                await response.write(data)
            await response.write_eof()
            return response

    return relay


def store_of(origin: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    stored: dict[str, tuple[CIMultiDict[str], bytes]] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.raw_path
        if path not in stored:
            async with request.app[SESSION].get(origin + path) as upstream:
                if upstream.status != 200:
                    raise web.HTTPBadGateway
                stored[path] = end_to_end(upstream.headers), await upstream.read()
        headers, body = stored[path]
        return web.Response(headers=headers, body=body)

    return answer


async def session_context(app: web.Application) -> AsyncIterator[None]:
    connector = TCPConnector(limit=0, keepalive_timeout=300)
    timeout = ClientTimeout(total=None, sock_connect=5)
    async with ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        app[SESSION] = session
        yield


def new_event_loop(transport: str) -> asyncio.AbstractEventLoop:
    if transport == "uvloop":
        return uvloop.new_event_loop()
    # An optional peer: the harness reports it as absent before it comes here.
    import aiofastnet  # noqa: PLC0415

    return aiofastnet.loop_factory(uvloop.new_event_loop)()


def trace_to(collector: str) -> None:
    """Have OpenTelemetry's SDK trace all requests on either side. An optional peer, as above."""
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor  # noqa: PLC0415
    from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector)))
    trace.set_tracer_provider(provider)
    AioHttpServerInstrumentor().instrument()
    AioHttpClientInstrumentor().instrument()


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--origin", required=True, metavar="URL")
    parser.add_argument("--body", choices=BODIES, default="chunk")
    parser.add_argument("--transport", choices=("uvloop", "aiofastnet"), default="uvloop")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--traces", metavar="URL")
    arguments = parser.parse_args()

    if arguments.traces:
        trace_to(arguments.traces)
    app = web.Application()
    app.cleanup_ctx.append(session_context)
    app.router.add_get("/ok", ok)
    if arguments.store:
        app.router.add_get("/{path:.*}", store_of(arguments.origin))
    else:
        app.router.add_route("*", "/{path:.*}", relay_to(arguments.origin, BODIES[arguments.body]))
    host, _, port = arguments.listen.rpartition(":")
    web.run_app(
        app,
        host=host,
        port=int(port),
        backlog=4096,
        access_log=None,
        shutdown_timeout=1,
        print=None,
        keepalive_timeout=300,
        loop=new_event_loop(arguments.transport),
    )


if __name__ == "__main__":
    main()
