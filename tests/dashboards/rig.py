"""Two gateways under load, and a Prometheus that scrapes them."""

import datetime as dt
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from support.brokers.redis_server import RedisServer
from support.command import Running, serve
from support.programs import require
from support.prometheus import Prometheus, scraping

from .load import Load
from .origin import Origin

HERE = Path(__file__).parent
_STATUS = re.compile(r"status on http://([\d.]+:\d+)")


@dataclass
class Rig:
    """What runs."""

    prometheus: Prometheus
    load: Load
    site: Running
    spare: Origin


@asynccontextmanager
async def running(directory: Path, rules: Path) -> AsyncIterator[Rig]:
    """All of it, until the block ends. `rules` is the file with the rules."""
    program = require("prometheus", package="prometheus")
    authority = trustme.CA()
    for name, days in (("localhost", 80), ("media.example.org", 14)):
        _write_certificate(authority, directory / "tls", name, days)
    redis = RedisServer(directory)
    origin, spare = Origin(), Origin()
    spare.fails = 0.3
    async with AsyncExitStack() as stack:
        await redis.start()
        stack.callback(redis.kill)
        await stack.enter_async_context(origin.serving())
        await stack.enter_async_context(spare.serving())
        application = f'streaming_site:make("{origin.url}", "{spare.url}", "{redis.url}")'
        common = (
            "--status-listen",
            "127.0.0.1:0",
            "--log-level",
            "error",
            "--no-access-log",
            "--memory",
            "64MiB",
        )
        site = await stack.enter_async_context(
            serve(
                *(application, "--workers", "2", *common, "--traces", f"{origin.url}/v1/traces"),
                *("--cache", "8MiB", "--cache-disk", str(directory / "cache"), "--cache-disk-size", "64MiB"),
                *("--tls-dir", str(directory / "tls")),
                directory=HERE,
            )
        )
        site_status = (await site.wait_for(_STATUS))[1]
        gateway = await stack.enter_async_context(
            serve("--origin", origin.url, "--cache", "8MiB", *common, directory=HERE)
        )
        gateway_status = (await gateway.wait_for(_STATUS))[1]
        targets = {"site:9145": site_status, "gateway:9145": gateway_status}
        prometheus = await stack.enter_async_context(scraping(program, directory, rules, targets))
        load = await stack.enter_async_context(Load(site.port, gateway.port, authority).running())
        yield Rig(prometheus, load, site, spare)


def _write_certificate(authority: trustme.CA, directory: Path, name: str, days: int) -> None:
    directory.mkdir(exist_ok=True)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    leaf = authority.issue_cert(name, not_after=until)
    (directory / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    (directory / f"{name}.key").write_bytes(leaf.private_key_pem.bytes())
