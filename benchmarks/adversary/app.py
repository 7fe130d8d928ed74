"""A gateway whose application relays: it asks a hook about requests for /guarded/, and a handler relays the rest.

For `penstock serve adversary.app:make`. `ADVERSARY_ORIGIN` is where its origin is. `ADVERSARY_MEMORY` and
`ADVERSARY_CACHE` are bytes for an engine of its own, which it has unless the command has one for its workers.
"""

from __future__ import annotations

import os

from aiohttp import web

from penstock import Engine
from penstock.config import Access, Cache, Caching
from penstock.web import Gateway, NativeRequest


async def _decide(request: NativeRequest) -> bool:
    return request.key[0] == "Bearer good"


def make() -> web.Application:
    """The application."""
    app = web.Application()
    engine = None
    if memory := os.environ.get("ADVERSARY_MEMORY"):
        engine = Engine(memory=memory, cache=Cache(memory=os.environ["ADVERSARY_CACHE"]))
    gateway = Gateway(os.environ["ADVERSARY_ORIGIN"], engine=engine, caching=Caching())
    app.add_routes(
        [
            gateway.native(
                "/guarded/",
                authorise=_decide,
                decision_key="header:Authorization",
                access=Access(),
                name="guarded",
            ),
            web.route("*", "/{path:.*}", gateway.relay),
        ]
    )
    return app
