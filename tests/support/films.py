"""An origin with one large object, which answers ranges, and tells what it was asked for; and what reads it."""

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache

from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest

from .client import Head, RawClient, answer
from .origins import FRESH

SLICE = 16 * 1024
SLICES = 10
SLICED = Caching(range_fill="slices", slice=SLICE)


# Made in pure Python: without this it took a third of the time of the table of ranges.
@lru_cache(maxsize=16)
def film(version: int = 1, size: int = SLICES * SLICE + 1000) -> bytes:
    """Bytes that are unlike those of another version, and of another place, everywhere."""
    line = b"".join(b"%04d%012d" % (version, place) for place in range(0, size, 16))
    return line[:size]


BODY = film()

Reply = Callable[[RecordedRequest], bytes]


class Film:
    """What an origin has under each path: `body` under the entity tag `tag`. Both can be changed.

    The range that begins at a byte which is in `held` is answered once its event is set; `instead` answers it otherwise.
    """

    def __init__(self, body: bytes = BODY, tag: str = '"1"', *fields: str) -> None:
        self.body, self.tag = body, tag
        self.fields = fields or (FRESH,)
        self.requests: list[RecordedRequest] = []
        self.held: dict[int, asyncio.Event] = {}
        self.instead: dict[int, Reply] = {}
        self.asked = asyncio.Condition()

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            async with self.asked:
                self.requests.append(request)
                self.asked.notify_all()
            start = start_of(request)
            if start in self.held:
                await self.held[start].wait()
            response = self.instead.get(start, self.says)(request)
            if not await self.send(peer, start, response):
                return

    async def send(self, peer: Peer, _start: int, response: bytes) -> bool:
        """Whether the connection goes on."""
        await peer.send(response)
        return True

    async def has_been_asked(self, count: int) -> None:
        async with asyncio.timeout(10), self.asked:
            await self.asked.wait_for(lambda: len(self.requests) >= count)

    @property
    def ranges(self) -> list[str | None]:
        return [(request.get("Range") or "").removeprefix("bytes=") or None for request in self.requests]

    def says(self, request: RecordedRequest) -> bytes:
        """As an honest origin."""
        fields = [*self.fields, *([f"ETag: {self.tag}"] if self.tag else [])]
        if self.tag and self.tag in (request.get("If-None-Match") or ""):
            return answer(*fields, status="304 Not Modified")
        spans = [self._span(text) for text in spans_of(request)]
        if spans and request.get("If-Range") in {None, self.tag}:
            if len(spans) > 1 or not spans[0]:
                return answer(
                    f"Content-Range: bytes */{len(self.body)}",
                    "Content-Length: 0",
                    status="416 No Such Range",
                )
            return part(self.body, spans[0], *fields)
        head = answer(*fields, f"Content-Length: {len(self.body)}")
        return head if request.method == "HEAD" else head + self.body

    def _span(self, text: str) -> range:
        return span_of(text, len(self.body))


def spans_of(request: RecordedRequest) -> list[str]:
    value = request.get("Range")
    return value.removeprefix("bytes=").replace(" ", "").split(",") if value else []


def span_of(text: str, length: int) -> range:
    first, last = re.fullmatch(r"(\d*)-(\d*)", text).groups()  # type: ignore[union-attr]
    if not first:
        return range(max(0, length - int(last)), length)
    return range(int(first), min(length, int(last) + 1) if last else length)


def start_of(request: RecordedRequest) -> int:
    spans = spans_of(request)
    return int(spans[0].partition("-")[0] or -1) if spans else -1


def part(body: bytes, span: range, *fields: str, length: str | None = None, chunked: bool = False) -> bytes:
    """A 206. `length`: what it says the whole has."""
    data = body[span.start : span.stop]
    content = f"Content-Range: bytes {span.start}-{span.stop - 1}/{length or len(body)}"
    if chunked:
        head = answer(*fields, content, "Transfer-Encoding: chunked", status="206 Partial Content")
        return head + f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
    return answer(*fields, content, f"Content-Length: {len(data)}", status="206 Partial Content") + data


def slices(*numbers: int, body: bytes = BODY) -> list[str | None]:
    """What the origin is asked for where it is asked for these slices."""
    return [f"{number * SLICE}-{min(len(body), (number + 1) * SLICE) - 1}" for number in numbers]


def first_slice(number: int) -> str:
    """The same where its length is not known yet."""
    return f"{number * SLICE}-{(number + 1) * SLICE - 1}"


def parts_of(head: Head, body: bytes, whole: bytes) -> list[bytes]:
    """The parts of a 206, each compared with what it says it is."""
    kind = head.one("Content-Type") or ""
    found = [(head.one("Content-Range") or "", body)]
    if kind.startswith("multipart/byteranges"):
        boundary = kind.partition("boundary=")[2].encode()
        found = []
        for piece in body.split(b"--" + boundary)[1:-1]:
            lines, _, data = piece.partition(b"\r\n\r\n")
            found.append((lines.decode().strip().partition("Content-Range: ")[2], data.removesuffix(b"\r\n")))
    for content, data in found:
        first, last, length = map(int, re.findall(r"\d+", content))
        assert length == len(whole)
        assert (data == whole[first : last + 1]) is True
    return [data for _, data in found]


async def broken_off(client: RawClient, head: Head) -> bytes:
    """What came of a body that is broken off."""
    length, body = int(head.one("Content-Length") or 0), b""
    while len(body) < length:
        try:
            data = await client.reader.read(length - len(body))
        except ConnectionError:
            return body
        if not data:
            return body
        body += data
    raise AssertionError("it ended as if it were whole")
