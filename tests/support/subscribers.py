"""Who publishes and who subscribes in the tests of hubs, and what they are served on."""

from dataclasses import dataclass
from typing import Any

from penstock import Hub
from penstock.config import History, Subscriptions

from .client import Head, RawClient
from .edges import Edges, Served
from .waiting import in_time

PATH = "/events/news"
SILENT: dict[str, Any] = {"heartbeat": None}
"""Subscriptions unless a test says otherwise: on a busy machine a heartbeat may come between two events."""


@dataclass(frozen=True)
class Event:
    """An event as a browser reads it."""

    id: str | None
    type: str
    data: str
    retry: int | None = None


def parse(block: bytes) -> Event:
    """Read one block, which must be a whole one."""
    text = block.decode()
    assert text.endswith("\n\n"), text
    lines = text[:-2].split("\n")
    assert all(lines), f"more than one event: {text!r}"
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    assert set(fields) <= {"id", "event", "data", "retry"}, text
    (retry,) = fields.get("retry", [None])  # type: ignore[list-item]
    return Event(
        fields.get("id", [None])[0],  # type: ignore[list-item]
        fields.get("event", ["message"])[0],
        "\n".join(fields.get("data", [])),
        None if retry is None else int(retry),
    )


class Subscriber:
    """A client that has subscribed, and got a head."""

    def __init__(self, client: RawClient, head: Head) -> None:
        self.client = client
        self.head = head

    @property
    def resumed(self) -> str | None:
        return self.head.one("Penstock-Resume")

    async def event(self) -> Event | None:
        """The next event; None at the end of the response."""
        return await in_time(self.event_without_limit())

    async def event_without_limit(self) -> Event | None:
        """The same, where nothing may come for as long as it takes."""
        block = await self.client.chunk()
        return parse(block) if block else None

    async def data(self, count: int) -> list[str]:
        """The data of the next events, none of which is the hub's own."""
        events = [await self.event() for _ in range(count)]
        assert all(event is not None and event.type == "message" for event in events), events
        return [event.data for event in events if event is not None]

    async def rest(self) -> list[Event]:
        """All events up to the end of the response."""
        events = []
        while (event := await self.event()) is not None:
            events.append(event)
        return events


class Topics:
    """Makes hubs, serves them, and subscribes to their topics."""

    def __init__(self, edge: Edges) -> None:
        self.edge = edge
        self._hubs: list[Hub] = []

    def hub(self, **history: Any) -> Hub:
        hub = Hub(engine=self.edge.engine, history=History(**{"memory": "2MiB", **history}))
        self._hubs.append(hub)
        return hub

    async def serve(self, hub: Hub, *, options: dict[str, Any] | None = None, **subscriptions: Any) -> Served:
        route = hub.native(
            "/events/", subscriptions=Subscriptions(**{**SILENT, **subscriptions}), **(options or {})
        )
        return await self.edge.serve([route])

    async def subscribe(
        self, served: Served, *fields: str, path: str = PATH, receive_buffer: int | None = None
    ) -> Subscriber:
        client = await self.edge.connect(served, receive_buffer)
        await client.get(path, *fields)
        head = await in_time(client.head())
        assert head.status == 200, head
        return Subscriber(client, head)

    def close(self) -> None:
        for hub in self._hubs:
            hub.close()


class Reader:
    """Reads events, however they are cut into chunks."""

    def __init__(self, client: RawClient, head: Head) -> None:
        self.client = client
        self.head = head
        self._text = b""

    async def event(self) -> Event | None:
        while True:
            block, end, rest = self._text.partition(b"\n\n")
            if end:
                self._text = rest
                if block == b":":
                    continue
                return parse(block + end)
            chunk = await in_time(self.client.chunk())
            if not chunk:
                assert not self._text, "it ended within an event"
                return None
            self._text += chunk

    async def data(self, count: int) -> list[str]:
        events = [await self.event() for _ in range(count)]
        return [event.data for event in events if event is not None]
