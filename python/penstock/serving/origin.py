"""One origin, relayed to by the engine alone: what `penstock serve --origin` runs. No request wakes Python.

The first SIGTERM or SIGINT stops accepting and lets requests finish until the deadline; what is left then is cut off so
that no client takes it for whole (`shutdown` has the rest).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock import _native
from penstock.config import AccessLog, Caching, Edge, Forwarding, RouteLimits, Status
from penstock.engine import Engine
from penstock.origins import Origins, place_of

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
    listen: tuple[str, int] | str,
    *,
    engine: Engine,
    edge: Edge,
    drain: float,
    access_log: AccessLog | None,
    status: Status | None,
    ready: Callable[[str, str | None], None],
) -> None:
    """Carry out `spec` until SIGTERM or SIGINT. Requests whose path has dot segments are refused (NO_ROUTE).

    Args:
        spec: what is done with every request.
        listen: host and port, or the path of a Unix socket.
        engine: what serves.
        edge: what clients may take.
        drain: seconds that requests under way get to finish.
        access_log: where a line for each request goes; None for nowhere.
        status: where pages about the engine are served; None for nowhere.
        ready: called with the URL when connections are accepted, and with that of the pages.

    Raises:
        SystemFailureError: the address cannot be listened on.
        ConfigurationError: there is caching, and `engine` has no cache.
    """
    serving: list[Listening] = []
    stop = stop_signal(reload=reload_of(edge, serving))
    host, port, path = ("", 0, listen) if isinstance(listen, str) else (*listen, None)
    where = Where(host, port, path, None)
    addresses = await where.addresses()
    route = _native.Route(spec, handles_of(spec, engine, _native.Counts), None, None, None)
    lane = make_lane(engine, None, edge, path)
    listening = Listening(engine, lane, edge, [route], access_log, status)
    serving.append(listening)
    listening.tell = say_waiting
    listening.listen(where, addresses)
    try:
        ready(listening.url, None if listening.pages is None else listening.pages.url)
        _log.info("%s: stopping, requests have %g s to finish", await stop, drain)
    finally:
        listening.close()
        await listening.finish(asyncio.get_running_loop().time() + drain)
