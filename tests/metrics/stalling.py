"""A server whose interpreter stands still, with the GIL held, from a request on until a byte comes on standard input.

python stalling.py SOCKET STATUS_SOCKET ORIGIN
"""

import ctypes
import os
import sys

from aiohttp import web

import penstock
from penstock.config import Status
from penstock.web import Gateway, run_app

path, status, origin = sys.argv[1:]

# PyDLL holds the GIL while it calls.
_libc = ctypes.PyDLL(None)


async def hang(_request: web.Request) -> web.Response:
    _libc.read(0, ctypes.create_string_buffer(1), 1)
    return web.Response(text="over")


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


app = web.Application()
app.router.add_get("/hang", hang)
app.router.add_get("/hello", hello)
engine = penstock.Engine(memory="8MiB", threads=1)
app.add_routes([Gateway(origin, engine=engine).native("/vod/", name="vod")])
run_app(
    app,
    path=path,
    engine=engine,
    status=Status(listen=f"unix:{status}", behind=0.2),
    access_log=None,
    shutdown_timeout=1,
    print=lambda _: os.write(1, b"ready\n"),
)
engine.close()
