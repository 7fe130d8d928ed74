"""Other people's servers as origins that tell how they have read a request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.programs import require
from support.servers import configured_nginx

_NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {run}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {run}/body;
    proxy_temp_path {run}/proxy;
    fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi;
    scgi_temp_path {run}/scgi;
    server {{
        listen {address};
        location / {{
            proxy_pass {behind};
            proxy_http_version 1.1;
        }}
    }}
}}
"""


class Reading(NamedTuple):
    """A request as a server has read it."""

    method: str
    target: str
    body: bytes


@asynccontextmanager
async def running_aiohttp(readings: list[Reading], _: Path) -> AsyncIterator[str]:
    """An aiohttp server on asyncio that keeps what it reads; yields its URL."""

    async def handler(request: web.BaseRequest) -> web.Response:
        readings.append(Reading(request.method, request.raw_path, await request.read()))
        return web.Response(text="ok")

    runner = web.ServerRunner(web.Server(handler, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running_nginx_before(readings: list[Reading], run: Path) -> AsyncIterator[str]:
    """Nginx before a server that keeps what it is sent: nginx has no way to tell of a body itself. Yields its URL."""
    program = require("nginx", package="nginx-light")

    async def record(peer: Peer) -> None:
        head = await peer.request()
        readings.append(Reading(head.method, head.target, await peer.read_body()))
        await peer.send(answer("Content-Length: 0", "Connection: close"))

    async with (
        ScriptedOrigin(record) as behind,
        configured_nginx(program, _NGINX, run, behind=behind.url) as url,
    ):
        yield url
