"""A Kafka that tests write to, and hubs that follow it, each on a site of its own."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from penstock import Hub, KafkaLog
from penstock.config import History, Subscriptions
from support.brokers import kafka
from support.client import RawClient
from support.edges import Edges
from support.programs import require
from support.subscribers import SILENT, Topics

from .nodes import Node

_numbers = itertools.count()


@contextmanager
def shared_broker(directory: Path) -> Iterator[str]:
    """A broker for many tests, in a process of its own. Gives its address."""
    program = (sys.executable, kafka.__file__, str(directory))
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the broker did not start"
            yield address
        finally:
            process.terminate()


class Kafka:
    """Writes to a broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._entered = AsyncExitStack()
        self._admin: AIOKafkaAdminClient | None = None
        self._producer: AIOKafkaProducer | None = None

    async def topic(self, name: str | None = None, *, partitions: int = 1, **configs: str) -> str:
        """Make a topic, of a name that no other test has."""
        name = name or self.name()
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, partitions, 1, topic_configs=settings)
        admin = await self.admin()
        await admin.create_topics([new])
        # The broker knows it a little later than the controller.
        async with asyncio.timeout(30):
            while (rows := await admin.describe_topics([name]))[0]["error_code"] or len(
                rows[0]["partitions"]
            ) < partitions:
                await asyncio.sleep(0.01)
        return name

    @staticmethod
    def name() -> str:
        return f"scores-{next(_numbers)}"

    async def send(
        self,
        topic: str,
        *values: str | bytes | None,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> list[int]:
        """Write records, one after the other, and give their offsets."""
        producer = await self.producer()
        offsets = []
        for value in values:
            data = value.encode() if isinstance(value, str) else value
            sent = await producer.send_and_wait(
                topic, data, key=key, partition=partition, headers=list(headers)
            )
            offsets.append(sent.offset)
        return offsets

    async def forget(self, topic: str, before: int, *, partition: int = 0) -> None:
        """What is before that offset is gone, as retention has it."""
        there = {TopicPartition(topic, partition): RecordsToDelete(before_offset=before)}
        await (await self.admin()).delete_records(there)

    async def records(self, topic: str) -> list[tuple[str, str]]:
        """The ids and the values of all that is there in the only partition."""
        partition = TopicPartition(topic, 0)
        found = []
        async with AIOKafkaConsumer(
            bootstrap_servers=self.address, isolation_level="read_committed"
        ) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                taken = await consumer.getmany(partition, timeout_ms=100)
                found += [
                    (f"0:{record.offset}", record.value.decode()) for record in taken.get(partition, ())
                ]
        return found

    async def transaction(self, topic: str, *values: str, whole: bool = True) -> None:
        """Write records that count, or do not, together; the mark of that takes an offset as well."""
        producer = await self.begun(topic, *values)
        await (producer.commit_transaction() if whole else producer.abort_transaction())

    async def begun(self, topic: str, *values: str) -> AIOKafkaProducer:
        """Write records in a transaction that is still open."""
        producer = AIOKafkaProducer(bootstrap_servers=self.address, transactional_id=self.name())
        await self._entered.enter_async_context(producer)
        await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(topic, value.encode(), partition=0)
        return producer

    async def admin(self) -> AIOKafkaAdminClient:
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
            await self._admin.start()
            self._entered.push_async_callback(self._admin.close)
        return self._admin

    async def producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            options = {"acks": "all", "enable_idempotence": True, "max_request_size": 8 << 20}
            self._producer = AIOKafkaProducer(bootstrap_servers=self.address, **options)
            await self._entered.enter_async_context(self._producer)
        return self._producer

    async def close(self) -> None:
        """It can be written to again."""
        self._admin = self._producer = None
        await self._entered.aclose()


class KafkaNodes:
    """Makes nodes that follow one Kafka."""

    def __init__(self, edge: Edges, address: str) -> None:
        self._edge = edge
        self._topics = Topics(edge)
        self._address = address
        self._entered = AsyncExitStack()

    async def node(
        self,
        *topics: str,
        history: dict[str, Any] | None = None,
        log: dict[str, Any] | None = None,
        **subscriptions: Any,
    ) -> Node:
        settings = KafkaLog(
            **{"servers": self._address, "topics": topics, "longest_wait": 0.1, **(log or {})}
        )
        kept = History(**{"memory": "8MiB", "age": None, **(history or {})})
        hub = await self._entered.enter_async_context(
            Hub(engine=self._edge.engine, history=kept, log=settings)
        )
        route = hub.native("/events/", subscriptions=Subscriptions(**{**SILENT, **subscriptions}))
        return Node(self._topics, hub, await self._edge.serve([route]))

    async def connect(self, node: Node) -> RawClient:
        return await self._edge.connect(node.served)

    async def close(self) -> None:
        await self._entered.aclose()


def need_kafka() -> None:
    """Skip the test where a broker cannot be run."""
    require("java", package="default-jre-headless")
    require("mvn", package="maven")
