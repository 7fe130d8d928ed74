"""`penstock doctor`: has all checks made, and shows what they found."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from penstock import config
from penstock._cores import engine_threads
from penstock.cli_options import errors_of_options
from penstock.cli_serving import Front, front_of
from penstock.config.checks import parse_size
from penstock.serving.inherited import Listen

from .files import check_files
from .finding import Finding
from .kernel import check_machine
from .machine import Machine
from .plan import Plan
from .probe import check_origins
from .report import as_json, as_text, status

__all__ = ["diagnose"]


def diagnose(
    app: str | None,
    origin: tuple[str, ...],
    listen: Listen,
    options: Mapping[str, Any],
    *,
    clients: int,
    probe: bool,
    as_object: bool,
) -> int:
    """Make all checks, print what they found, and return the exit status."""
    plan = plan_of(app, origin, front_of(listen, options), options, clients)
    machine = Machine()
    findings = [*check_machine(machine, plan), *check_files(machine, plan)]
    if probe:
        findings += asyncio.run(_probed(plan))
    click.echo(as_json(findings) if as_object else as_text(findings))
    return status(findings)


async def _probed(plan: Plan) -> list[Finding]:
    return [finding async for finding in check_origins(plan)]


def plan_of(
    app: str | None, origin: tuple[str, ...], front: Front, options: Mapping[str, Any], clients: int
) -> Plan:
    """What the options say. An application's own engine is not looked at: it has the default size here."""
    with errors_of_options():
        pool = config.Pool(memory=options["memory"])
        workers = options["workers"] or 0
        worker_memory = parse_size(options["worker_memory"])
    disk, size = options["cache_disk"], options["cache_disk_size"]
    return Plan(
        clients=clients,
        listen=front.listen,
        edge=front.edge,
        status=front.status,
        origins=origin,
        connections=options["connections"],
        threads=options["threads"] or engine_threads(),
        memory=parse_size(pool.memory),
        cache_disk=None if disk is None else Path(disk),
        cache_disk_size=0 if size is None else parse_size(size),
        workers=workers,
        worker_memory=worker_memory,
        log=front.access_log,
        ca=options["ca"],
        uvloop=options["uvloop"],
        has_application=app is not None or options["lane"] == "app",
    )
