"""penstock as the gateway: an ordinary aiohttp application on uvloop whose catch-all route relays to the
origin.

The same server, loop and settings as aiohttp_proxy.py: only the handler differs. Nothing is logged.
"""

from __future__ import annotations

import argparse

import uvloop
from aiohttp import web

from penstock.web import Gateway


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--origin", required=True, metavar="URL")
    arguments = parser.parse_args()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Gateway(arguments.origin).relay)
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
