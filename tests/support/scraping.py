"""Reads the pages about an engine over real sockets, and metrics by prometheus_client's parsers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as strict_parser

from .client import Head, RawClient, Reply
from .waiting import DEADLINE, in_time

__all__ = ["OPEN", "Metrics", "Pages", "Viewer"]

OPEN = "application/openmetrics-text;version=1.0.0"


class Metrics:
    """What was read of one page."""

    def __init__(self, text: str, *, strict: bool = False) -> None:
        parse: Callable[[str], Iterable[Any]]
        parse = (
            strict_parser.text_string_to_metric_families if strict else parser.text_string_to_metric_families
        )
        self.text = text
        self.families = {family.name: family for family in parse(text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }
        count = sum(len(family.samples) for family in self.families.values())
        assert len(self.samples) == count, "a sample is there twice"

    def get(self, name: str, **labels: str) -> float:
        """The value of one sample; 0 if it is missing, which is how counters begin."""
        return self.samples.get((f"penstock_{name}", frozenset(labels.items())), 0.0)

    def has(self, name: str, **labels: str) -> bool:
        return (f"penstock_{name}", frozenset(labels.items())) in self.samples

    def values(self, label: str) -> set[str]:
        """What a label has for values, in all families."""
        return {value for _, labels in self.samples for name, value in labels if name == label}


class Viewer:
    """Reads the events of the page: what flows now."""

    def __init__(self, client: RawClient, head: Head) -> None:
        self.client = client
        self.head = head
        self._text = ""

    async def message(self) -> dict[str, str]:
        """The fields of the next event."""
        while "\n\n" not in self._text:
            self._text += (await in_time(self.client.chunk(), "an event")).decode()
        message, _, self._text = self._text.partition("\n\n")
        return dict(line.split(": ", 1) for line in message.splitlines())

    async def history(self) -> dict[str, Any]:
        """What comes first: the figures of the last minutes."""
        message = await self.message()
        assert message["event"] == "history"
        return dict(json.loads(message["data"]))

    async def until(self, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """The first event of which `condition` is true."""
        end, event = time.monotonic() + DEADLINE, {}
        while time.monotonic() < end:
            message = await self.message()
            if "event" not in message and condition(event := json.loads(message["data"])):
                return dict(event)
        pytest.fail(f"not within {DEADLINE} s: {what}\n{json.dumps(event, indent=1)}")


@dataclass
class Pages:
    """The pages about an engine, at a port or at a Unix socket."""

    url: str

    async def connect(self, receive_buffer: int | None = None) -> RawClient:
        if self.url.startswith("unix:"):
            path = self.url.removeprefix("unix:")
            return RawClient(*await asyncio.open_unix_connection(path, limit=64 * 1024))
        return await RawClient.connect(int(self.url.rpartition(":")[2]), receive_buffer)

    async def get(self, path: str, *fields: str, method: str = "GET") -> Reply:
        client = await self.connect()
        try:
            return await client.ask(path, *fields, method=method)
        finally:
            client.abort()

    @asynccontextmanager
    async def viewer(self) -> AsyncIterator[Viewer]:
        """One more viewer of the page."""
        client = await self.connect()
        try:
            await client.get("/penstock/events", "Accept: text/event-stream")
            yield Viewer(client, await client.head())
        finally:
            client.abort()

    async def metrics(self) -> Metrics:
        reply = await self.get("/penstock/metrics")
        assert reply.head.status == 200, reply
        return Metrics(reply.body.decode())

    async def until(self, condition: Callable[[Metrics], object], what: str) -> Metrics:
        """Waits for metrics of which `condition` is true.

        A request is counted when it is over, and its client may know that before.
        """
        end = time.monotonic() + DEADLINE
        while not condition(metrics := await self.metrics()):
            if time.monotonic() > end:
                pytest.fail(f"not within {DEADLINE} s: {what}\n{metrics.text}")
        return metrics

    async def check(self, page: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a page."""
        reply = await self.get(f"/penstock/{page}")
        assert reply.head.one("Content-Type") == "application/json"
        return reply.head.status, json.loads(reply.body)

    async def until_status(self, page: str, status: int) -> dict[str, Any]:
        """Waits for a page to be answered with `status`."""
        end = time.monotonic() + DEADLINE
        while (answer := await self.check(page))[0] != status:
            if time.monotonic() > end:
                pytest.fail(f"not within {DEADLINE} s: {page} is {status}, and not {answer}")
        return answer[1]
