"""Hooks that tests ask, and what they are asked about."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from penstock.web import Allow, Deny, NativeRequest

from .client import Reply, answer

OK = answer("Content-Length: 2", body=b"ok")
TOKEN = "header:Token"


@dataclass
class Hook:
    """Lets in by the header Token: `good-TENANT` is that tenant's, and anything else is refused."""

    allowed: dict[str, Any] = field(default_factory=dict)
    """What an `Allow` has besides the tenant."""
    denied: dict[str, Any] = field(default_factory=dict)
    """What a `Deny` has."""
    pause: float = 0
    """Seconds that each answer takes."""
    gate: asyncio.Event | None = None
    """No request is answered before it is set."""
    asked: list[NativeRequest] = field(default_factory=list)

    async def __call__(self, request: NativeRequest) -> Allow | Deny:
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if self.pause:
            await asyncio.sleep(self.pause)
        (token,) = request.key
        if token is not None and token.startswith("good-"):
            return Allow(token.removeprefix("good-"), **self.allowed)
        return Deny(**self.denied)

    @property
    def tokens(self) -> list[str | None]:
        return [request.key[0] for request in self.asked]


def problem(reply: Reply) -> tuple[int, str]:
    """Status and code of a refusal."""
    assert reply.head.one("Content-Type") == "application/problem+json"
    body = json.loads(reply.body)
    assert body["status"] == reply.head.status
    return reply.head.status, body["name"]
