"""What the parent is told of a relay that a worker asks it for: where from, and how.

A description is bytes that are the same for all relays of a kind, so that the parent makes a plan of it once.
"""

from typing import Final

from penstock._shared import Parent
from penstock.config import Caching, EventRelay
from penstock.framing import Events
from penstock.origins import Origins, Place

from . import messages

__all__ = ["Plans", "read"]

# More kinds of relays than that are described anew each time.
_MOST: Final = 1024

_Key = tuple[Place | Origins, Caching | None, EventRelay | None, str]


class Plans:
    """The descriptions of a gateway's relays, in a worker.

    Args:
        parent: who fetches.
        unix: the Unix socket of an origin that is a single one.
        framing: how event streams are cut.
    """

    def __init__(self, parent: Parent, unix: str | None, framing: Events) -> None:
        self._parent = parent
        self._unix = unix
        self._framing = framing
        self._known: dict[_Key, bytes] = {}

    def describe(
        self, origin: Place | Origins, caching: Caching | None, events: EventRelay | None, route: str
    ) -> bytes:
        """What `read` reads. The first of its kind waits for the parent, to declare origins."""
        # What comes of a cache is counted by route; without one it is of no interest which that is.
        route = "" if caching is None else route
        key = (origin, caching, events, route)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            where = self._parent.number(origin) if isinstance(origin, Origins) else origin
            row = (where, self._unix, caching, events, self._framing.max_frame, route)
            known = self._known[key] = messages.dump(row)[messages.LENGTH :]
        return known


def read(
    description: bytes,
) -> tuple[Place | int, str | None, Caching | None, EventRelay | None, Events, str]:
    """What `Plans.describe` has described: where from, by which Unix socket, how it is kept, relayed, cut and counted.

    Raises:
        UnreadableError: it is no description.
        ConfigurationError: it describes what cannot be.
    """
    where, unix, caching, events, max_event, route = messages.load(description)
    return where, unix, caching, events, Events(max_frame=max_event, blocks=True), route
