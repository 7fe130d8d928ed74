"""What `benchmarks/upgrades.py` has penstock serve: an origin through the cache, event streams of it, and a topic."""

import os

from aiohttp import web

from penstock import Hub
from penstock.config import Caching, History
from penstock.web import Gateway

gateway = Gateway(os.environ["UPGRADES_ORIGIN"], caching=Caching())
hub = Hub(history=History(memory="16MiB"))


async def publish(request: web.Request) -> web.Response:
    await hub.publish("news", await request.read())
    return web.Response()


app = web.Application()
app.router.add_post("/publish", publish)
app.add_routes([hub.native("/topics/"), gateway.native("/segment/"), gateway.native("/events/")])
