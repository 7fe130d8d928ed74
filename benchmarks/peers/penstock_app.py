"""penstock as the gateway: an ordinary aiohttp application on uvloop whose catch-all route relays to the
origin.

The same server, loop and settings as aiohttp_proxy.py: only the handler differs. Nothing is logged.
"""

from __future__ import annotations

import argparse

import uvloop
from aiohttp import web

from penstock import Engine
from penstock.config import OriginLimits
from penstock.web import Gateway

# As many streams at once as the load opens, and connections kept as long as the peers keep theirs.
LIMITS = OriginLimits(connections=4096, requests_per_connection=100_000_000, idle_timeout=300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--origin", required=True, metavar="URL")
    arguments = parser.parse_args()

    engine = Engine(limits=LIMITS)

    async def close_engine(_app: web.Application) -> None:
        await engine.aclose()

    app = web.Application()
    app.on_cleanup.append(close_engine)
    app.router.add_route("*", "/{path:.*}", Gateway(arguments.origin, engine=engine).relay)
    host, _, port = arguments.listen.rpartition(":")
    web.run_app(
        app,
        host=host,
        port=int(port),
        backlog=4096,
        access_log=None,
        shutdown_timeout=1,
        print=None,
        keepalive_timeout=300,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
