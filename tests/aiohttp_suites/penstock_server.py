"""A plugin for pytest: aiohttp's own test server listens through a penstock Site.

Each server has an engine, which is closed with it: a test of aiohttp's has a loop of its own. Servers with TLS stay
aiohttp's, because the engine does not speak TLS to clients.
"""

import socket
import ssl
from typing import Any

import pytest
from aiohttp import test_utils, web

import penstock
from penstock.web import Site

_engines: dict[web.BaseRunner, penstock.Engine] = {}


def _site(
    runner: web.BaseRunner, sock: socket.socket, *, ssl_context: ssl.SSLContext | None = None
) -> web.BaseSite:
    if ssl_context is not None:
        return web.SockSite(runner, sock, ssl_context=ssl_context)
    engine = _engines[runner] = penstock.Engine(memory="16MiB")
    return Site(runner, sock=sock, engine=engine)


test_utils.SockSite = _site  # type: ignore[misc, assignment]

_close = test_utils.BaseTestServer.close


async def _close_with_engine(server: Any) -> None:
    runner = server.runner
    await _close(server)
    engine = _engines.pop(runner, None)
    if engine is not None:
        engine.close()


test_utils.BaseTestServer.close = _close_with_engine  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per test that did not pass, for a comparison."""
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            terminalreporter.write_line(f"DID-NOT-PASS {report.nodeid}")


@pytest.fixture(autouse=True)
def _no_engine_is_left() -> Any:
    yield
    while _engines:
        _engines.popitem()[1].close()
