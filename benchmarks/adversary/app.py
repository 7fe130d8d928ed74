"""A gateway that asks a hook about requests for /guarded/, and relays the rest.

For `penstock serve adversary.app:make`.
"""

from __future__ import annotations

import os

from aiohttp import web

from penstock.config import Access, Caching
from penstock.web import Gateway, NativeRequest


async def _decide(request: NativeRequest) -> bool:
    return request.key[0] == "Bearer good"


def make() -> web.Application:
    """The application; `ADVERSARY_ORIGIN` is where its origin is."""
    app = web.Application()
    gateway = Gateway(os.environ["ADVERSARY_ORIGIN"])
    app.add_routes(
        [
            gateway.native(
                "/guarded/",
                authorise=_decide,
                decision_key="header:Authorization",
                access=Access(),
                name="guarded",
            ),
            gateway.native("/", name="open", caching=Caching()),
        ]
    )
    return app
