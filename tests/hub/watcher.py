"""A subscriber that comes and goes."""

import random

from support.client import RawClient
from support.subscribers import PATH, Subscriber


class Watcher:
    """A subscriber that leaves and comes back, and keeps what it got in runs without a gap."""

    def __init__(self, seed: int, path: str = PATH) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.runs: list[list[tuple[str, str]]] = [[]]
        self.last: str | None = None
        self.has_ended = False

    async def watch(self, ports: list[int]) -> None:
        while not self.has_ended:
            client = await RawClient.connect(self.random.choice(ports))
            try:
                await self._listen(client)
            finally:
                client.abort()

    async def _listen(self, client: RawClient) -> None:
        fields = () if self.last is None else (f"Last-Event-ID: {self.last}",)
        await client.get(self.path, *fields)
        head = await client.head()
        if head.status == 204:
            self.has_ended = True
            return
        assert head.status == 200
        subscriber = Subscriber(client, head)
        for _ in range(self.random.randint(1, 200)):
            event = await subscriber.event_without_limit()
            if event is None:
                return
            if event.id is not None:
                self.last = event.id
            if event.type == "penstock-gap":
                self.runs.append([])
            elif event.type == "penstock-end":
                self.has_ended = True
                return
            else:
                assert event.id is not None
                self.runs[-1].append((event.id, event.data))
