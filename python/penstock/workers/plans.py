"""What the parent is told of what a worker asks it for: of a relay where from and how, of subscriptions to what and how.

A description is bytes that are the same for all of a kind, so that the parent makes a plan of it once.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock._shared import Parent, Shared
from penstock.config import Subscriptions

from . import messages
from .described import SpecDescription, described_spec

if TYPE_CHECKING:
    from penstock.web.relay_spec import RelaySpec

__all__ = ["Plans", "Relay", "Topics", "TopicsPlans", "read"]

# More kinds than that are described anew each time.
_MOST: Final = 1024


class Relay(NamedTuple):
    """A relay of a gateway's."""

    gateway: int | None
    """The number in the parent of the gateway that counts inspected responses; None if they are not."""
    spec: SpecDescription
    """What is fetched, and how."""


class Plans:
    """The descriptions of a gateway's relays, in a worker.

    Args:
        parent: carries them out.
        gateway: orders them.
    """

    def __init__(self, parent: Parent, gateway: Shared) -> None:
        self._parent = parent
        self._gateway = gateway
        self._known: dict[RelaySpec, bytes] = {}

    def describe(self, spec: "RelaySpec") -> bytes:
        """What `read` reads. The first of its kind waits for the parent, to declare what it needs."""
        known = self._known.get(spec)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            gateway = None if spec.inspect is None else self._parent.number(self._gateway)
            plan = Relay(gateway, described_spec(spec, self._parent))
            known = self._known[spec] = messages.dump(plan)[messages.LENGTH :]
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
