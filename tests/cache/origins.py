"""An origin whose answers are made when a request comes, and may be held back: what changes meanwhile is not in them."""

import asyncio

import pytest

from penstock.testing import Peer
from support.client import answer
from support.origins import FRESH

READERS = [
    pytest.param(0, id="no client reads"),
    pytest.param(1, id="one follows"),
    pytest.param(50, id="fifty follow"),
]
AMPLE = 30.0
"""For limits that must not be met, also on a machine that is busy."""


class Held:
    """An origin that sends a head and a first half, and the rest when it may."""

    def __init__(self, *fields: str, first: bytes = b"a" * 40_000, rest: bytes = b"b" * 40_000) -> None:
        self.requests = 0
        self.asked = asyncio.Event()
        self.head_may_go = asyncio.Event()
        self.rest_may_go = asyncio.Event()
        self.left = asyncio.Event()
        self.first, self.rest = first, rest
        self._head = answer(*(fields or (FRESH,)), f"Content-Length: {len(first + rest)}")

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.requests += 1
            self.asked.set()
            await self.head_may_go.wait()
            await peer.send(self._head + self.first)
            if not self.rest_may_go.is_set():
                stalled = asyncio.create_task(peer.stall())
                stalled.add_done_callback(lambda _: self.left.set())
                await self.rest_may_go.wait()
                stalled.cancel()
            await peer.send(self.rest)
