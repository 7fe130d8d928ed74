"""The one place where the tests of inspection make a gateway, and what they know of the streams in tests/data."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from penstock.config import Edge, Inspection
from penstock.stats import InspectionStats
from penstock.web import Gateway, Inspected, RelayEnd
from support.client import RawClient
from support.origins import JSON
from support.ways import Relay, Way

DATA: Final = Path(__file__).parent.parent / "data" / "token_streams"
KNOWN: Final[dict[str, dict[str, Any]]] = json.loads((DATA / "expected.json").read_text())
INSPECTION: Final = Inspection()
GEMINI: Final = Inspection(usage=(), usage_start=("usageMetadata",))
USAGE: Final = Inspection(amend={"stream_options": {"include_usage": True}})


def stream_of(name: str) -> bytes:
    """A stream of a known shape."""
    return (DATA / f"{name}.sse").read_bytes()


def inspection_of(name: str) -> Inspection:
    """What finds its usage."""
    return GEMINI if name == "gemini" else INSPECTION


@dataclass
class Inspecting:
    """A gateway whose responses are inspected."""

    relay: Relay
    gateway: Gateway

    async def post(self, body: bytes = b"{}", *fields: str, path: str = "/v1/chat?x=1") -> RawClient:
        """A client that has posted JSON."""
        client = await self.relay.way.connect(self.relay.port)
        await client.get(path, JSON, f"Content-Length: {len(body)}", *fields, method="POST")
        await client.send(body)
        return client

    async def end(self) -> RelayEnd:
        """What became of the next one to end."""
        async with asyncio.timeout(10):
            return await self.relay.ends.get()

    async def inspected(self) -> Inspected:
        """What was seen of it."""
        seen = (await self.end()).inspected
        assert seen is not None
        return seen

    def stats(self) -> InspectionStats:
        """The counts of its only route."""
        (stats,) = self.by_route().values()
        return stats

    def by_route(self) -> dict[str, InspectionStats]:
        return self.relay.way.stats(self.gateway)


async def inspecting(
    way: Way,
    origin: str,
    inspect: Inspection | None = INSPECTION,
    *,
    edge: Edge | None = None,
    **options: Any,
) -> Inspecting:
    """Relay every path to `origin`. What only a route takes is for that alone."""
    gateway = await way.gateway(origin, inspect=inspect)
    app = web.Application()
    ends: asyncio.Queue[RelayEnd] = asyncio.Queue()
    options = {"on_complete": ends.put_nowait, "tenant": "blue", **options}
    if way.is_route:
        app.add_routes([gateway.native("/", name="chat", **options)])
    else:

        async def handler(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, **options)

        app.router.add_route("*", "/{path:.*}", handler)
    return Inspecting(await way.serve(app, ends, edge=edge), gateway)
