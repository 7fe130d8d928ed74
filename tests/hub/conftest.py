"""A hub behind sites of the engine's, with one engine thread and with three."""

from collections.abc import AsyncIterator, Iterator

import pytest

from support.brokers.redis_server import RedisServer, a_redis
from support.edges import Edges, edge
from support.leaks import engine_under_test
from support.subscribers import Topics

from .applications import Served
from .kafka_nodes import Kafka, KafkaNodes, need_kafka, shared_broker
from .nodes import Nodes

__all__ = ["edge"]


@pytest.fixture
async def topics(edge: Edges) -> AsyncIterator[Topics]:
    """Hubs of the test's own, which are closed when it ends."""
    topics = Topics(edge)
    yield topics
    topics.close()


@pytest.fixture
async def redis() -> AsyncIterator[RedisServer]:
    """A Redis of the test's own, which runs."""
    async with a_redis() as server:
        yield server


@pytest.fixture
async def nodes(edge: Edges, redis: RedisServer) -> AsyncIterator[Nodes]:
    """Hubs that share it."""
    nodes = Nodes(edge, redis)
    yield nodes
    await nodes.close()


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Kafka that all tests share."""
    need_kafka()
    with shared_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
async def kafka(edge: Edges, kafka_address: str) -> AsyncIterator[Kafka]:
    """What writes to it, and is gone before the engine looks who is left."""
    kafka = Kafka(kafka_address)
    yield kafka
    await kafka.close()


@pytest.fixture
async def kafka_nodes(edge: Edges, kafka: Kafka) -> AsyncIterator[KafkaNodes]:
    """Hubs that follow it."""
    nodes = KafkaNodes(edge, kafka.address)
    yield nodes
    await nodes.close()


@pytest.fixture(params=["one thread", "three threads", "stock", "workers"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    threads = 3 if request.param == "three threads" else 1
    async with engine_under_test(request, threads=threads) as engine:
        served = Served(engine, request.param)
        await served.start()
        yield served
        await served.close()
        del served
