"""The application of the dashboards' load: a route of each kind, for `penstock serve --workers`."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

import penstock
from penstock.config import Access, Caching, Check, Health, Inspection, Retries, TenantLimits
from penstock.web import Allow, Deny, Gateway, NativeRequest


async def decide(request: NativeRequest) -> Allow | Deny:
    """By the header Token: `TENANT-NUMBER`, unless it begins with `bad` or `broken`."""
    (token,) = request.key
    await asyncio.sleep(0.005)
    if token is None or token.startswith("bad"):
        return Deny(lifetime=1)
    if token.startswith("broken"):
        raise ValueError("the list of tokens cannot be read")
    return Allow(token.partition("-")[0], lifetime=5)


async def small(_request: web.Request) -> web.Response:
    await asyncio.sleep(0.002)
    return web.json_response({"ready": True})


async def upload(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


def make(origin: str, spare: str, redis: str) -> web.Application:
    """With two origins that have the same, of which the second fails at times, and topics in Redis."""
    gateway = Gateway(origin)
    hub = penstock.Hub(log=penstock.RedisLog(redis))
    media = penstock.Origins(
        [origin, spare],
        name="http://media",
        health=Health(failures=5, eject=2.0, max_eject=2.0),
        retries=Retries(budget_percent=20, budget_per_second=5),
        check=Check(path="/check", interval=0.5),
    )

    async def follow(_app: web.Application) -> AsyncIterator[None]:
        async with hub:
            yield

    async def publish(request: web.Request) -> web.Response:
        return web.Response(text=await hub.publish(request.match_info["topic"], await request.text()))

    access = Access(tenant_limits=TenantLimits(streams=8))
    app = web.Application(client_max_size=1 << 24)
    app.cleanup_ctx.append(follow)
    app.add_routes(
        [
            gateway.native("/vod/", name="vod", caching=Caching()),
            gateway.native("/live/", name="live"),
            gateway.native("/chat/", name="chat", inspect=Inspection()),
            gateway.native(
                "/asked/", name="asked", authorise=decide, decision_key="header:Token", access=access
            ),
            gateway.native("/media/", name="media", origin=media),
            gateway.native("/spare/", name="spare", origin=spare, rewrite="/media/"),
            hub.native("/events/", name="events"),
            web.post("/publish/{topic}", publish),
            web.post("/upload", upload),
            web.get("/small", small),
            web.get("/relay/{path:.*}", gateway.relay),
        ]
    )
    return app
