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
        """What `read` reads. The first of its kind waits for the parent, to declare origins.

        `route` is where the cache counts it, if there is `caching`.
        """
        key = (origin, caching, events, route)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            where = self._parent.number(origin) if isinstance(origin, Origins) else origin
            row = (where, self._unix, caching, route, events, self._framing.max_frame)
            known = self._known[key] = messages.dump(row)[messages.LENGTH :]
        return known


def read(
    description: bytes,
) -> tuple[Place | int, str | None, Caching | None, str, EventRelay | None, Events]:
    """What `Plans.describe` has described.

    Where from and by which Unix socket, how it is stored and where that is counted, how events are relayed and cut.

    Raises:
        UnreadableError: it is no description.
        ConfigurationError: it describes what cannot be.
    """
    where, unix, caching, route, events, max_event = messages.load(description)
    return where, unix, caching, route, events, Events(max_frame=max_event, blocks=True)
