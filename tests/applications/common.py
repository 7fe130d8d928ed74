"""What programs have in common."""

from typing import Any

from aiohttp import web

from .steps import Ask

JSON = {"Content-Type": "application/json"}
GET = Ask("GET", "/")


async def hello(request: web.Request) -> web.Response:
    return web.Response(text=f"Hello, {request.query.get('name', 'World')}")


def plain(**options: Any) -> web.Application:
    app = web.Application(**options)
    app.router.add_get("/", hello)
    return app
