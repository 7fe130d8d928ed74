"""The caches that are compared in answering hits. Each has one core and logs nothing, as the gateways of compare.py."""

from __future__ import annotations

from harness.builds import require, rust
from harness.gateways import (
    PEERS,
    Gateway,
    Launch,
    aiohttp_command,
    nginx_command,
    package_versions,
    penstock_command,
    program_version,
    render_config,
)

HITS = frozenset({"hits"})
VARNISH_MEMORY = "3g"
# What it logs of a hit.
VARNISH_TAGS = (
    *(
        "Begin",
        "End",
        "Hit",
        "Link",
        "ReqAcct",
        "ReqHeader",
        "ReqMethod",
        "ReqProtocol",
        "ReqStart",
        "ReqUnset",
        "ReqURL",
    ),
    *(
        "RespHeader",
        "RespProtocol",
        "RespReason",
        "RespStatus",
        "RespUnset",
        "Timestamp",
        "VCL_call",
        "VCL_return",
        "VCL_use",
    ),
)


def _bare(launch: Launch) -> list[str]:
    return [rust("peers/bare_hits", "bare-hits"), launch.listen, launch.origin]


def _varnish(launch: Launch) -> list[str]:
    program = require("varnishd", "varnish")
    host, _, port = launch.origin.rpartition(":")
    config = render_config(PEERS / "varnish.vcl", launch.runtime, ORIGIN_HOST=host, ORIGIN_PORT=port)
    # On one core a second pool of threads is only more to switch between. Its log in shared memory is a cost that the
    # others do not have.
    mask = ",".join(f"-{tag}" for tag in VARNISH_TAGS)
    parameters = ["thread_pools=1", "timeout_idle=300", f"vsl_mask={mask}"]
    settings = [word for parameter in parameters for word in ("-p", parameter)]
    where = ["-n", str(launch.runtime / "varnish"), "-a", launch.listen, "-f", config]
    return [program, "-j", "none", "-F", *where, "-s", f"malloc,{VARNISH_MEMORY}", *settings]


def _nginx_cache(launch: Launch) -> list[str]:
    return nginx_command(
        PEERS / "nginx_cache.conf", launch.runtime, LISTEN=launch.listen, ORIGIN=launch.origin
    )


LIMIT, REFERENCE, OWN = "bare-hits", "varnish", "penstock-cached"
CACHES = (
    Gateway(
        LIMIT,
        "limit: one writev from memory, no HTTP read",
        _bare,
        program_version("rustc", "--version", package="cargo"),
        kinds=HITS,
    ),
    Gateway(REFERENCE, "Varnish", _varnish, program_version("varnishd", "-V", package="varnish"), kinds=HITS),
    Gateway("nginx-cache", "nginx, proxy_cache", _nginx_cache, program_version("nginx", "-v"), kinds=HITS),
    Gateway(
        "aiohttp-dict",
        "aiohttp + uvloop, a dict",
        aiohttp_command("--store"),
        package_versions("aiohttp", "uvloop"),
        kinds=HITS,
    ),
    Gateway(
        OWN,
        "**penstock**, native lane",
        penstock_command("cached"),
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=HITS,
        own=True,
    ),
)
BY_NAME = {cache.name: cache for cache in CACHES}
