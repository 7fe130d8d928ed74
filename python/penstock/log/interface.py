"""What a hub asks of what keeps its topics for several processes.

A source has an order of its own for each topic: it gives each event a position, `milliseconds-sequence` or
`partition:offset`, above all before. Each entry names the one before it, so that a reader that has that one knows
that nothing is missing between the two. A log is a source that a hub publishes to. All methods raise
`ConnectionFailedError` (HUB_UNAVAILABLE) if the source cannot be reached; it has then to be opened again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from penstock._field_docs import document
from penstock.exceptions import PenstockError, make_error

__all__ = [
    "NOTHING",
    "Entry",
    "Event",
    "Feed",
    "History",
    "Log",
    "LogStats",
    "Page",
    "Source",
    "order",
    "unavailable",
]

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


class Page(NamedTuple):
    """What follows on a position."""

    entries: Sequence[Entry]
    is_last: bool
    """There were no more when it was asked."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The right to append to a topic what one stream has, from its beginning to its end."""

    topic: str
    owner: str
    """The owner of the right: a text that no other feeder has."""
    farewell: Event
    """The farewell event for the death of the owner."""


class Source(Protocol):
    """Something that several processes follow. Used on one event loop."""

    async def open(self) -> None:
        """Connect. It can be opened again after it was closed."""

    async def close(self) -> None:
        """Close all connections. Idempotent; calls that wait for an answer fail."""

    def may_have(self, topic: str) -> bool:
        """Whether there can be a topic of that name. It is asked while it is closed as well."""

    async def watch(self, topics: Sequence[str]) -> None:
        """Have `receive` give what is published to them behind what `history` or `read` gives from now on."""

    async def unwatch(self, topics: Sequence[str]) -> None:
        """Have it give no more of that."""

    async def receive(self) -> list[tuple[str, Entry]]:
        """Wait for entries of topics that are watched, in their order. Some may be missing, and it does not end."""

    async def history(self, topic: str) -> History:
        """What there is of a topic, as far as a hub keeps it."""

    async def read(self, topic: str, after: str, count: int) -> Page:
        """The next entries behind `after`, at most `count`."""

    async def newest(self, topic: str) -> str:
        """A position that all entries are at or below, or `NOTHING`."""


class Log(Source, Protocol):
    """A source that is published to."""

    @property
    def lease(self) -> float:
        """Seconds that a feed stays whose owner is not heard of."""

    async def publish(self, topic: str, event: Event | None) -> str:
        """Append an event, or None for the topic's end, and give its position once the log has it.

        Cancellation leaves it open whether it was appended.

        Raises:
            StateError: the topic has been finished (TOPIC_FINISHED).
        """

    async def has(self, topic: str) -> bool:
        """Whether a topic has entries or a feeder."""

    async def claim(self, feed: Feed) -> None:
        """Have only its owner feed its topic.

        Raises:
            StateError: another one does (BUSY), or the topic has been finished (TOPIC_FINISHED).
        """

    async def append(self, feed: Feed, number: int, event: Event | None) -> None:
        """Append the event of that number, the first of which is 1; None for the topic's end, and for that of the feed.

        Whatever was asked for before is there once, and at its place: it can be asked for again.

        Raises:
            StateError: the feed has ended: its owner was taken for dead (BUSY), or the topic has been finished
                (TOPIC_FINISHED).
        """

    async def renew(self, feed: Feed) -> None:
        """Say that the owner of a feed is alive; `append` says so too. Raises as `append`."""

    async def bury(self, feed: Feed | None = None) -> list[str]:
        """End the topics of feeds whose owners are dead, or of `feed`, with their farewells. Gives their names."""


def order(position: str) -> tuple[int, int]:
    """What positions are compared by."""
    first, _, second = position.partition(":" if ":" in position else "-")
    return int(first), int(second)


def unavailable(what: str, error: BaseException) -> PenstockError:
    """The error for what a log, or the way there, has failed."""
    text = "it did not answer in time" if isinstance(error, TimeoutError) and not str(error) else str(error)
    return make_error("HUB_UNAVAILABLE", f"{what}: {text or type(error).__name__}")


@dataclass(frozen=True, slots=True)
class LogStats:
    """How a hub fares with the log that it shares."""

    state: Literal["ready", "away"]
    """Away: it cannot be reached, or has not been yet."""
    error: str | None
    """Why it is away."""
    topics: int
    """Topics that are followed."""
    behind: int
    """Those of them that wait for room in the hub's memory, or for what they lack."""
    published: int
    """Events that it has confirmed."""
    refused: int
    """Events that it has not: publishing failed."""
    delivered: int
    """Events that went to this hub's subscribers alone, while it was away."""
    received: int
    """Entries that came from it, of this hub's own events as well."""
    gaps: int
    """Times that a topic's entries did not follow on what was there."""
    connections: int
    """Times that it was connected to."""


document((LogStats,))
