"""`penstock doctor`: has all checks made, and shows what they found."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from penstock import config
from penstock._cores import engine_threads
from penstock.cli_config import Configuration
from penstock.cli_serving import planned
from penstock.config.checks import parse_size
from penstock.serving.plan import Plan as Planned

from .files import check_files
from .finding import Finding
from .interpreter import check_interpreter
from .kernel import check_machine
from .machine import Machine
from .plan import Plan
from .probe import check_origins
from .report import as_json, as_text, status

__all__ = ["diagnose"]


def diagnose(configuration: Configuration, *, clients: int, probe: bool, as_object: bool) -> int:
    """Make all checks, print what they found, and return the exit status."""
    plan = plan_of(planned(configuration), clients)
    machine = Machine()
    findings = [*check_machine(machine, plan), *check_files(machine, plan), *check_interpreter(plan)]
    if probe:
        findings += asyncio.run(_probed(plan))
    click.echo(as_json(findings) if as_object else as_text(findings))
    return status(findings)


async def _probed(plan: Plan) -> list[Finding]:
    return [finding async for finding in check_origins(plan)]


def plan_of(planned: Planned, clients: int) -> Plan:
    """What is to be served. An application's own engine is not looked at: it has the default size here."""
    server = planned.server
    cache, workers, roots = server.cache, server.workers, server.origin_tls.roots
    urls = [url for known in planned.origins.values() for url in _urls(known.said.urls)]
    routes = [*server.routes, *(route for site in server.sites for route in site.routes)]
    urls += [route.origin for route in routes if "://" in route.origin]
    return Plan(
        clients=clients,
        listen=server.place,
        edge=planned.sites[0].edge,
        status=server.status,
        origins=tuple(dict.fromkeys(urls)),
        connections=server.limits.connections,
        threads=server.threads or engine_threads(),
        memory=parse_size(server.pool.memory),
        cache_disk=None if cache is None or cache.disk is None else Path(cache.disk),
        cache_disk_size=0 if cache is None or cache.disk_budget is None else parse_size(cache.disk_budget),
        workers=0 if workers is None else workers.count,
        worker_memory=0 if workers is None else parse_size(workers.memory),
        log=server.access_log,
        ca=None if roots == "system" else str(roots),
        uvloop=server.uvloop,
        has_application=server.app is not None or server.lane == "app",
    )


def _urls(said: Sequence[config.Origin | str] | str) -> list[str]:
    return [said] if isinstance(said, str) else [url if isinstance(url, str) else url.url for url in said]
