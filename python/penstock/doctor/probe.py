"""Checks of origins: each is asked once, over penstock's own client."""

import time
from collections.abc import AsyncIterator

from penstock import config
from penstock.engine import Engine
from penstock.exceptions import PenstockError

from .finding import FAILURE, OK, WARNING, Finding
from .plan import Plan

__all__ = ["check_origins"]

_SECONDS = 10.0


async def check_origins(plan: Plan) -> AsyncIterator[Finding]:
    """Ask each origin for its root by HEAD: the name, the connection, TLS and an answer."""
    tls = config.OriginTls(roots="system" if plan.ca is None else plan.ca)
    async with Engine(memory="8MiB", threads=1, tls=tls, timeouts=config.Timeouts(total=_SECONDS)) as engine:
        for origin in plan.origins:
            yield await _ask(engine, origin)


async def _ask(engine: Engine, origin: str) -> Finding:
    name, begun = f"origin {origin}", time.monotonic()
    try:
        async with engine.request("HEAD", origin) as response:
            status = response.status
    except PenstockError as error:
        return Finding(
            name,
            FAILURE,
            str(error),
            "an answer",
            "every request that is relayed there would fail",
            "look whether it runs, and whether a firewall or a wrong name lies between",
        )
    seen = f"{status} after {time.monotonic() - begun:.3f} s"
    if status >= 500:  # noqa: PLR2004 (a server's own failures begin there)
        return Finding(name, WARNING, seen, "a status below 500", "it answers, and fails", "look at its log")
    return Finding(name, OK, seen)
