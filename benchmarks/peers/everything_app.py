"""What `benchmarks/everything.py` has penstock serve: titles through the cache and a hook, tokens, and topics."""

import os

from aiohttp import web

from penstock import Hub
from penstock.config import Caching, History
from penstock.web import Gateway, NativeRequest

gateway = Gateway(os.environ["EVERYTHING_ORIGIN"], caching=Caching())
hub = Hub(history=History(memory="16MiB"))


async def may_watch(request: NativeRequest) -> bool:
    """A decision of each viewer, whose name a player sends."""
    return "refused" not in str(request.key)


async def publish(request: web.Request) -> web.Response:
    await hub.publish(request.match_info["topic"], await request.read())
    return web.Response()


app = web.Application()
app.router.add_post("/publish/{topic}", publish)
app.add_routes(
    [
        hub.native("/topics/"),
        gateway.native("/vod/", authorise=may_watch, decision_key="header:CMCD-Session", lifetime=30),
        gateway.native("/v1/"),
    ]
)
