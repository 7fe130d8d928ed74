"""An origin whose answers are made when a request comes, and may be held back: what changes meanwhile is not in them."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.testing import Peer, RecordedRequest
from support.client import answer

FRESH = "Cache-Control: max-age=60"
READERS = [
    pytest.param(0, id="nobody reads"),
    pytest.param(1, id="one follows"),
    pytest.param(50, id="fifty follow"),
]
AMPLE = 30.0
"""For limits that must not be met, also on a machine that is busy."""

Says = Callable[[int, RecordedRequest], bytes]


class Origin:
    """Answers each request with what `says` makes of its number, from 1 on, and its head.

    Requests whose number is in `held` are answered once `go` is set.
    """

    def __init__(self, says: Says, *held: int) -> None:
        self.requests: list[RecordedRequest] = []
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        """A request has come that is held back."""
        self._says = says
        self._held = set(held)

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            self.requests.append(request)
            number = len(self.requests)
            response = self._says(number, request)
            if number in self._held:
                self.asked.set()
                await self.go.wait()
            await peer.send(response)

    def hold(self, number: int) -> None:
        """Hold that request back as well."""
        self._held.add(number)

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]


def numbered(*fields: str) -> Says:
    """The body is the request's number."""

    def says(number: int, request: RecordedRequest) -> bytes:
        body = str(number).encode()
        head = answer(*(fields or (FRESH,)), f"Content-Length: {len(body)}")
        return head if request.method == "HEAD" else head + body

    return says
