"""A gateway with a handler that holds up the interpreter: on penstock's server by either lane, or on plain aiohttp.

`/burn?way=sleep&seconds=0.5` blocks, and answers with the times; everything else is relayed to the origins.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvloop
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from aiohttp_proxy import by_chunk, relay_to, session_context

from harness.burn import burn, count
from penstock import Engine
from penstock.config import OriginLimits
from penstock.web import Gateway, run_app


async def burning(request: web.Request) -> web.Response:
    return web.json_response(burn(request.query["way"], float(request.query["seconds"])))


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--events", required=True, metavar="URL", help="origin of /events")
    parser.add_argument("--segments", required=True, metavar="URL", help="origin of everything else")
    parser.add_argument("--gateway", required=True, choices=("aiohttp", "app", "native"))
    arguments = parser.parse_args()
    count(0.001)

    app = web.Application()
    app.router.add_get("/burn", burning)
    host, _, port = arguments.listen.rpartition(":")
    if arguments.gateway == "aiohttp":
        app.cleanup_ctx.append(session_context)
        app.router.add_get("/events", relay_to(arguments.events, by_chunk))
        app.router.add_get("/{path:.*}", relay_to(arguments.segments, by_chunk))
        loop = uvloop.new_event_loop()
        web.run_app(
            app, host=host, port=int(port), access_log=None, print=None, shutdown_timeout=1, loop=loop
        )
        return
    limits = OriginLimits(connections=100_000)
    engine = Engine(threads=1, limits=limits)

    async def wakeups(_request: web.Request) -> web.Response:
        return web.Response(text=str(engine.stats().wakeups))

    app.router.add_get("/ok", ok)
    app.router.add_get("/wakeups", wakeups)
    events, segments = (Gateway(url, engine=engine) for url in (arguments.events, arguments.segments))
    if arguments.gateway == "app":
        app.router.add_get("/events", events.relay)
        app.router.add_get("/{path:.*}", segments.relay)
    else:
        app.add_routes([events.native("/live/", rewrite="/"), segments.native("/vod/", rewrite="/")])
    loop = uvloop.new_event_loop()
    run_app(
        app,
        host=host,
        port=int(port),
        engine=engine,
        access_log=None,
        print=None,
        shutdown_timeout=1,
        loop=loop,
    )


if __name__ == "__main__":
    main()
