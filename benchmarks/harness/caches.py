"""Shared caches in front of one origin: how each is started. Each keeps what it stores in memory or below `runtime`.

Of the peers' settings those are changed that a comparison would be unfair without: see the comments here and in
their configurations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness.builds import require
from harness.gateways import PEERS, first_line, nginx_command, render_config

MEMORY_MIB = 64
# One for each client of a crowd, made beforehand: making them would take part of the time that is measured.
VARNISH_THREADS = 1100

Command = Callable[[str, str, Path], list[str]]
"""Where to listen and whom to ask (HOST:PORT), and a directory of its own."""


def _penstock(listen: str, origin: str, _runtime: Path) -> list[str]:
    serve = [sys.executable, "-m", "penstock", "serve", "--no-access-log", "--cache", f"{MEMORY_MIB}MiB"]
    return [*serve, "--origin", f"http://{origin}", "--listen", listen]


def _nginx(listen: str, origin: str, runtime: Path) -> list[str]:
    return nginx_command(PEERS / "nginx_cache.conf", runtime, LISTEN=listen, ORIGIN=origin)


def _varnish(listen: str, origin: str, runtime: Path) -> list[str]:
    host, _, port = origin.rpartition(":")
    rules = render_config(PEERS / "varnish.vcl", runtime, ORIGIN_HOST=host, ORIGIN_PORT=port)
    program = require("varnishd", "varnish")
    # Without privileges: it is started and stopped with this run.
    where = ["-F", "-j", "none", "-n", str(runtime / "varnish"), "-a", listen, "-f", rules]
    parameters = {
        "thread_pools": 1,
        "thread_pool_min": VARNISH_THREADS,
        "thread_pool_max": 2 * VARNISH_THREADS,
        # What says nothing of its age is not fresh for two minutes, and what is stale is not served for ten
        # seconds more, unless the origin says so: as the other caches have it, and as Varnish's own runs of
        # http-tests/cache-tests.
        "default_ttl": 0,
        "default_grace": 0,
        "default_keep": 3600,
    }
    given = [part for name, value in parameters.items() for part in ("-p", f"{name}={value}")]
    return [program, *where, "-s", f"malloc,{MEMORY_MIB}M", *given]


def _haproxy(listen: str, origin: str, runtime: Path) -> list[str]:
    program = require("haproxy", "haproxy")
    config = render_config(PEERS / "haproxy_cache.cfg", runtime, LISTEN=listen, ORIGIN=origin)
    return [program, "-db", "-f", config]


def _limit(listen: str, origin: str, _runtime: Path) -> list[str]:
    return [sys.executable, str(PEERS / "fan_out.py"), listen, origin]


COMMANDS: dict[str, Command] = {
    "penstock": _penstock,
    "nginx": _nginx,
    "varnish": _varnish,
    "haproxy": _haproxy,
    "limit": _limit,
}


def version(name: str) -> str:
    """What the cache calls itself. Raises AbsentError."""
    if name == "penstock":
        return first_line(sys.executable, "python", "-m", "penstock", "--version")
    if name == "limit":
        return sys.version
    if name == "nginx":
        return first_line("nginx", "nginx", "-v")
    if name == "varnish":
        return first_line("varnishd", "varnish", "-V")
    return first_line("haproxy", "haproxy", "-v")
