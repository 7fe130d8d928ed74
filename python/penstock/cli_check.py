"""`penstock check`: reads a configuration file, and prints its faults, or what would be served.

It opens no socket and takes no memory.
"""

import json
from typing import Any

import click

from .cli_config import Configuration
from .cli_serving import planned
from .config.checks import in_words, parse_size
from .origins import Origins
from .serving.plan import Plan, RoutePlan, SitePlan

__all__ = ["check_file"]


def check_file(path: str, *, as_json: bool) -> None:
    """Print what the file says.

    Raises:
        click.ClickException: it has faults.
    """
    plan = planned(Configuration(path))
    click.echo(json.dumps(_object(plan), indent=2) if as_json else _text(path, plan))


def _object(plan: Plan) -> dict[str, Any]:
    server = plan.server
    cache = server.cache
    return {
        "app": server.app,
        "workers": None if server.workers is None else server.workers.count,
        "memory": server.pool.memory,
        "cache": None if cache is None else cache.memory,
        "status": None if server.status is None else server.status.listen,
        "sites": [_site(site) for site in plan.sites],
        "gates": {name: type(gate.said.verifying).__name__ for name, gate in plan.gates.items()},
    }


def _site(site: SitePlan) -> dict[str, Any]:
    return {
        "listen": site.listen,
        "tls": site.edge.tls is not None,
        "routes": [_route(route) for route in site.routes],
    }


def _route(route: RoutePlan) -> dict[str, Any]:
    spec = route.spec
    return {
        "prefix": spec.prefix,
        "host": route.host,
        "name": spec.name,
        "origins": _urls(route),
        "gate": route.gate,
        "cached": spec.caching is not None,
    }


def _urls(route: RoutePlan) -> list[str]:
    origin = route.spec.origin
    if isinstance(origin, Origins):
        return [each.url for each in origin.origins]
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return [f"{origin.scheme}://{host}:{origin.port}{origin.base}"]


def _text(path: str, plan: Plan) -> str:
    server = plan.server
    lines = [f"{path}: no faults"]
    if server.app is not None:
        workers = "" if server.workers is None else f" in {server.workers.count} worker processes"
        lines.append(f"{server.app}{workers}")
    for site in plan.sites:
        lines.append(f"{site.listen}{', TLS' if site.edge.tls is not None else ''}")
        lines += [f"  {_line(route)}" for route in site.routes]
    lines.append(f"memory {in_words(parse_size(server.pool.memory))}")
    if server.cache is not None:
        lines[-1] += f", of it {in_words(parse_size(server.cache.memory))} for the cache"
    return "\n".join(lines)


def _line(route: RoutePlan) -> str:
    spec = route.spec
    parts = [f"{route.host or ''}{spec.prefix} to {', '.join(_urls(route))}"]
    if route.gate is not None:
        parts.append(f"gate {route.gate}")
    if spec.caching is not None:
        parts.append("cached")
    return ", ".join(parts)
