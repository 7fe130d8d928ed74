"""Large bodies that the kernel moves from an origin's socket to a client's: by a native route, and by the application's
lane where the handler is `Gateway.relay` itself."""

from typing import Any

from aiohttp import web

from support.ways import Relay, Way, fixture_of

WAYS = [("native", 1), ("native", 3), ("app", 1)]


class Splicing(Way):
    async def relay(self, origin: str, **options: Any) -> Relay:
        gateway = await self.gateway(origin, **options)
        app = web.Application()
        if self.is_route:
            app.add_routes([gateway.native("/")])
        else:
            app.router.add_route("*", "/{path:.*}", gateway.relay)
        return await self.serve(app)

    @property
    def spliced(self) -> int:
        return self.engine.stats().bytes_spliced


way = fixture_of(Splicing, WAYS)
