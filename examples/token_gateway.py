"""A gateway for token streams: who may ask, how much at a time, and what it has cost whom.

    python examples/token_gateway.py
    python examples/token_gateway.py --origin https://host --key KEY --listen 127.0.0.1:8080

Without an origin it asks a scripted one, so that it runs alone: two tenants ask, one of them leaves half way, one has
spent what it may, and the ledger is printed. With one it serves `/v1/chat/completions` until it is stopped.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

import penstock
from penstock.config import Drain, EventRelay, Inspection
from penstock.web import Gateway, RelayEnd, Site


@dataclass
class Tenant:
    """Who asks."""

    name: str
    budget: int
    """Tokens that may still be spent."""
    most: int = 4
    """Requests at a time."""
    under_way: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of them has ended."""
    spent: list[str] = field(default_factory=list)
    """The ledger: a line for each request."""

    def enter(self, end: RelayEnd) -> None:
        """Take the end of a request; the event loop calls this, once for each."""
        self.under_way -= 1
        if not self.under_way:
            self.idle.set()
        seen = end.inspected
        usage = {} if seen is None or seen.usage is None else seen.usage
        tokens = usage.get("total_tokens", 0)
        self.budget -= tokens
        how = "whole" if end.error is None else getattr(end.error, "name", "failed")
        events = 0 if seen is None else seen.events
        self.spent.append(f"{self.name}: {end.status} {how}, {events} events, {tokens} tokens")
        if seen is not None and seen.events and seen.usage is None:
            # A stream without a meter is worth a look: it failed, or its origin does not say.
            self.spent[-1] += " (no usage)"


def make_gateway(
    engine: penstock.Engine, origin: str, key: str | None, tenants: dict[str, Tenant]
) -> web.Application:
    """The gateway for `tenants`, by the keys that they send."""
    gateway = Gateway(
        origin,
        engine=engine,
        # Servers say what a stream has cost if they are asked to. A client that asks otherwise is overruled.
        inspect=Inspection(amend={"stream_options": {"include_usage": True}}, insist=True),
        # A client that leaves is billed for what the model went on to say: it is read up to its usage.
        events=EventRelay(heartbeat=15, drain=Drain(seconds=120)),
    )

    async def complete(request: web.Request) -> web.StreamResponse:
        tenant = tenants.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if tenant is None:
            raise web.HTTPUnauthorized
        if tenant.under_way >= tenant.most or tenant.budget <= 0:
            raise web.HTTPTooManyRequests(headers={"Retry-After": "60"})
        tenant.under_way += 1
        return await gateway.relay(
            request,
            # The tenant's key is for us, and ours for the origin.
            headers={"Authorization": None if key is None else f"Bearer {key}"},
            tenant=tenant.name,
            on_complete=tenant.enter,
        )

    async def stats(_: web.Request) -> web.Response:
        (counts,) = gateway.stats().values() or (None,)
        first = None if counts is None or not counts.first_token.count else counts.first_token
        mean = None if first is None else first.sum / first.count
        return web.json_response({"streams": counts and counts.streams, "mean_first_token": mean})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/stats", stats)
    return app


def make_model(pace: asyncio.Event) -> web.Application:
    """An origin that says ten words, the second half of them when `pace` is set, and what they have cost."""

    async def words() -> AsyncIterator[dict[str, object]]:
        for number in range(10):
            if number == 5:  # noqa: PLR2004 (half of them)
                await pace.wait()
            yield {"choices": [{"index": 0, "delta": {"content": f"word {number} "}}], "usage": None}

    async def complete(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for chunk in words():
            await response.write(b"data: %b\n\n" % json.dumps(chunk).encode())
        if asked.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 17}
            last = json.dumps({"choices": [], "usage": usage}).encode()
            await response.write(b"data: %b\n\n" % last)
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    return app


async def show(engine: penstock.Engine) -> None:
    """Ask as two tenants, and print the ledger."""
    pace = asyncio.Event()
    model = web.AppRunner(make_model(pace))
    await model.setup()
    await web.TCPSite(model, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{model.addresses[0][1]}"
    tenants = {"key-a": Tenant("green", 100), "key-b": Tenant("blue", 10)}
    runner = web.AppRunner(make_gateway(engine, origin, None, tenants))
    await runner.setup()
    site = Site(runner, "127.0.0.1", 0, engine=engine)
    await site.start()
    url = f"http://127.0.0.1:{site.port}/v1/chat/completions"
    asks = {"stream": True, "messages": [{"role": "user", "content": "How much is it?"}]}

    async def ask(session: aiohttp.ClientSession, key: str, *, leaves: bool = False) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.post(url, json=asks, headers=headers) as response:
            async for _ in response.content:
                if leaves:
                    break
            return response.status

    async with aiohttp.ClientSession() as session:
        print("unknown key:", await ask(session, "key-c"))
        print("green leaves after the first word:", await ask(session, "key-a", leaves=True))
        # What is left of that stream is read without it.
        pace.set()
        print("blue:", await ask(session, "key-b"))
        for tenant in tenants.values():
            await tenant.idle.wait()
        print("blue, who has spent it all:", await ask(session, "key-b"))
    for tenant in tenants.values():
        print(*tenant.spent, f"{tenant.name} may spend {tenant.budget} more", sep="\n")
    await runner.cleanup()
    await model.cleanup()


async def serve(engine: penstock.Engine, origin: str, key: str | None, listen: str) -> None:
    """Serve `origin` to clients that send the key `let-me-in`."""
    tenants = {"let-me-in": Tenant("visitors", 1_000_000)}
    runner = web.AppRunner(make_gateway(engine, origin, key, tenants))
    await runner.setup()
    host, _, port = listen.rpartition(":")
    site = Site(runner, host, int(port), engine=engine)
    await site.start()
    print(f"serving on {site.name}")
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def main() -> None:
    """Show it, or serve."""
    parser = argparse.ArgumentParser(description="Meter token streams by tenant.")
    parser.add_argument("--origin", help="of the model; none: a scripted one")
    parser.add_argument("--key", help="sent to the origin as a bearer token")
    parser.add_argument("--listen", default="127.0.0.1:8080")
    arguments = parser.parse_args()
    async with penstock.Engine(memory="64MiB") as engine:
        if arguments.origin is None:
            await show(engine)
        else:
            await serve(engine, arguments.origin, arguments.key, arguments.listen)


if __name__ == "__main__":
    asyncio.run(main())
