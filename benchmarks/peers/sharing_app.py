"""A gateway with several engine threads that share one port: one listener that hands connections out (`handed`), or a
listener for each thread, among which the kernel chooses (`reuse-port`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib

import uvloop
from aiohttp import web

from penstock import Engine
from penstock.config import Edge, OriginLimits
from penstock.web import Gateway, Site

LIMITS = OriginLimits(connections=100_000)


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def serve(host: str, port: int, origin: str, threads: int, sharing: str) -> None:
    reuse_port = sharing == "reuse-port"
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(threads if reuse_port else 1):
            engine = await stack.enter_async_context(
                Engine(memory="64MiB", limits=LIMITS, threads=1 if reuse_port else threads)
            )
            app = web.Application()
            app.router.add_get("/ok", ok)
            app.add_routes([Gateway(origin, engine=engine).native("/live/", rewrite="/")])
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await Site(runner, host, port, engine=engine, edge=Edge(reuse_port=reuse_port)).start()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--origin", required=True, metavar="URL")
    parser.add_argument("--threads", required=True, type=int)
    parser.add_argument("--sharing", required=True, choices=("handed", "reuse-port"))
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    uvloop.run(serve(host, int(port), arguments.origin, arguments.threads, arguments.sharing))


if __name__ == "__main__":
    main()
