"""What hypercorn and granian serve: an application that answers each request with two bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

HEADERS = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"2")]


async def app(
    scope: dict[str, Any], _receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[None]]
) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"ok"})
