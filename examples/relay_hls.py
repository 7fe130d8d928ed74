"""An HLS gateway whose policy is plain Python: who may watch, and from which origin.

    python examples/relay_hls.py

It serves the demo's live stream, so that it runs alone; name your own origins as arguments instead. Then:

    curl -i http://127.0.0.1:8080/live/video.m3u8                                        # 401
    curl -i http://127.0.0.1:8080/live/video.m3u8 -H "Authorization: Bearer blue-token"  # the playlist
    ffplay -headers "Authorization: Bearer blue-token" http://127.0.0.1:8080/live/stream.m3u8
"""

import argparse
import asyncio
import contextlib
import hmac
from zlib import crc32

from aiohttp import hdrs, web

from penstock.demo.origin import make_origin
from penstock.web import Gateway

VIEWERS = {"blue-token": "blue", "green-token": "green"}
"""Token to tenant. An application of yours would ask its session store or verify a signature."""


def tenant_of(request: web.Request) -> str:
    """Return the tenant that the request's token belongs to, or answer 401."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer":
        for known, tenant in VIEWERS.items():
            # As long for a nearly right token as for a wrong one, so that none can be guessed letter by
            # letter.
            if hmac.compare_digest(token.encode(), known.encode()):
                return tenant
    raise web.HTTPUnauthorized(headers={hdrs.WWW_AUTHENTICATE: "Bearer"})


def make_app(origins: list[str]) -> web.Application:
    """Make the gateway: `/live/*` for viewers with a token, each tenant from one of the origins."""
    gateway = Gateway(origins[0])

    async def watch(request: web.Request) -> web.StreamResponse:
        tenant = tenant_of(request)
        # A tenant always meets the same origin, whose caches then hold what that tenant's viewers watch.
        origin = origins[crc32(tenant.encode()) % len(origins)]
        # The token is for this gateway, and no origin's business.
        return await gateway.relay(request, origin=origin, headers={hdrs.AUTHORIZATION: None}, tenant=tenant)

    app = web.Application()
    app.router.add_get("/live/{path:.*}", watch)
    return app


async def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="An HLS gateway with a token check and a choice of origins.")
    parser.add_argument(
        "origins", nargs="*", help="URLs of origins; none: an embedded one with the demo's stream"
    )
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    origins = arguments.origins or [await start(make_origin(), port=0)]
    url = await start(make_app(origins), port=arguments.port)
    print(f"{url} relays from {', '.join(origins)}", flush=True)
    await asyncio.Event().wait()


async def start(app: web.Application, port: int) -> str:
    """Serve `app` on the loopback interface and return its URL."""
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
