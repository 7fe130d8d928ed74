"""Routes that the engine answers alone: what `penstock serve` runs without an application. No request wakes Python.

The first SIGTERM or SIGINT stops accepting and lets requests finish until the deadline; what is left then is cut off so
that no client takes it for whole (`shutdown` has the rest). SIGHUP has the configuration and the files of certificates
read again: the new routes are put in place at once, for the next request of each connection, and requests in progress
end by the old ones. A configuration with faults changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock import _native
from penstock._awaited import awaited_at_start
from penstock.config import AccessLog, Server, Status
from penstock.configuration import FaultyConfigurationError
from penstock.engine import Engine
from penstock.exceptions import PenstockError, make_error

from .announcer import Announcer
from .listener import Listening, Where, make_lane
from .plan import Plan, SitePlan
from .shutdown import say_waiting, stop_signal

__all__ = ["Reload", "serve", "tell_applied", "tell_failed"]

_log: Final = logging.getLogger("penstock.serve")

# What is read again. Everything else is of the engine, its listeners and the process.
_CHANGING: Final = frozenset(("routes", "origins", "gates", "caching", "forwarding", "timeouts"))

Reload = Callable[[Plan], Plan]
"""Reads the configuration again, and carries over what has not changed; raises `FaultyConfigurationError`."""


@dataclass(slots=True)
class _Served:
    """A site that is served."""

    listen: str
    listening: Listening


async def serve(
    plan: Plan,
    *,
    engine: Engine,
    access_log: AccessLog | None,
    status: Status | None,
    announcer: Announcer,
    read: Reload | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Requests that match no route are refused (NO_ROUTE).

    Args:
        plan: the sites and their routes.
        engine: what serves.
        access_log: where a line for each request goes; None for nowhere.
        status: where pages about the engine are served; None for nowhere.
        announcer: told when connections are accepted, and what happens then.
        read: called at SIGHUP. None: only the files of certificates are read again.

    Raises:
        SystemFailureError: an address cannot be listened on.
        ConfigurationError: there is caching, and `engine` has no cache.
    """
    server = _Serving(plan, engine, access_log, announcer, read)
    is_secure = any(site.edge.tls is not None for site in plan.sites)
    reload = server.reload if read is not None or is_secure else None
    stop = stop_signal(reload=reload, announcer=announcer)
    try:
        await server.start(status)
        _log.info("%s: stopping, requests have %g s to finish", await stop, plan.server.drain)
    finally:
        await server.end(plan.server.drain)


class _Serving:
    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        access_log: AccessLog | None,
        announcer: Announcer,
        read: Reload | None,
    ) -> None:
        self._plan = self._first = plan
        self._engine = engine
        self._access_log = access_log
        self._announcer = announcer
        self._read = read
        self._sites: list[_Served] = []
        self._reloading: asyncio.Task[str | None] | None = None
        self._again = False

    async def start(self, status: Status | None) -> None:
        """Listen at all sites: none accepts before all of them are there."""
        wheres = []
        for site in self._plan.sites:
            where = Where.of(site.place)
            wheres.append((where, await where.addresses()))
            lane = make_lane(self._engine, None, site.edge, where.unix())
            routes = self._plan.natives(site, self._engine)
            pages = status if site is self._plan.sites[0] else None
            listening = Listening(self._engine, lane, site.edge, routes, self._access_log, pages)
            listening.tell = say_waiting(self._announcer)
            self._sites.append(_Served(site.listen, listening))
        _check_shared([where for where, _ in wheres])
        await awaited_at_start(asyncio.get_running_loop())
        for served, (where, addresses) in zip(self._sites, wheres, strict=True):
            served.listening.listen(where, addresses, where.close)
        first = self._sites[0].listening
        urls = [served.listening.url for served in self._sites]
        hung = (status or Status()).hung
        self._announcer.ready(urls, None if first.pages is None else first.pages.url, self._engine, hung)

    async def end(self, drain: float) -> None:
        """Accept no more, and end the rest after `drain` seconds at the latest."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})
        for site in self._sites:
            site.listening.close()
        deadline = asyncio.get_running_loop().time() + drain
        await asyncio.gather(*(site.listening.finish(deadline) for site in self._sites))

    def reload(self) -> None:
        """Read the configuration and the files of certificates again; again after it, if that is under way."""
        for site in self._sites:
            site.listening.reload_tls()
        if self._read is None:
            self._announcer.reloaded()
            return
        if self._reloading is not None:
            self._again = True
            return
        self._reloading = asyncio.get_running_loop().create_task(self._reload(self._read))
        self._reloading.add_done_callback(self._reloaded)

    def _reloaded(self, task: asyncio.Task[str | None]) -> None:
        self._reloading = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            _log.error("SIGHUP: the configuration was not replaced", exc_info=error)
            failure: str | None = f"the configuration was not replaced: {error}"
        else:
            failure = task.result()
        if self._again:
            self._again = False
            self.reload()
        else:
            self._announcer.reloaded(failure)

    async def _reload(self, read: Reload) -> str | None:
        """Have the configuration as it is now served; why it is not."""
        try:
            plan = read(self._plan)
            tables = [self._routes(plan, site) for site in self._sites]
        except FaultyConfigurationError as error:
            return tell_failed(self._engine, [str(fault) for fault in error.faults])
        except PenstockError as error:
            return tell_failed(self._engine, [str(error)])
        # Keys that new gates fetch: no request meets a gate without its keys.
        await awaited_at_start(asyncio.get_running_loop())
        for site, routes in zip(self._sites, tables, strict=True):
            if routes is not None:
                site.listening.set_routes(routes)
        self._plan = plan
        tell_applied(self._first, plan, self._engine)
        _log.info("SIGHUP: the configuration was read again, and its routes are in place")
        return None

    def _routes(self, plan: Plan, served: _Served) -> list[_native.Route] | None:
        site = _site_at(plan, served.listen, is_first=served is self._sites[0])
        return None if site is None else plan.natives(site, self._engine)


def tell_applied(first: Plan, plan: Plan, engine: Engine) -> None:
    """Count that `plan` is served, and log what in it differs from the start and takes a restart."""
    engine.native.note_reload(True)
    for name in _fixed(first, plan):
        _log.warning("SIGHUP: %s differs from the start, and takes a restart", name)


def tell_failed(engine: Engine, faults: Sequence[str]) -> str:
    """Count that the configuration was not replaced, and log why; the same in a line."""
    engine.native.note_reload(False)
    for fault in faults:
        _log.error("%s", fault)
    _log.error("SIGHUP: the configuration has faults, and the earlier one stays")
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"the configuration has faults: {faults[0]}{more}"


def _check_shared(wheres: Sequence[Where]) -> None:
    """Refuse a socket that two sites have, by its name and by its number: each would get some of its clients."""
    numbers = [each.fileno() for where in wheres for each in where.sockets]
    for number in numbers:
        if numbers.count(number) > 1:
            raise make_error("LISTEN_FAILED", f"fd:{number}: two sites listen to this socket")


def _site_at(plan: Plan, listen: str, *, is_first: bool) -> SitePlan | None:
    """The site of a new configuration that has the place of a running one."""
    if is_first:
        return plan.sites[0]
    return next((site for site in plan.sites[1:] if site.listen == listen), None)


def _fixed(before: Plan, after: Plan) -> list[str]:
    """The settings that differ, and that a running server does not change."""
    names = [
        name
        for name in Server.__dataclass_fields__
        if name not in _CHANGING
        and name != "sites"
        and getattr(before.server, name) != getattr(after.server, name)
    ]
    # By what the engine was given of origins, whatever their names.
    if before.origin_tls.certificates != after.origin_tls.certificates:
        names.append("certificate of an origin")
    if before.origin_http2.origins != after.origin_http2.origins:
        names.append("http2 of an origin")
    known = {site.listen: site.edge for site in before.sites[1:]}
    new = {site.listen: site.edge for site in after.sites[1:]}
    return names + [
        f"the site at {listen}" for listen in {**known, **new} if known.get(listen) != new.get(listen)
    ]
