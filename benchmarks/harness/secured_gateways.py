"""The gateways that are compared over TLS, by HTTP/1.1 and HTTP/2. All show the certificate that the load has made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness.builds import require
from harness.gateways import (
    PEERS,
    Gateway,
    Launch,
    first_line,
    nginx_command,
    package_versions,
    penstock_command,
    program_version,
    render_config,
    require_packages,
)

CERT, KEY, PAIR = "cert.pem", "key.pem", "pair.pem"


def certificates(launch: Launch) -> Path:
    """Where the load has put them: its own directory is beside those of the gateways."""
    return launch.runtime.parent / "origin"


def _penstock(lane: str) -> Callable[[Launch], list[str]]:
    def command(launch: Launch) -> list[str]:
        where = certificates(launch)
        return [*penstock_command(lane)(launch), "--tls", str(where / CERT), str(where / KEY)]

    return command


def _nginx(cache: str) -> Callable[[Launch], list[str]]:
    def command(launch: Launch) -> list[str]:
        where = certificates(launch)
        values = {"CERT": str(where / CERT), "KEY": str(where / KEY), "CACHE": cache}
        values["BUFFERING"] = "off" if launch.kind == "secured-events" else "on"
        template = PEERS / "nginx_secured.conf"
        return nginx_command(template, launch.runtime, LISTEN=launch.listen, ORIGIN=launch.origin, **values)

    return command


def _haproxy(launch: Launch) -> list[str]:
    values = {"LISTEN": launch.listen, "ORIGIN": launch.origin, "PAIR": str(certificates(launch) / PAIR)}
    config = render_config(PEERS / "haproxy_secured.cfg", launch.runtime, **values)
    return [require("haproxy", "haproxy"), "-db", "-f", config]


def _caddy(launch: Launch) -> list[str]:
    where = certificates(launch)
    values = {"PORT": launch.listen.rpartition(":")[2], "ORIGIN": launch.origin}
    config = render_config(
        PEERS / "Caddyfile", launch.runtime, CERT=str(where / CERT), KEY=str(where / KEY), **values
    )
    # One worker, as the others have.
    home = ["env", f"HOME={launch.runtime}", "GOMAXPROCS=1"]
    return [*home, require("caddy", "caddy"), "run", "--config", config, "--adapter", "caddyfile"]


def _hypercorn(launch: Launch) -> list[str]:
    require_packages("hypercorn", "uvloop")
    where = certificates(launch)
    tls = ["--certfile", str(where / CERT), "--keyfile", str(where / KEY)]
    limits = ["--keep-alive", "300", "--log-level", "critical"]
    run = [sys.executable, "-m", "hypercorn", "asgi_app:app", "--worker-class", "uvloop"]
    return ["env", f"PYTHONPATH={PEERS}", *run, "--bind", launch.listen, *tls, *limits]


def _granian(launch: Launch) -> list[str]:
    require_packages("granian", "uvloop")
    where = certificates(launch)
    host, _, port = launch.listen.rpartition(":")
    run = [sys.executable, "-m", "granian", "asgi_app:app", "--interface", "asgi", "--loop", "uvloop"]
    tls = ["--ssl-certificate", str(where / CERT), "--ssl-keyfile", str(where / KEY)]
    quiet = ["--no-access-log", "--log-level", "critical", "--no-ws"]
    return ["env", f"PYTHONPATH={PEERS}", *run, "--host", host, "--port", port, *tls, *quiet]


_OWN = package_versions("penstock", "aiohttp", "uvloop")
_RELAYS = frozenset({"secured", "secured-events"})
_HITS = frozenset({"secured-hits"})
_HANDLERS = frozenset({"secured-handlers"})

SECURED_GATEWAYS = (
    Gateway("nginx", "nginx", _nginx("off"), program_version("nginx", "-v"), _RELAYS),
    Gateway("haproxy", "HAProxy", _haproxy, program_version("haproxy", "-v"), _RELAYS),
    Gateway("caddy", "Caddy", _caddy, lambda: {"caddy": first_line("caddy", "caddy", "version")}, _RELAYS),
    Gateway("penstock", "**penstock**, native lane", _penstock("native"), _OWN, _RELAYS, own=True),
    Gateway("nginx-cache", "nginx", _nginx("cache"), program_version("nginx", "-v"), _HITS),
    Gateway("penstock-cache", "**penstock**, cache", _penstock("cached"), _OWN, _HITS, own=True),
    Gateway("hypercorn", "hypercorn", _hypercorn, package_versions("hypercorn", "uvloop"), _HANDLERS),
    Gateway("granian", "granian", _granian, package_versions("granian", "uvloop"), _HANDLERS),
    Gateway("penstock-app", "**penstock**, application's lane", _penstock("app"), _OWN, _HANDLERS, own=True),
)
BY_NAME = {gateway.name: gateway for gateway in SECURED_GATEWAYS}
