"""An application whose requests take some milliseconds of the processor: for `penstock serve pressure_app:make`."""

import time

from aiohttp import web

WORK = 0.002
"""Seconds of the processor for a request."""


async def _work(_: web.Request) -> web.Response:
    end = time.thread_time() + WORK
    while time.thread_time() < end:
        pass
    return web.Response(text="done")


def make() -> web.Application:
    app = web.Application()
    app.router.add_get("/work", _work)
    return app
