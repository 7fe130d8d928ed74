"""A Prometheus that scrapes what tests serve."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from .command import free_port
from .waiting import DEADLINE

SCRAPE = "500ms"
WINDOW = "4s"
"""In place of `$__rate_interval`."""


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


@asynccontextmanager
async def scraping(
    program: str, directory: Path, rules: Path, targets: dict[str, str]
) -> AsyncIterator[Prometheus]:
    """One that scrapes `targets`, which are addresses by the names of instances, until the block ends.

    `rules` is the file with the rules.
    """
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
        async with aiohttp.ClientSession() as session:
            prometheus = Prometheus(f"http://{url}", session)
            await prometheus.ready()
            yield prometheus
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
