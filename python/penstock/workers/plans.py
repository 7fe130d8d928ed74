"""Descriptions of what a worker asks its parent for: relays, and subscriptions to topics.

A description is bytes. Equal terms have equal bytes, so that the parent makes a plan of them once.
"""

import weakref
from collections.abc import Hashable
from typing import Final, NamedTuple

from penstock._shared import Parent, Shared
from penstock.config import Subscriptions
from penstock.serving.relay_spec import RelaySpec

from . import messages
from .descriptions import SpecDescription, described_spec

__all__ = ["Plans", "Relay", "Topics", "read"]

# Descriptions that are kept for one object; more than that are made anew each time.
_MOST: Final = 1024


class Relay(NamedTuple):
    """A relay of a gateway's."""

    gateway: int | None
    """The number in the parent of the gateway that counts inspected responses; None if they are not."""
    spec: SpecDescription
    """What is fetched, and how."""


class Topics(NamedTuple):
    """Whose topics are subscribed to, and how subscribers are served."""

    hub: int
    """What the parent calls it."""
    subscriptions: Subscriptions


messages.allow(Relay, Topics)


class Plans:
    """The descriptions for one object of a worker: the relays of a gateway, or the subscriptions to a hub.

    Args:
        parent: carries them out.
        shared: the gateway or the hub.
    """

    def __init__(self, parent: Parent, shared: Shared) -> None:
        self._parent = parent
        # Weak: the object has its plans, and is dropped in the parent when nothing else has it.
        self._shared = weakref.ref(shared)
        self._known: dict[Hashable, bytes] = {}

    def describe(self, terms: Hashable) -> bytes:
        """The description of a `RelaySpec` or of `Subscriptions`, for `read`.

        The first one for given terms waits for the parent, if it has to declare something there.
        """
        known = self._known.get(terms)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[terms] = messages.dump(self._plan(terms))[messages.LENGTH :]
        return known

    def _plan(self, terms: Hashable) -> "Relay | Topics":
        shared = self._shared()
        assert shared is not None  # noqa: S101 (it asks)
        if isinstance(terms, Subscriptions):
            return Topics(self._parent.number(shared), terms)
        if not isinstance(terms, RelaySpec):
            raise TypeError(f"{type(terms).__name__} cannot be described")
        gateway = None if terms.inspect is None else self._parent.number(shared)
        return Relay(gateway, described_spec(terms, self._parent))


def read(description: bytes) -> Topics | Relay:
    """Read a description of `Plans.describe`.

    Raises:
        UnreadableError: it is no description, or describes what cannot be.
    """
    plan = messages.load(description)
    if isinstance(plan, Relay | Topics):
        return plan
    raise messages.UnreadableError(f"it is a {type(plan).__name__}")
