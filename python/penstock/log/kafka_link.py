"""The connections to one Kafka: where its partitions begin and end, what lies there, and what comes.

One consumer follows the ends of partitions, another reads what lies before, one partition at a time. Where they begin
and end is asked by a third that reads nothing: each change of what one reads has it forget who leads all others. None
is of a group: nothing is committed, and each process gets all. No reader gets
what is open in a transaction, or was given up. The invariant: any failure, and any answer that is late, is one error,
HUB_UNAVAILABLE, and a task that waits to receive gets it too.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import ConsumerStoppedError, KafkaError

from penstock.config import KafkaLog
from penstock.exceptions import PenstockError, make_error

from .interface import unavailable

__all__ = ["KafkaLink", "Records"]

T = TypeVar("T")

Records = Sequence["ConsumerRecord[bytes, bytes]"]

# Milliseconds for which a broker may wait for records before it answers without one. Where more is to be
# followed, that waits as long; idle, a broker is asked ten times a second.
_LINGER: Final = 100

# Records that are taken at a time.
_PAGE: Final = 500

# Bytes of records that are taken at a time, unless one is larger: the many of a page may be large.
_PAGE_BYTES: Final = 4 << 20

# Seconds between two looks for partitions that there were not. Arbitrary.
_LOOK: Final = 1.0


class KafkaLink:
    """Opened once, and closed once."""

    def __init__(self, settings: KafkaLog) -> None:
        self._topics = list(settings.topics)
        self._timeout = settings.timeout
        milliseconds = max(1, round(settings.timeout * 1000))
        common: dict[str, Any] = {
            **settings.connection,
            "bootstrap_servers": settings.servers,
            "request_timeout_ms": milliseconds,
        }
        reading: dict[str, Any] = {
            **common,
            "enable_auto_commit": False,
            # Where a place is not there any more, that is for us to say.
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
        }
        self._admin = AIOKafkaAdminClient(**common)
        self._ends = AIOKafkaConsumer(**reading, fetch_max_wait_ms=min(_LINGER, milliseconds))
        # There are records to take, or no task asks.
        self._past = AIOKafkaConsumer(**reading, fetch_max_wait_ms=1)
        self._bounds = AIOKafkaConsumer(**reading)
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # One partition at a time.
        self._turn = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._partitions: dict[str, int] = {}
        # Where what is followed has not come to its end, and since when it has been there.
        self._behind: dict[TopicPartition, tuple[int, float]] = {}
        self._looked = 0.0

    async def open(self) -> None:
        """Connect."""
        with self._told("Kafka cannot be reached"):
            async with asyncio.timeout(self._timeout):
                await self._admin.start()
                await self._ends.start()
                await self._past.start()
                await self._bounds.start()
        await self.look()

    async def close(self) -> None:
        """Close all connections; calls that wait for an answer fail."""
        for consumer in (self._bounds, self._past, self._ends):
            await _stop(consumer)
        # What comes of an orderly end is of no interest.
        with contextlib.suppress(KafkaError, OSError):
            await self._admin.close()
        if self._failed.done():
            # There may be no waiter.
            self._failed.exception()

    async def look(self) -> None:
        """See how many partitions there are of each topic, and whether Kafka answers."""
        with self._told("Kafka did not say what topics it has"):
            rows = await self._admin.describe_topics(self._topics)
        self._looked = asyncio.get_running_loop().time()
        self._partitions = {row["topic"]: len(row["partitions"]) for row in rows if row["error_code"] == 0}

    async def has(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition."""
        async with self._looking:
            # A client may ask for a topic that does not exist.
            is_old = asyncio.get_running_loop().time() - self._looked > _LOOK
            if not self.has_seen(partition) and is_old:
                await self.look()
        return self.has_seen(partition)

    def has_seen(self, partition: TopicPartition) -> bool:
        """Whether there was such a partition when it was looked for."""
        return bool(partition.partition < self._partitions.get(partition.topic, 0))

    async def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset that is there, or will be, and the one behind all that can be read."""
        with self._told("Kafka did not say where a partition begins and ends"):
            begin, end = await asyncio.gather(
                self._bounds.beginning_offsets([partition]), self._bounds.end_offsets([partition])
            )
        return begin[partition], end[partition]

    async def since(self, partition: TopicPartition, milliseconds: int) -> int | None:
        """The offset of the first record of that time, since the epoch, or later; None if no record is so late."""
        with self._told("Kafka did not say what is new"):
            found = (await self._bounds.offsets_for_times({partition: milliseconds}))[partition]
        return None if found is None else found.offset

    async def read(self, partition: TopicPartition, begin: int, end: int) -> tuple[Records, int]:
        """Records from `begin` on, some at least if there are any before `end`, and the offset to go on from."""
        async with self._turn:
            with self._told("Kafka did not give what a partition has"):
                self._past.assign([partition])
                self._past.seek(partition, begin)
                try:
                    return await self._read(partition, begin, end)
                finally:
                    # It would continue to fetch records that no task takes. A waiter may find it closed.
                    with contextlib.suppress(KafkaError):
                        self._past.pause(partition)

    async def _read(self, partition: TopicPartition, offset: int, end: int) -> tuple[Records, int]:
        records: list[ConsumerRecord[bytes, bytes]] = []
        size = 0
        async with asyncio.timeout(self._timeout):
            while offset < end and len(records) < _PAGE and size < _PAGE_BYTES:
                taken = await self._past.getmany(
                    partition, timeout_ms=_LINGER, max_records=_PAGE - len(records)
                )
                for record in taken.get(partition, ()):
                    records.append(record)
                    size += record.serialized_value_size
                # Also after records that no reader gets.
                offset = await self._past.position(partition)
        return records, offset

    def follow(self, places: Mapping[TopicPartition, int]) -> None:
        """Have `receive` give what these partitions have from those offsets on, and nothing else."""
        with self._told("Kafka is not followed"):
            if not places:
                self._ends.unsubscribe()
                return
            self._ends.assign(list(places))
            for partition, offset in places.items():
                self._ends.seek(partition, offset)

    async def receive(self, seconds: float) -> Mapping[TopicPartition, Records]:
        """What has come of what is followed; nothing after so many seconds. Something has to be followed."""
        with self._told("Kafka did not give what comes"):
            milliseconds = max(1, round(seconds * 1000))
            taken: Mapping[TopicPartition, Records] = await self.unless_failed(
                self._ends.getmany(timeout_ms=milliseconds, max_records=_PAGE)
            )
        return taken

    async def unless_failed(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what waits, unless something else fails."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def probe(self) -> None:
        """Raise unless Kafka answers, and each broker that something is followed of."""
        await self.look()
        followed = self._ends.assignment()
        if not all(self.has_seen(partition) for partition in followed):
            raise make_error("HUB_UNAVAILABLE", "a partition that was followed is not there any more")
        with self._told("Kafka did not answer"):
            ends = await self._bounds.end_offsets(list(followed))
            places = {partition: await self._ends.position(partition) for partition in followed}
        # A consumer whose reading has ended says nothing of it (aiokafka 0.14: one that is told what more to read in the
        # moment that a fetch has failed).
        now = asyncio.get_running_loop().time()
        behind = {partition: place for partition, place in places.items() if place < ends[partition]}
        self._behind = {
            partition: self._behind[partition]
            if self._behind.get(partition, (-1, 0.0))[0] == place
            else (place, now)
            for partition, place in behind.items()
        }
        if any(now - since > self._timeout for _, since in self._behind.values()):
            raise make_error("HUB_UNAVAILABLE", "Kafka has more, and it does not come")

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            # It has been told.
            raise
        except (KafkaError, ConsumerStoppedError, OSError) as error:
            told = unavailable(what, error)
            if not self._failed.done():
                self._failed.set_exception(told)
            raise told from None


async def _stop(consumer: AIOKafkaConsumer) -> None:
    stopping = asyncio.ensure_future(consumer.stop())
    await asyncio.wait((stopping,))
    if stopping.cancelled() or stopping.exception() is not None:
        # Where a fetch has just failed it takes what it cancels itself for its own cancellation, and leaves its
        # connections open (aiokafka 0.14).
        with contextlib.suppress(KafkaError, OSError):
            await consumer._client.close()  # noqa: SLF001 (nothing public does it)
