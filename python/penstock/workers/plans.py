"""What the parent is told of a relay that a worker asks it for: where from, and how.

A description is bytes that are the same for all relays of a kind, so that the parent makes a plan of it once.
"""

from typing import Final

from penstock._shared import Parent, Shared
from penstock.config import Caching, EventRelay, Inspection
from penstock.framing import Events
from penstock.origins import Origins, Place

from . import messages

__all__ = ["Inspected", "Plans", "read"]

# More kinds of relays than that are described anew each time.
_MOST: Final = 1024

Inspected = tuple[int, Inspection]
"""What the gateway is called in the parent that counts what is seen, and what that is."""

_Key = tuple[Place | Origins, Caching | None, EventRelay | None, str, Inspection | None]


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
        self,
        origin: Place | Origins,
        caching: Caching | None,
        events: EventRelay | None,
        route: str,
        inspect: tuple[Shared, Inspection] | None = None,
    ) -> bytes:
        """What `read` reads. The first of its kind waits for the parent, to declare what it needs.

        `route` is where the cache counts it, or the gateway beside the inspection, if there is one of them.
        """
        key = (origin, caching, events, route, None if inspect is None else inspect[1])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            where = self._parent.number(origin) if isinstance(origin, Origins) else origin
            seen = None if inspect is None else (self._parent.number(inspect[0]), inspect[1])
            row = (where, self._unix, caching, route, events, self._framing.max_frame, seen)
            known = self._known[key] = messages.dump(row)[messages.LENGTH :]
        return known


def read(
    description: bytes,
) -> tuple[Place | int, str | None, Caching | None, str, EventRelay | None, Events, Inspected | None]:
    """What `Plans.describe` has described.

    Where from and by which Unix socket, how it is stored and where that is counted, how events are relayed and cut, and
    what is inspected for which gateway.

    Raises:
        UnreadableError: it is no description.
        ConfigurationError: it describes what cannot be.
    """
    where, unix, caching, route, events, max_event, inspected = messages.load(description)
    return where, unix, caching, route, events, Events(max_frame=max_event, blocks=True), inspected
