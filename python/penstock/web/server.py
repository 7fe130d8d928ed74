"""Serving one application until a signal, and ending it well: what `penstock serve` runs.

The first SIGTERM or SIGINT stops accepting and lets requests finish until the deadline; what is left then is
cut off so that no client takes it for whole (`shutdown` has the rest).
"""

import asyncio
import logging
from typing import Final

from aiohttp import web

from penstock.config import AccessLog, Edge, Status
from penstock.config.listen import Listen
from penstock.engine import Engine
from penstock.serving.announcer import Announcer
from penstock.serving.listener import Where, reload_of, scheme_of, url_of
from penstock.serving.shutdown import say_waiting, stop_signal
from penstock.serving.upgrade import Upgrades

from .site import Site

__all__ = ["make_runner", "serve"]

_log: Final = logging.getLogger("penstock.serve")

# For handlers that have been cut off to end, and for the application's own cleanup.
_GRACE_SECONDS: Final = 5.0


async def serve(
    app: web.Application,
    listen: Listen,
    *,
    engine: Engine | None,
    edge: Edge | None = None,
    drain: float,
    access_log: AccessLog | None,
    decode_requests: bool,
    status: Status | None,
    announcer: Announcer,
) -> None:
    """Serve `app` until SIGTERM or SIGINT.

    Args:
        app: what to serve.
        listen: host and port, the path of a Unix socket, or sockets that are there already.
        engine: what serves; None for the one that the process shares.
        edge: what clients may take.
        drain: seconds that requests under way get to finish.
        access_log: where a line for each request goes; None for nowhere.
        decode_requests: whether aiohttp decodes compressed request bodies before the application sees them.
        status: where pages about the engine are served; None for nowhere.
        announcer: told when connections are accepted, and what happens then.

    Raises:
        SystemFailureError: the address cannot be listened on.
    """
    runner = make_runner(app, drain=drain, decode_requests=decode_requests)
    edge = edge or Edge()
    sites: list[Site] = []
    # Before the application starts, which may take long.
    stop = stop_signal(reload=reload_of(edge, sites, announcer.reloaded), announcer=announcer)
    await runner.setup()
    try:
        host, port, path, sockets = Where.of(listen)
        site = Site(
            runner,
            host,
            port,
            path=path,
            sock=sockets or None,
            engine=engine,
            edge=edge,
            access_log=access_log,
            status=status,
        )
        site.tell = say_waiting(announcer)
        sites.append(site)
        await site.start()
        assert site.engine is not None  # noqa: S101 (it is started)
        announcer.ready([_url(runner, edge)], site.status_url, site.engine, (status or Status()).hung)
        _log.info("%s: stopping, requests have %g s to finish", await stop, drain)
    finally:
        await _end(runner, announcer.upgrades, drain)


def make_runner(app: web.Application, *, drain: float, decode_requests: bool) -> web.AppRunner:
    """What runs `app`, and logs no requests: the site does. The arguments are those of `serve`."""
    return web.AppRunner(app, access_log=None, auto_decompress=decode_requests, shutdown_timeout=drain)


def _url(runner: web.AppRunner, edge: Edge) -> str:
    address = runner.addresses[0]
    return f"unix:{address}" if isinstance(address, str) else url_of(scheme_of(edge), *address[:2])


async def _end(runner: web.AppRunner, upgrades: Upgrades, drain: float) -> None:
    """Stop accepting, wait for requests until the deadline, cut off the rest."""
    try:
        async with asyncio.timeout(drain + _GRACE_SECONDS):
            for site in runner.sites:
                await site.stop()
            # The application is not shut down while it answers what comes on these.
            await asyncio.to_thread(upgrades.wait_for_clients, drain)
            await runner.cleanup()
    except TimeoutError:
        _log.warning("handlers did not end within %g s of being cut off", _GRACE_SECONDS)
