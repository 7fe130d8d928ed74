"""Servers as processes of their own: `penstock serve`, and nginx as an origin.

Each is a context manager that yields when the server can be connected to and ends it after the block. Neither
has a port of its own choosing: penstock is asked for port 0 and says what it got, nginx is handed a socket.
"""

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .waiting import in_time

_LISTENING = re.compile(rb"listening on (https?://\S+?:\d+)")

_GRPC_SERVER = Path(__file__).parents[1] / "grpc" / "server.py"
_NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {run}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {run}/body;
    proxy_temp_path {run}/proxy;
    fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi;
    scgi_temp_path {run}/scgi;
    types {{
        application/vnd.apple.mpegurl m3u8;
        video/mp4 mp4 m4s;
        video/mp2t ts;
    }}
    server {{
        listen {address};
        root {root};
        location ~ \\.m3u8$ {{ add_header Cache-Control no-cache; }}
    }}
}}
"""


@asynccontextmanager
async def running_gateway(origin: str, *options: str) -> AsyncIterator[str]:
    """`penstock serve --origin ORIGIN` on a free port; yields its URL.

    After the block it is told to terminate, and has to end with status 0.
    """
    command = (
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--origin",
        origin,
        "--listen",
        "127.0.0.1:0",
        *options,
    )
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    hearing: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(30):
            url = await _announced(process.stderr)
        # Heard to the end, so that a full pipe cannot hold it up.
        hearing = asyncio.create_task(process.stderr.read())
        yield url
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if hearing is not None:
            # Shown by pytest with a test that fails, and by it alone.
            sys.stderr.write((await hearing).decode(errors="replace"))


async def _announced(stderr: asyncio.StreamReader) -> str:
    said: list[bytes] = []
    async for line in stderr:
        said.append(line)
        if found := _LISTENING.search(line):
            return found[1].decode()
    raise AssertionError(
        f"penstock serve ended before it listened: {b''.join(said).decode(errors='replace')}"
    )


@asynccontextmanager
async def running_grpc_server() -> AsyncIterator[str]:
    """The server of `tests/grpc`; yields its host and port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_GRPC_SERVER), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = await in_time(process.stdout.readline(), "a server of gRPC listens")
        yield f"127.0.0.1:{int(port)}"
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def running_nginx(program: str, root: Path, run: Path) -> AsyncIterator[str]:
    """Nginx serving the files under `root`, as the current user; yields its URL.

    Args:
        program: the path of nginx.
        root: the directory to serve.
        run: an empty directory for its configuration and temporary files.
    """
    async with configured_nginx(program, _NGINX, run, root=root) as url:
        yield url


@asynccontextmanager
async def configured_nginx(
    program: str, configuration: str, run: Path, **values: object
) -> AsyncIterator[str]:
    """Nginx as the current user; yields its URL.

    Args:
        program: the path of nginx.
        configuration: what it is told, with places for `user`, `run`, `address` and `values`.
        run: an empty directory for its configuration and temporary files.
        values: what stands in the other places of the configuration.
    """
    log = run / "nginx.log"
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening, log.open("wb") as complaints:
        address = "{}:{}".format(*listening.getsockname())
        # Started as root it would hand its worker to a user who cannot read a temporary directory.
        user = "user root;" if os.geteuid() == 0 else ""
        path = run / "nginx.conf"
        path.write_text(configuration.format(user=user, run=run, address=address, **values))
        # nginx takes over the socket that it finds in NGINX, as it does in an upgrade of its program: no port
        # is guessed, and connections that come before it is ready wait in the backlog.
        process = await asyncio.create_subprocess_exec(
            *(program, "-p", str(run), "-e", "stderr", "-c", str(path)),
            env={**os.environ, "NGINX": f"{listening.fileno()};"},
            pass_fds=(listening.fileno(),),
            stderr=complaints,
        )
    try:
        yield f"http://{address}"
        assert process.returncode is None, f"nginx ended by itself: {log.read_text()}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
