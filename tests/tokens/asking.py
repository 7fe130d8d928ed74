"""Routes that want tokens, and requests of them."""

from dataclasses import dataclass
from typing import Any

from support.client import Head, RawClient
from support.edges import Edges, Served


@dataclass(frozen=True)
class Way:
    """A site with a route that wants a token."""

    edges: Edges
    served: Served

    async def answer(self, target: str, *fields: str) -> tuple[Head, bytes]:
        """On a connection of its own: one that was refused is closed."""
        client = await RawClient.connect(self.served.port)
        try:
            await client.get(target, *fields)
            head = await client.head()
            return head, await client.body(head)
        finally:
            client.abort()

    async def ask(self, target: str, *fields: str) -> tuple[int, bytes]:
        head, body = await self.answer(target, *fields)
        return head.status, body


async def protect(edges: Edges, origin: str, authorise: Any, prefix: str = "/vod/", **options: Any) -> Way:
    routes = [edges.gateway(origin).native(prefix, authorise=authorise, **options)]
    return Way(edges, await edges.serve(routes))


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"
