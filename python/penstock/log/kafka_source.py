"""Partitions of Kafka as topics: `TOPIC/PARTITION`, whose events stand at `PARTITION:OFFSET`.

The offsets of a partition rise, with holes: where records were compacted away, where a transaction ended or was given
up, and where a record has no value, which is an order to compaction and no event. What was read behind an entry is
therefore what follows on it, and a loss shows in the bounds alone: a partition that begins after the offset that is
asked for has lost what lay between, and one that ends before it is not the one that was.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition

from penstock.config import History as Kept
from penstock.config import KafkaLog
from penstock.exceptions import make_error

from .interface import NOTHING, Entry, Event, History, Page, unavailable
from .kafka_link import KafkaLink, Records

__all__ = ["KafkaPartitions", "event_of"]

# What Kafka numbers its partitions with fits, in the only way that it is written.
_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)/(0|[1-9][0-9]{0,8})", re.ASCII)

# Seconds between two looks whether Kafka answers and has what there was not, unless it may say nothing for less.
_LOOK: Final = 1.0

# What an event takes on the wire beside its own parts.
_LINES: Final = 64

# Seconds in which several partitions that are to be followed are taken together: each time, all begin anew. Arbitrary.
_TOGETHER: Final = 0.01


@dataclass(slots=True)
class _Place:
    """Where a partition is followed from."""

    offset: int
    before: str
    """The position of the entry before that."""


class KafkaPartitions:
    """The `Source` of a hub that keeps `kept` of each topic."""

    def __init__(self, settings: KafkaLog, kept: Kept) -> None:
        self._settings = settings
        self._kept = kept
        self._link: KafkaLink | None = None
        # Of the watched partition. None: no task has read to its end yet, or the partition does not exist.
        self._places: dict[str, _Place | None] = {}
        self._missing: set[str] = set()
        self._following: asyncio.TimerHandle | None = None
        self._followed = asyncio.Event()

    async def open(self) -> None:
        """See `Source.open`."""
        try:
            link = self._link = KafkaLink(self._settings)
        except (TypeError, ValueError) as error:
            # What may be said of TLS and SASL is aiokafka's to judge, and it does so on a running loop.
            raise unavailable("KafkaLog.connection", error) from None
        await link.open()

    async def close(self) -> None:
        """See `Source.close`."""
        link, self._link = self._link, None
        self._places.clear()
        self._missing.clear()
        self._followed.clear()
        if self._following is not None:
            self._following.cancel()
            self._following = None
        if link is not None:
            await link.close()

    def may_have(self, topic: str) -> bool:
        """See `Source.may_have`."""
        match = _NAME.fullmatch(topic)
        return match is not None and match[1] in self._settings.topics

    async def watch(self, topics: Sequence[str]) -> None:
        """See `Source.watch`."""
        link = self._opened()
        for topic in topics:
            if not await link.has(_partition(topic)):
                self._missing.add(topic)
            self._places.setdefault(topic, None)

    async def unwatch(self, topics: Sequence[str]) -> None:
        """See `Source.unwatch`."""
        self._missing.difference_update(topics)
        for topic in topics:
            if self._places.pop(topic, None) is not None:
                self._follow_soon()

    async def receive(self) -> list[tuple[str, Entry]]:
        """See `Source.receive`."""
        link = self._opened()
        turn = min(_LOOK, self._settings.timeout / 2)
        loop = asyncio.get_running_loop()
        probed = loop.time()
        while True:
            found: list[tuple[str, Entry]] = []
            if self._followed.is_set():
                for partition, records in (await link.receive(turn)).items():
                    found += self._come(f"{partition.topic}/{partition.partition}", records)
            else:
                await link.unless_failed(_within(turn, self._followed))
            if loop.time() - probed >= turn:
                await link.probe()
                probed = loop.time()
                found += self._appeared(link)
            if found:
                return found

    async def history(self, topic: str) -> History:
        """See `Source.history`."""
        link, partition = self._opened(), _partition(topic)
        if not await link.has(partition):
            return History(NOTHING, [])
        begin, end = await link.bounds(partition)
        offset = max(begin, end - self._kept.events)
        if self._kept.age is not None:
            fresh = await link.since(partition, round((time.time() - self._kept.age) * 1000))
            offset = max(offset, end if fresh is None else fresh)
        floor = _position(partition, offset - 1)
        last = floor
        entries: deque[Entry] = deque()
        size = 0
        while offset < end:
            records, offset = await link.read(partition, offset, end)
            for entry in self._entries(partition, records, last):
                last = entry.position
                entries.append(entry)
                size += _size(entry)
                while entries and (entry.event is None or size > int(self._kept.bytes)):
                    left = entries.popleft()
                    size, floor = size - _size(left), left.position
        self._placed(topic, offset, last)
        return History(floor, list(entries))

    async def read(self, topic: str, after: str, count: int) -> Page:  # noqa: ARG002 (pages are of Kafka's own size)
        """See `Source.read`."""
        link, partition = self._opened(), _partition(topic)
        if not await link.has(partition):
            return Page([], is_last=True)
        begin, end = await link.bounds(partition)
        offset = _behind(after)
        if offset < begin:
            offset, after = begin, _position(partition, begin - 1)
        entries: list[Entry] = []
        while offset < end and not entries:
            records, offset = await link.read(partition, offset, end)
            entries = self._entries(partition, records, after)
        if offset < end:
            return Page(entries, is_last=False)
        self._placed(topic, offset, entries[-1].position if entries else after)
        return Page(entries, is_last=True)

    async def newest(self, topic: str) -> str:
        """See `Source.newest`."""
        link, partition = self._opened(), _partition(topic)
        if not await link.has(partition):
            return NOTHING
        _, end = await link.bounds(partition)
        return _position(partition, end - 1)

    def _come(self, topic: str, records: Records) -> list[tuple[str, Entry]]:
        """What has come of one partition, if it is watched still."""
        place = self._places.get(topic)
        if place is None or not records:
            return []
        entries = self._entries(_partition(topic), records, place.before)
        place.offset = records[-1].offset + 1
        if entries:
            place.before = entries[-1].position
        return [(topic, entry) for entry in entries]

    def _appeared(self, link: KafkaLink) -> list[tuple[str, Entry]]:
        """An entry for each new partition: it follows no entry, so that the subscriber reads the stored ones."""
        there = [topic for topic in self._missing if link.has_seen(_partition(topic))]
        self._missing.difference_update(there)
        return [(topic, Entry(_position(_partition(topic), -1), None, None)) for topic in there]

    def _placed(self, topic: str, offset: int, before: str) -> None:
        """All up to `offset` has been read: what is followed begins there, if it does not yet."""
        if topic in self._places and self._places[topic] is None:
            self._places[topic] = _Place(offset, before)
            self._follow_soon()

    def _follow_soon(self) -> None:
        if self._following is None and self._link is not None:
            self._following = asyncio.get_running_loop().call_later(_TOGETHER, self._follow)

    def _follow(self) -> None:
        self._following = None
        places = {
            _partition(topic): place.offset for topic, place in self._places.items() if place is not None
        }
        self._opened().follow(places)
        if places:
            self._followed.set()
        else:
            self._followed.clear()

    def _entries(self, partition: TopicPartition, records: Records, before: str) -> list[Entry]:
        entries = []
        for record in records:
            if record.value is not None:
                position = _position(partition, record.offset)
                entries.append(Entry(position, before, event_of(record, self._settings.type_header)))
                before = position
        return entries

    def _opened(self) -> KafkaLink:
        if self._link is None:
            raise make_error("HUB_UNAVAILABLE", "the connection to Kafka is closed")
        return self._link


def event_of(record: "ConsumerRecord[bytes, bytes]", type_header: str | None) -> Event | None:
    """What a record with a value says; None if that is not text."""
    assert record.value is not None  # noqa: S101 (says who calls)
    # The last of several stands, as for Kafka's own clients.
    named = (value for name, value in reversed(record.headers) if name == type_header)
    try:
        kind = (next(named, None) or b"").decode() or None
        data = record.value.decode()
    except UnicodeDecodeError:
        return None
    # Keys are any bytes, and as long as one likes; all that is asked of them is which are the same.
    key = None if record.key is None else blake2b(record.key, digest_size=16).hexdigest()
    return Event(data, kind, key=key)


def _partition(topic: str) -> TopicPartition:
    name, _, number = topic.partition("/")
    return TopicPartition(name, int(number))


def _position(partition: TopicPartition, offset: int) -> str:
    return f"{partition.partition}:{offset}"


def _behind(position: str) -> int:
    """The offset behind a position: 0 if it is of none."""
    _, found, offset = position.partition(":")
    return int(offset) + 1 if found else 0


def _size(entry: Entry) -> int:
    return _LINES + (0 if entry.event is None else len(entry.event.data))


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
