"""Engines whose requests are traced, native routes and applications on them, and a collector."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import penstock
from penstock.config import Cache, Edge, Tracing
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import RawClient, answer
from support.collector import Collector, Span, collecting
from support.edges import Edges
from support.leaks import engine_under_test

SOON = 0.05
TRUSTING = Edge(trust_trace_context=True)


class Traced(Edges):
    """Serves on an engine that sends spans to `collector`."""

    def __init__(self, engine: penstock.Engine, collector: Collector) -> None:
        super().__init__(engine)
        self.collector = collector

    async def connect_to(self, port: int) -> RawClient:
        """A connection, which is closed when the test ends."""
        client = await RawClient.connect(port)
        self.keep(client)
        return client

    async def fetched(self, port: int, path: str = "/", *fields: str) -> bytes:
        """The body of a response to a request on a connection of its own."""
        client = await self.connect_to(port)
        lines = "".join(f"{line}\r\n" for line in fields)
        await client.send(f"GET {path} HTTP/1.1\r\nHost: a.example:81\r\n{lines}\r\n".encode())
        return await client.body(await client.head())


Trace = Callable[..., AbstractAsyncContextManager[Traced]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def traced(request: pytest.FixtureRequest, collector: Collector) -> Trace:
    """Makes an engine; arguments are those of `Tracing`."""

    @asynccontextmanager
    async def make(*, cache: bool = False, **options: Any) -> AsyncIterator[Traced]:
        settings = {"endpoint": collector.url, "interval": SOON, "ratio": 1.0} | options
        stored = Cache(memory="4MiB") if cache else None
        async with engine_under_test(
            request, tracing=Tracing(**settings), threads=1, memory="32MiB", cache=stored
        ) as engine:
            edges = Traced(engine, collector)
            yield edges
            await edges.close()
            del edges

    return make


def say(*fields: str, status: str = "200 OK", body: bytes = b"ok") -> Callable[[Peer], Awaitable[None]]:
    async def answering(peer: Peer) -> None:
        while True:
            await peer.request()
            length = f"Content-Length: {len(body)}"
            await peer.send(answer(length, *fields, status=status, body=body))

    return answering


def one(spans: list[Span], kind: int) -> Span:
    (found,) = [span for span in spans if span.kind == kind]
    return found


def sole(origin: ScriptedOrigin) -> RecordedRequest:
    """The one request that has come."""
    (asked,) = [request for peer in origin.connections for request in peer.requests]
    return asked
