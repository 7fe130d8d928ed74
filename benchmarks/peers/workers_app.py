"""Applications for `penstock serve`, with workers or without: `fire` is what is killed, `plain` what costs are of.

EVENTS and SEGMENTS in the environment are the URLs of the origins.
"""

from __future__ import annotations

import os

from aiohttp import web

from penstock import config
from penstock.web import Gateway


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def posted(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


def plain() -> web.Application:
    """A small handler, and relays by the application's lane."""
    app = web.Application()
    app.router.add_get("/ok", ok)
    app.router.add_get("/{path:.*}", Gateway(os.environ["SEGMENTS"]).relay)
    return app


def fire() -> web.Application:
    """One of each kind: what a handler answers, what it relays, and what needs no handler."""
    app = web.Application()
    segments = Gateway(os.environ["SEGMENTS"])
    app.router.add_get("/ok", ok)
    app.router.add_post("/posted", posted)
    app.router.add_get("/events", Gateway(os.environ["EVENTS"]).relay)
    app.router.add_get("/relayed/{path:.*}", Gateway(os.environ["SEGMENTS"], prefix="/relayed").relay)
    app.add_routes([segments.native("/stored/", rewrite="/", caching=config.Caching())])
    return app
