"""What a hub asks of a log that several processes share.

A log has an order of its own for each topic: it gives each event a position, `milliseconds-sequence`, above all before.
Each entry names the one before it, so that whoever has that one knows that nothing is missing between the two. All
methods raise `ConnectionFailedError` (HUB_UNAVAILABLE) where the log cannot be reached; it has then to be opened again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

__all__ = ["NOTHING", "Entry", "Event", "History", "Log", "order"]

NOTHING: Final = "0-0"
"""The position before all others."""


@dataclass(frozen=True, slots=True)
class Event:
    """What is published."""

    data: str
    type: str | None = None
    id: str | None = None
    """What it is called on the wire in place of its position."""
    key: str | None = None
    retry: int | None = None
    """Milliseconds after which a client that was disconnected is to come back."""


class Entry(NamedTuple):
    """What a topic has at a position."""

    position: str
    before: str | None
    """The position of the entry before it, or `NOTHING`; None if it does not say."""
    event: Event | None
    """None: something that is no event."""
    is_end: bool = False
    """The topic has been finished. What follows, follows on `NOTHING`, and is another topic of the same name."""


class History(NamedTuple):
    """What there is of a topic, as far as a hub keeps it."""

    floor: str
    """The position of the entry before the first: nothing up to that is here."""
    entries: Sequence[Entry]


class Log(Protocol):
    """A log that several processes share. Used on one event loop."""

    async def open(self) -> None:
        """Connect. It can be opened again after it was closed."""

    async def close(self) -> None:
        """Let go of what is open. Idempotent; what waits for an answer fails."""

    async def publish(self, topic: str, event: Event | None) -> str:
        """Append an event, or None for the topic's end, and give its position once the log has it.

        Cancellation leaves it open whether it was appended.

        Raises:
            StateError: the topic has been finished (TOPIC_FINISHED).
        """

    async def watch(self, topics: Sequence[str]) -> None:
        """Have `receive` give what is published to them from the return of this on."""

    async def unwatch(self, topics: Sequence[str]) -> None:
        """Have it give no more of that."""

    async def receive(self) -> list[tuple[str, Entry]]:
        """Wait for entries of topics that are watched, in their order. Some may be missing, and it does not end."""

    async def history(self, topic: str) -> History:
        """What there is of a topic, as far as a hub keeps it."""

    async def read(self, topic: str, after: str, count: int) -> list[Entry]:
        """The next entries behind `after`: fewer than `count` only if there are no more."""

    async def newest(self, topic: str) -> str:
        """The position of the newest entry, or `NOTHING`."""


def order(position: str) -> tuple[int, int]:
    """What positions are compared by."""
    milliseconds, _, sequence = position.partition("-")
    return int(milliseconds), int(sequence)
