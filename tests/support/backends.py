"""Origins of the same films, of which each can be made to fail in its own way while it is asked."""

import asyncio
import re
from contextlib import AsyncExitStack
from functools import lru_cache
from types import TracebackType
from typing import Self

from penstock.testing import Peer, RecordedRequest, ScriptedOrigin

from .client import answer

SIZE = 200_000
"""Bytes of a film: more than one read, less than what sockets hold."""


NUMBERS = [f"{line:06d}" for line in range(SIZE // 8)]
"""Of lines: enough for the shortest path, and for a film that is somewhat longer."""


@lru_cache(maxsize=1024)
def film(path: str, size: int = SIZE) -> bytes:
    """The bytes at `path`, which show where they have been shifted, and of which film they are."""
    lines = size // len(f"{path}:000000;") + 1
    # Joined by the path: to format each line took half of the time of a test under load.
    return (f"{path}:" + f";{path}:".join(NUMBERS[:lines])).encode()[:size]


class Backend:
    """One of the origins. It serves films by whole and by range, under a strong entity tag.

    What it does to a request is decided when that arrives, by `mode`:

    - `well`: answers.
    - `reset`, `close`: ends the connection without an answer; `stall`: says nothing until the peer leaves.
    - a number: answers with that status.
    - `cut close`, `cut reset`, `cut stall`: sends `cut` bytes of the body, and then ends or stalls.
    - `hold`: answers when `released` is set.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.mode: str | int = "well"
        self.then: str | int | None = None
        """The mode from the first request on that met the other one."""
        self.cut = SIZE // 2
        self.tag = '"one"'
        self.chunked = False
        self.ranges = True
        self.released = asyncio.Event()
        self.active = 0
        """Requests that were not answered to their end."""
        self.requests: list[RecordedRequest] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._origin = await self._stack.enter_async_context(ScriptedOrigin(self._serve))
        self.url = self._origin.url
        self.port = self._origin.port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        """As when its process dies: its port refuses, and every connection breaks."""
        await self._stack.aclose()

    def count(self, path: str | None = None) -> int:
        """Requests that came, for `path` or for all."""
        return sum(path in (None, request.target) for request in self.requests)

    async def _serve(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            self.requests.append(request)
            self.active += 1
            try:
                await peer.read_body()
                if not await self._answer(peer, request):
                    return
            finally:
                self.active -= 1

    async def _answer(self, peer: Peer, request: RecordedRequest) -> bool:
        """Whether the connection goes on."""
        mode = self.mode
        if self.then is not None and mode != "well":
            self.mode, self.then = self.then, None
        if mode == "hold":
            await self.released.wait()
        elif mode == "stall":
            await peer.stall()
            return False
        elif mode in ("reset", "close"):
            end(peer, mode)
            return False
        elif isinstance(mode, int):
            body = f"{mode} of {self.name}".encode()
            await peer.send(answer(f"Content-Length: {len(body)}", status=f"{mode} Bad", body=body))
            return True
        head, body = self.response(request)
        if request.method == "HEAD":
            await peer.send(head)
            return True
        how = mode.removeprefix("cut ") if isinstance(mode, str) else ""
        if how == mode:
            await peer.send(head + (chunk(body) + b"0\r\n\r\n" if self.chunked else body))
            return True
        part = body[: self.cut]
        await peer.send(head + (chunk(part) if self.chunked else part))
        if how == "stall":
            await peer.stall()
        else:
            end(peer, how)
        return False

    def response(self, request: RecordedRequest) -> tuple[bytes, bytes]:
        """Head and body of the answer to `request`."""
        body, status, fields = film(request.target), "200 OK", [f"ETag: {self.tag}", f"X-From: {self.name}"]
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.get("Range") or "")
        condition = request.get("If-Range")
        if asked and self.ranges and condition in (None, self.tag):
            first, last = int(asked[1]), int(asked[2] or SIZE - 1)
            fields.append(f"Content-Range: bytes {first}-{last}/{SIZE}")
            body, status = body[first : last + 1], "206 Partial Content"
        fields.append("Transfer-Encoding: chunked" if self.chunked else f"Content-Length: {len(body)}")
        return answer(*fields, status=status), body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def end(peer: Peer, how: str) -> None:
    if how == "reset":
        peer.reset()
    else:
        assert how == "close"
        peer.close()


class Backends:
    """So many of them, `a`, `b` and so on."""

    def __init__(self, count: int) -> None:
        self.all = [Backend("abcdefgh"[place]) for place in range(count)]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> list[Backend]:
        for backend in self.all:
            await self._stack.enter_async_context(backend)
        return self.all

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()
