"""One origin, relayed to by the engine alone: what `penstock serve --origin` runs. No request wakes Python.

The first SIGTERM or SIGINT stops accepting and lets requests finish until the deadline; what is left then is cut off so
that no client takes it for whole (`shutdown` has the rest).
"""

import asyncio
import logging
from typing import Final

from penstock import _native
from penstock.config import AccessLog, Caching, Edge, Forwarding, RouteLimits, Status
from penstock.engine import Engine
from penstock.origins import Origins, place_of

from .announcer import Announcer
from .inherited import Listen
from .listener import Listening, Where, make_lane, reload_of
from .relay_spec import NO_EDITS, RelaySpec, handles_of
from .shutdown import say_waiting, stop_signal

__all__ = ["relay_of_all", "serve"]

_log: Final = logging.getLogger("penstock.serve")


def relay_of_all(origin: str | Origins, forwarding: Forwarding, caching: Caching | None) -> RelaySpec:
    """The relay of every request to `origin`.

    Raises:
        ConfigurationError: `origin` makes no URL.
    """
    place = place_of(origin)
    return RelaySpec(
        name="/",
        origin=place,
        unix=None,
        prefix="/",
        replacement=f"{place.base}/",
        forwarding=forwarding,
        timeouts=None,
        limits=RouteLimits(),
        request=NO_EDITS,
        response=NO_EDITS,
        drain=None,
        events=None,
        max_event=None,
        caching=caching,
        inspect=None,
    )


async def serve(
    spec: RelaySpec,
    listen: Listen,
    *,
    engine: Engine,
    edge: Edge,
    drain: float,
    access_log: AccessLog | None,
    status: Status | None,
    announcer: Announcer,
) -> None:
    """Carry out `spec` until SIGTERM or SIGINT. Requests whose path has dot segments are refused (NO_ROUTE).

    Args:
        spec: what is done with every request.
        listen: host and port, the path of a Unix socket, or sockets that are there already.
        engine: what serves.
        edge: what clients may take.
        drain: seconds that requests under way get to finish.
        access_log: where a line for each request goes; None for nowhere.
        status: where pages about the engine are served; None for nowhere.
        announcer: told when connections are accepted, and what happens then.

    Raises:
        SystemFailureError: the address cannot be listened on.
        ConfigurationError: there is caching, and `engine` has no cache.
    """
    serving: list[Listening] = []
    stop = stop_signal(reload=reload_of(edge, serving, announcer.reloaded), announcer=announcer)
    where = Where.of(listen)
    addresses = await where.addresses()
    route = _native.Route(spec, handles_of(spec, engine, _native.Counts), None, None, None)
    lane = make_lane(engine, None, edge, where.unix())
    listening = Listening(engine, lane, edge, [route], access_log, status)
    serving.append(listening)
    listening.tell = say_waiting(announcer)
    listening.listen(where, addresses, where.close)
    try:
        pages = None if listening.pages is None else listening.pages.url
        announcer.ready(listening.url, pages, engine, (status or Status()).hung)
        _log.info("%s: stopping, requests have %g s to finish", await stop, drain)
    finally:
        listening.close()
        await listening.finish(asyncio.get_running_loop().time() + drain)
