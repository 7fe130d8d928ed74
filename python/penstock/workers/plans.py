"""What the parent is told of what a worker asks it for: of a relay where from and how, of subscriptions to what and how.

A description is bytes that are the same for all of a kind, so that the parent makes a plan of it once.
"""

from typing import Final, NamedTuple

from penstock._shared import Parent, Shared
from penstock.config import Caching, EventRelay, Inspection, Subscriptions
from penstock.config.checks import Size
from penstock.framing import Events
from penstock.origins import Origins, Place

from . import messages

__all__ = ["Inspected", "Plans", "Relay", "Topics", "TopicsPlans", "read"]

# More kinds than that are described anew each time.
_MOST: Final = 1024

Inspected = tuple[int, Inspection]
"""What the gateway is called in the parent that counts what is seen, and what that is."""


class Relay(NamedTuple):
    """Where a response is fetched from, and how."""

    origin: Place | int
    """An origin, or what the parent calls several."""
    unix: str | None
    """The Unix socket of a single one."""
    caching: Caching | None
    route: str
    """Where the cache counts it, or the gateway that inspects it."""
    events: EventRelay | None
    max_event: Size
    inspected: Inspected | None


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
            plan = Relay(where, self._unix, caching, route, events, self._framing.max_frame, seen)
            known = self._known[key] = messages.dump(plan)[messages.LENGTH :]
        return known


class Topics(NamedTuple):
    """Whose topics are subscribed to, and how subscribers are served."""

    hub: int
    """What the parent calls it."""
    subscriptions: Subscriptions


messages.allow(Relay, Topics)


class TopicsPlans:
    """The descriptions of subscriptions to a hub's topics, in a worker."""

    def __init__(self) -> None:
        self._known: dict[Subscriptions, bytes] = {}

    def describe(self, hub: int, subscriptions: Subscriptions) -> bytes:
        """What `read` reads. `hub` is what the parent calls it."""
        known = self._known.get(subscriptions)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            plan = Topics(hub, subscriptions)
            known = self._known[subscriptions] = messages.dump(plan)[messages.LENGTH :]
        return known


def read(description: bytes) -> Topics | Relay:
    """What `Plans.describe` or `TopicsPlans.describe` has described.

    Raises:
        UnreadableError: it is no description, or describes what cannot be.
    """
    plan = messages.load(description)
    if isinstance(plan, Relay | Topics):
        return plan
    raise messages.UnreadableError(f"it is a {type(plan).__name__}")
