"""A plugin for pytest: aiohttp's own test server listens through a penstock Site.

Each server has an engine, which is closed with it: a test of aiohttp's has a loop of its own. Servers that a test gives
an `ssl.SSLContext` stay aiohttp's. With PENSTOCK_TLS, the file of a certificate and its key, all others speak TLS, and
aiohttp's test client trusts them. With PENSTOCK_NGHTTPX as well, the path of nghttpx, each server has one in front of
it, which aiohttp's test client speaks HTTP/1.1 to, and which speaks HTTP/2 to the server.
"""

import asyncio
import os
import socket
import ssl
import subprocess
from typing import Any

import aiohttp
import pytest
from aiohttp import test_utils, web
from yarl import URL

import penstock
from penstock.web import TLS, Site

PAIR = os.environ.get("PENSTOCK_TLS")
NGHTTPX = os.environ.get("PENSTOCK_NGHTTPX")

# Of sockets that speak TLS where all do.
_ports: set[int] = set()
_engines: dict[web.BaseRunner, penstock.Engine] = {}
_fronts: dict[web.BaseRunner, subprocess.Popen[bytes]] = {}


def _site(
    runner: web.BaseRunner, sock: socket.socket, *, ssl_context: ssl.SSLContext | None = None
) -> web.BaseSite:
    if ssl_context is not None:
        # An earlier server may have had its port.
        _ports.discard(sock.getsockname()[1])
        return web.SockSite(runner, sock, ssl_context=ssl_context)
    _ports.add(sock.getsockname()[1])
    engine = _engines[runner] = penstock.Engine(memory="16MiB")
    return Site(runner, sock=sock, engine=engine, ssl_context=None if PAIR is None else TLS(PAIR))


test_utils.SockSite = _site  # type: ignore[misc, assignment]

_close = test_utils.BaseTestServer.close


async def _close_with_engine(server: Any) -> None:
    runner = server.runner
    await _close(server)
    engine = _engines.pop(runner, None)
    if engine is not None:
        engine.close()


test_utils.BaseTestServer.close = _close_with_engine  # type: ignore[method-assign]


if PAIR is not None:
    _start = test_utils.BaseTestServer.start_server
    _make = aiohttp.TCPConnector.__init__
    _open = asyncio.open_connection

    async def _start_secured(server: Any, **options: Any) -> None:
        if "ssl" not in options and not server.scheme:
            server.scheme = "https"
        await _start(server, **options)

    def _make_trusting(connector: Any, *, ssl: Any = False, **options: Any) -> None:
        _make(connector, ssl=ssl, **options)

    async def _open_secured(host: Any = None, port: Any = None, **options: Any) -> Any:
        if port in _ports and "ssl" not in options:
            options["ssl"] = ssl.create_default_context()
            options["ssl"].check_hostname, options["ssl"].verify_mode = False, ssl.CERT_NONE
        return await _open(host, port, **options)

    asyncio.open_connection = _open_secured  # type: ignore[assignment]
    test_utils.BaseTestServer.start_server = _start_secured  # type: ignore[method-assign]
    aiohttp.TCPConnector.__init__ = _make_trusting  # type: ignore[method-assign]


if NGHTTPX is not None:
    _start_plain = test_utils.BaseTestServer.start_server
    _close_plain = test_utils.BaseTestServer.close

    async def _start_with_front(server: Any, **options: Any) -> None:
        """Start a server, and let its port be that of nghttpx."""
        await _start_plain(server, **options)
        if server.port not in _ports:
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        _fronts[server.runner] = subprocess.Popen(
            (
                *(NGHTTPX, "--conf=/dev/null", "--single-process", "--workers=1", "--insecure", "--no-via"),
                *("--no-add-x-forwarded-proto", "--no-server-rewrite", "--no-location-rewrite"),
                *("--errorlog-file=/dev/null", f"--frontend=127.0.0.1,{port};no-tls"),
                f"--backend=127.0.0.1,{server.port};;proto=h2;tls;sni=localhost",
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.005)
        server.port, server.scheme = port, "http"
        server._root = URL(f"http://{server.host}:{port}")

    async def _close_with_front(server: Any) -> None:
        await _close_plain(server)
        _end(server.runner)

    test_utils.BaseTestServer.start_server = _start_with_front
    test_utils.BaseTestServer.close = _close_with_front


def _end(runner: web.BaseRunner) -> None:
    """End the front of a server, if it has one."""
    front = _fronts.pop(runner, None)
    if front is not None:
        front.kill()
        front.wait()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per test that did not pass, for a comparison."""
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            terminalreporter.write_line(f"DID-NOT-PASS {report.nodeid}")


@pytest.fixture(autouse=True)
def _no_engine_is_left() -> Any:
    yield
    for runner in [*_fronts]:
        _end(runner)
    while _engines:
        _engines.popitem()[1].close()
