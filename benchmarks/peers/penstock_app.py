"""penstock as the gateway, on uvloop: an ordinary aiohttp application that relays everything to the origin.

`--lane stock` serves it on aiohttp's own transports, with the same server, loop and settings as aiohttp_proxy.py.
`app` serves the same application on the engine's sockets. `native` is a route that the engine answers alone, and
`cached` the same with a cache. With `--inspect` event streams are inspected. With `--bearer` tokens end here, and with
`--authorise` besides a hook lets in who has one. With `--middleware` each request passes through one that does
nothing. With `--patient` no request is refused for overload. `/wakeups` tells how often the event loop was woken.
Nothing is logged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import uvloop
from aiohttp import web
from aiohttp.typedefs import Handler

from penstock import Engine, config, end_to_end
from penstock.config import TLS, Cache, Caching, Edge, Http2, OriginLimits
from penstock.web import Gateway, NativeRequest, run_app

# As many streams at once as the load opens, and connections kept as long as the peers keep theirs.
LIMITS = OriginLimits(connections=4096, requests_per_connection=100_000_000, idle_timeout=300)
EDGE = Edge(idle_timeout=300, http2=Http2(requests=100_000_000))
# Room for every object of a run at its true cost. What is not used of it is not taken.
MEMORY, CACHE = "6GiB", Cache(memory="3GiB")


async def authorise(request: NativeRequest) -> bool:
    (token,) = request.key
    return token is not None and token.startswith("Bearer ")


@web.middleware
async def pass_on(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def relay_frames(engine: Engine, origin: str) -> Handler:
    async def relay(request: web.Request) -> web.StreamResponse:
        url = origin + request.raw_path
        async with engine.get(url, headers=end_to_end(request.headers)) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=end_to_end(upstream))
            await response.prepare(request)
            async for frame in upstream:
                await response.write(memoryview(frame))
            await response.write_eof()
            return response

    return relay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--origin", required=True, metavar="URL")
    parser.add_argument("--lane", choices=("stock", "app", "native", "cached"), required=True)
    parser.add_argument("--body", choices=("relay", "frames"), default="relay")
    parser.add_argument("--inspect", action="store_true")
    parser.add_argument("--bearer", action="store_true")
    parser.add_argument("--authorise", action="store_true")
    parser.add_argument("--middleware", action="store_true")
    parser.add_argument("--traces", metavar="URL")
    parser.add_argument("--traces-ratio", type=float, default=1.0)
    parser.add_argument("--patient", action="store_true")
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    arguments = parser.parse_args()

    tracing = None
    if arguments.traces:
        tracing = config.Tracing(endpoint=arguments.traces, ratio=arguments.traces_ratio)
    if arguments.lane == "cached":
        engine = Engine(limits=LIMITS, threads=1, memory=MEMORY, cache=CACHE, tracing=tracing)
    else:
        engine = Engine(limits=LIMITS, threads=1, tracing=tracing)

    async def close_engine(_app: web.Application) -> None:
        await engine.aclose()

    async def wakeups(_request: web.Request) -> web.Response:
        return web.Response(text=str(engine.stats().wakeups))

    app = web.Application(middlewares=[pass_on] if arguments.middleware else [])
    app.on_cleanup.append(close_engine)
    options = {"inspect": config.Inspection()} if arguments.inspect else {}
    gateway = Gateway(arguments.origin, engine=engine, **options)
    app.router.add_get("/ok", ok)
    app.router.add_get("/wakeups", wakeups)
    if arguments.lane == "native":
        app.add_routes([gateway.native("/")])
    elif arguments.lane == "cached":
        # What the origin answers to a token is not stored.
        headers = {"Authorization": None} if arguments.bearer else None
        asked = (
            {"authorise": authorise, "decision_key": "header:Authorization"} if arguments.authorise else {}
        )
        app.add_routes([gateway.native("/", caching=Caching(), headers=headers, **asked)])
    elif arguments.body == "frames":
        app.router.add_get("/{path:.*}", relay_frames(engine, arguments.origin))
    else:
        app.router.add_route("*", "/{path:.*}", gateway.relay)
    # Also under valgrind, which takes fifty times as long.
    edge = replace(EDGE, tls=TLS(*arguments.tls, handshake_timeout=60)) if arguments.tls else EDGE
    if arguments.patient:
        edge = replace(edge, overload_after=None)
    host, _, port = arguments.listen.rpartition(":")
    loop = uvloop.new_event_loop()
    common = {
        "access_log": None,
        "shutdown_timeout": 1,
        "print": None,
        "keepalive_timeout": 300,
        "loop": loop,
    }
    if arguments.lane == "stock":
        web.run_app(app, host=host, port=int(port), backlog=4096, **common)
    else:
        run_app(app, host=host, port=int(port), engine=engine, edge=edge, **common)


if __name__ == "__main__":
    main()
