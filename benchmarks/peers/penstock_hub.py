"""penstock's hub, on uvloop: subscribers on a route that the engine answers alone or by a handler, and a publisher."""

from __future__ import annotations

import argparse

import uvloop
from aiohttp import web

import penstock
from penstock.config import Edge
from penstock.web import run_app

EDGE = Edge(idle_timeout=300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--handler", action="store_true", help="let subscribers in by a handler")
    arguments = parser.parse_args()
    engine = penstock.Engine(threads=1)
    hub = penstock.Hub(engine=engine)

    async def publish(request: web.Request) -> web.Response:
        await hub.publish("topic", await request.read())
        return web.Response(status=204)

    async def subscribe(request: web.Request) -> web.StreamResponse:
        return await hub.stream(request, "topic")

    async def close(_app: web.Application) -> None:
        hub.close()
        await engine.aclose()

    app = web.Application()
    app.on_cleanup.append(close)
    app.router.add_post("/publish", publish)
    if arguments.handler:
        app.router.add_get("/events/topic", subscribe)
    else:
        app.add_routes([hub.native("/events/")])
    host, _, port = arguments.listen.rpartition(":")
    run_app(
        app,
        host=host,
        port=int(port),
        engine=engine,
        edge=EDGE,
        access_log=None,
        shutdown_timeout=1,
        print=None,
        keepalive_timeout=300,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
