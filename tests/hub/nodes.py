"""Hubs that share a Redis, each on a site of its own: what several processes are, in one."""

from contextlib import AsyncExitStack
from typing import Any

from penstock import Hub, LogStats, RedisLog
from penstock.config import History, Subscriptions
from support.brokers.redis_server import RedisServer
from support.client import RawClient
from support.edges import Edges, Served
from support.subscribers import PATH, SILENT, Subscriber, Topics
from support.waiting import until


class Node:
    """A hub, and what serves it."""

    def __init__(self, topics: Topics, hub: Hub, served: Served) -> None:
        self._topics = topics
        self.hub = hub
        self.served = served

    async def subscribe(self, after: str | None = None, *, path: str = PATH) -> Subscriber:
        fields = () if after is None else (f"Last-Event-ID: {after}",)
        return await self._topics.subscribe(self.served, *fields, path=path)

    async def leave(self) -> None:
        """Once; the nodes' end does it else."""
        await self.hub.__aexit__(None, None, None)

    @property
    def log(self) -> LogStats:
        log = self.hub.stats().log
        assert log is not None
        return log

    async def until_away(self) -> None:
        await until(lambda: self.log.state == "away", "it is known that Redis is away")

    async def until_ready(self) -> None:
        await until(lambda: self.log.state == "ready", "Redis is back")


class Nodes:
    """Makes nodes that share one Redis."""

    def __init__(self, edge: Edges, server: RedisServer) -> None:
        self._edge = edge
        self._topics = Topics(edge)
        self._server = server
        self._entered = AsyncExitStack()

    async def node(
        self,
        *,
        history: dict[str, Any] | None = None,
        log: dict[str, Any] | None = None,
        **subscriptions: Any,
    ) -> Node:
        # Nothing here takes that long, unless Redis does not answer at all.
        settings = RedisLog(**{"url": self._server.url, "timeout": 5.0, "longest_wait": 0.1, **(log or {})})
        kept = History(**{"memory": "2MiB", **(history or {})})
        hub = await self._entered.enter_async_context(
            Hub(engine=self._edge.engine, history=kept, log=settings)
        )
        route = hub.native("/events/", subscriptions=Subscriptions(**{**SILENT, **subscriptions}))
        return Node(self._topics, hub, await self._edge.serve([route]))

    async def connect(self, node: Node) -> RawClient:
        return await self._edge.connect(node.served)

    async def close(self) -> None:
        await self._entered.aclose()
