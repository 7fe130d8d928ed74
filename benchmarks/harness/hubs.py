"""The hubs that are compared in fanning out: GET /events/topic subscribes, POST /publish publishes.

Each has one core and one worker, logs nothing, keeps a history to resume from and gives every event an id; but for the
limit, which does neither of the last two. What publishing costs is part of a hub's CPU time: one small POST for each
event, which is a hundredth of what 2,000 subscribers cost where a handler of aiohttp's takes it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.builds import AbsentError, require, rust
from harness.gateways import (
    PEERS,
    Gateway,
    Launch,
    nginx_command,
    package_versions,
    program_version,
    require_packages,
)

FAN_OUT = frozenset({"fan-out"})
NCHAN_PACKAGE = "libnginx-mod-nchan"


def _bare(launch: Launch) -> list[str]:
    return [rust("peers/bare_fan_out", "bare-fan-out"), launch.listen]


def _nchan_module() -> str:
    """Return the path of nginx's module. Raises AbsentError."""
    built = subprocess.run(
        [require("nginx", "nginx"), "-V"], capture_output=True, text=True, check=True
    ).stderr
    words = [word for word in built.split() if word.startswith("--modules-path=")]
    folder = words[0].partition("=")[2] if words else "/usr/lib/nginx/modules"
    module = Path(folder, "ngx_nchan_module.so")
    if not module.exists():
        raise AbsentError(f"{module} is not there (package: {NCHAN_PACKAGE})")
    return str(module)


def _nchan(launch: Launch) -> list[str]:
    return nginx_command(
        PEERS / "nginx_nchan.conf", launch.runtime, LISTEN=launch.listen, MODULE=_nchan_module()
    )


def _nchan_versions() -> dict[str, str]:
    _nchan_module()
    asked = ["dpkg-query", "--showformat=${Version}", "--show", NCHAN_PACKAGE]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return program_version("nginx", "-v")() | {"nchan": found or "unknown"}


def _aiohttp_sse(launch: Launch) -> list[str]:
    require_packages("aiohttp", "aiohttp-sse", "uvloop")
    return [sys.executable, str(PEERS / "aiohttp_sse_hub.py"), "--listen", launch.listen]


def _penstock(launch: Launch) -> list[str]:
    require_packages("penstock", "aiohttp", "uvloop")
    return [sys.executable, str(PEERS / "penstock_hub.py"), "--listen", launch.listen]


def _penstock_handler(launch: Launch) -> list[str]:
    return [*_penstock(launch), "--handler"]


LIMIT, NCHAN, QUEUES = "bare-fan-out", "nchan", "aiohttp-sse"
OWN, OWN_HANDLER = "penstock-hub", "penstock-stream"
HUBS = (
    Gateway(
        LIMIT,
        "limit: one send for each subscriber, on tokio",
        _bare,
        program_version("rustc", "--version", package="cargo"),
        kinds=FAN_OUT,
    ),
    Gateway(NCHAN, "nchan (nginx)", _nchan, _nchan_versions, kinds=FAN_OUT),
    Gateway(
        QUEUES,
        "aiohttp-sse, a queue for each subscriber, on uvloop",
        _aiohttp_sse,
        package_versions("aiohttp", "aiohttp-sse", "uvloop"),
        kinds=FAN_OUT,
    ),
    Gateway(
        OWN,
        "**penstock**'s hub",
        _penstock,
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=FAN_OUT,
        own=True,
    ),
    Gateway(
        OWN_HANDLER,
        "**penstock**'s hub, by a handler",
        _penstock_handler,
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=FAN_OUT,
        own=True,
    ),
)
BY_NAME = {hub.name: hub for hub in HUBS}
