"""Two gateways under load, and a Prometheus that scrapes them."""

import asyncio
import datetime as dt
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import trustme

from support.brokers.redis_server import RedisServer
from support.command import Running, free_port, serve
from support.programs import require
from support.waiting import DEADLINE

from .load import Load
from .origin import Origin

HERE = Path(__file__).parent
SCRAPE = "500ms"
WINDOW = "4s"
"""In place of `$__rate_interval`."""
_STATUS = re.compile(r"status on http://([\d.]+:\d+)")


class Prometheus:
    """Its HTTP interface."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self._session = url, session

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now."""
        return await self._ask("query", query=with_values(expression))

    async def over(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of an expression between two times."""
        span = {"start": str(start), "end": str(end), "step": str(step)}
        return await self._ask("query_range", query=with_values(expression), **span)

    async def _ask(self, what: str, **fields: str) -> list[dict[str, Any]]:
        async with self._session.post(f"{self.url}/api/v1/{what}", data=fields) as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{fields['query']}: {answer}"
        return list(answer["data"]["result"])

    async def ready(self) -> None:
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    async with self._session.get(f"{self.url}/-/ready") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.05)


def with_values(expression: str) -> str:
    """With values in place of Grafana's variables."""
    for variable, value in (
        ("$__rate_interval", WINDOW),
        ("$job", ".*"),
        ("$instance", ".*"),
        ("$route", ".*"),
    ):
        expression = expression.replace(variable, value)
    return expression


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
        session = await stack.enter_async_context(aiohttp.ClientSession())
        prometheus = await stack.enter_async_context(_prometheus(program, directory, rules, targets, session))
        load = await stack.enter_async_context(Load(site.port, gateway.port, authority).running())
        yield Rig(prometheus, load, site, spare)


def _write_certificate(authority: trustme.CA, directory: Path, name: str, days: int) -> None:
    directory.mkdir(exist_ok=True)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    leaf = authority.issue_cert(name, not_after=until)
    (directory / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    (directory / f"{name}.key").write_bytes(leaf.private_key_pem.bytes())


@asynccontextmanager
async def _prometheus(
    program: str, directory: Path, rules: Path, targets: dict[str, str], session: aiohttp.ClientSession
) -> AsyncIterator[Prometheus]:
    jobs = [{"targets": [address], "labels": {"instance": name}} for name, address in targets.items()]
    configuration = {
        "global": {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "penstock", "static_configs": jobs}],
    }
    path = directory / "prometheus.yml"
    # JSON is YAML.
    path.write_text(json.dumps(configuration))
    url = f"127.0.0.1:{free_port()}"
    with (directory / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(program, f"--config.file={path}", f"--storage.tsdb.path={directory / 'tsdb'}"),
            f"--web.listen-address={url}",
            stdout=log,
            stderr=log,
        )
    try:
        prometheus = Prometheus(f"http://{url}", session)
        await prometheus.ready()
        yield prometheus
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
