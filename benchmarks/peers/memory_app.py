"""A small application, as `memory.py` serves it: one handler of its own, and everything else relayed to ORIGIN."""

from __future__ import annotations

import os

from aiohttp import web

from penstock.web import Gateway


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def app() -> web.Application:
    made = web.Application()
    made.router.add_get("/ok", ok)
    made.router.add_route("*", "/{path:.*}", Gateway(os.environ["ORIGIN"]).relay)
    return made
