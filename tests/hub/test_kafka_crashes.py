"""A Kafka that is away, killed and started again, and processes that hang, while subscribers come, go and resume."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from support.brokers.kafka import running_broker
from support.client import RawClient
from support.edges import Edges
from support.subscribers import Event, Subscriber
from support.waiting import in_time

from .kafka_nodes import Kafka, KafkaNodes, need_kafka
from .watcher import Watcher

WORKER = Path(__file__).with_name("kafka_worker.py")
SUBSCRIBERS = 20
KILLS = 2
# Records that Kafka confirms before it is killed, and again.
BETWEEN = 60

# A broker takes some seconds to start, on a machine that has nothing else to do.
pytestmark = pytest.mark.timeout(300)


@asynccontextmanager
async def worker(address: str, topic: str) -> AsyncIterator[tuple[Process, int]]:
    """A process that serves `topic`, and its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), address, topic, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, int(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 60)


class Writer:
    """Writes numbers until it is told to stop, and keeps what Kafka has confirmed."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self.confirmed: list[str] = []
        self.is_over = False

    async def write(self) -> None:
        number = 0
        while not self.is_over:
            producer = AIOKafkaProducer(bootstrap_servers=self._address, acks="all", request_timeout_ms=3000)
            # What was not confirmed may be there, and is no less an event.
            with contextlib.suppress(KafkaError, OSError):
                try:
                    await producer.start()
                    while not self.is_over:
                        number += 1
                        await producer.send_and_wait(self._topic, str(number).encode(), partition=0)
                        self.confirmed.append(str(number))
                finally:
                    await producer.stop()
            await asyncio.sleep(0.05)

    async def more(self, count: int) -> None:
        """Wait until so much more has been confirmed."""
        goal = len(self.confirmed) + count
        async with asyncio.timeout(90):
            while len(self.confirmed) < goal:
                await asyncio.sleep(0.01)


async def test_what_was_confirmed_comes_once_and_in_order_though_kafka_is_killed(tmp_path: Path) -> None:
    need_kafka()
    async with running_broker(tmp_path) as broker:
        kafka = Kafka(broker.address)
        topic = await kafka.topic()
        await kafka.close()
        writer = Writer(broker.address, topic)
        writing = asyncio.create_task(writer.write())
        watchers = [Watcher(seed, f"/events/{topic}/0") for seed in range(SUBSCRIBERS)]
        async with worker(broker.address, topic) as (_, one), worker(broker.address, topic) as (_, other):
            watching = [asyncio.create_task(watcher.watch([one, other])) for watcher in watchers]
            try:
                for _ in range(KILLS):
                    await writer.more(BETWEEN)
                    await broker.kill()
                    await broker.start()
                async with asyncio.timeout(90):
                    # They get events again, and not only a gap up to the last one.
                    while not all(watcher.runs and watcher.runs[-1] for watcher in watchers):
                        await asyncio.sleep(0.01)
                await writer.more(BETWEEN)
                writer.is_over = True
                await writing
                there = await kafka.records(topic)
                async with asyncio.timeout(90):
                    while any(watcher.last != there[-1][0] for watcher in watchers):
                        for task in watching:
                            if task.done():
                                task.result()
                        await asyncio.sleep(0.01)
            finally:
                for task in (writing, *watching):
                    task.cancel()
                ended = await asyncio.gather(writing, *watching, return_exceptions=True)
        assert not [error for error in ended if isinstance(error, Exception)]
    assert set(writer.confirmed) <= {data for _, data in there}, "what was confirmed is there"
    places = {pair: place for place, pair in enumerate(there)}
    for watcher in watchers:
        for run in watcher.runs:
            got = [places[pair] for pair in run]
            assert got == list(range(got[0], got[0] + len(got))) if got else True, (
                "once, in order, none missing"
            )
        # By an event, or by a gap where it came back to a process that could not ask.
        assert watcher.last == there[-1][0], "up to the end"
    assert any(run and run[-1] == there[-1] for watcher in watchers for run in watcher.runs)


async def test_what_has_gone_while_a_process_hung_is_a_gap(kafka_address: str) -> None:
    kafka = Kafka(kafka_address)
    topic = await kafka.topic()
    path = f"/events/{topic}/0"
    async with worker(kafka.address, topic) as (process, port):
        client = await RawClient.connect(port)
        await client.get(path)
        subscriber = Subscriber(client, await in_time(client.head()))
        await kafka.send(topic, "a")
        assert await subscriber.data(1) == ["a"]
        process.send_signal(signal.SIGSTOP)
        # What a broker has sent already is in the process's sockets, and is no loss.
        await kafka.send(topic, *("x" * 500_000 for _ in range(40)))
        await kafka.forget(topic, 40)
        await kafka.send(topic, "last")
        process.send_signal(signal.SIGCONT)
        events: list[Event] = []
        while not events or events[-1].data != "last":
            event = await subscriber.event()
            assert event is not None
            events.append(event)
        client.abort()
    await kafka.close()
    assert events[-1].id == "0:41"
    kinds = [event.type for event in events]
    assert kinds.count("penstock-gap") == 1
    gap = kinds.index("penstock-gap")
    assert events[gap].id == "0:39"
    assert [event.id for event in events[:gap]] == [f"0:{number}" for number in range(1, 1 + gap)]
    assert [event.id for event in events[gap + 1 :]] == ["0:40", "0:41"]


async def test_a_broker_that_is_away_is_seen_and_found_again(edge: Edges, tmp_path: Path) -> None:
    need_kafka()
    async with running_broker(tmp_path) as broker:
        kafka, nodes = Kafka(broker.address), KafkaNodes(edge, broker.address)
        topic = await kafka.topic()
        path = f"/events/{topic}/0"
        await kafka.send(topic, "a", "b")
        node = await nodes.node(topic, log={"timeout": 2.0}, join="start")
        subscriber = await node.subscribe(path=path)
        assert await subscriber.data(2) == ["a", "b"]
        await kafka.close()
        await broker.kill()
        # Nothing is written, and it is noticed all the same.
        await node.until_away()
        assert node.log.error is not None
        late = await nodes.node(topic, log={"timeout": 2.0}, join="start")
        assert late.log.state == "away"
        # Who comes meanwhile is let in: here with what is there.
        again = await node.subscribe("0:0", path=path)
        assert (again.resumed, await again.data(1)) == ("full", ["b"])
        new = await late.subscribe(path=path)
        client = await nodes.connect(late)
        assert (await client.ask("/events/unknown/0")).head.status == 404
        await broker.start()
        await node.until_ready()
        await late.until_ready()
        await kafka.send(topic, "c")
        for each in (subscriber, again):
            assert await each.event() == Event("0:2", "message", "c")
        # What there was is not known to a node that could learn nothing of it.
        gap = await new.event()
        assert gap is not None
        assert (gap.type, gap.id) == ("penstock-gap", "0:1")
        assert await new.event() == Event("0:2", "message", "c")
        assert (node.log.gaps, node.log.connections, node.log.error) == (0, 2, None)
        await nodes.close()
        await kafka.close()
