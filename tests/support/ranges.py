"""What RFC 9110, section 14, gives for a Range; an origin of which every property can be chosen; and what may be made of
its answers. The table of ranges is checked against this."""

import asyncio
import re
import socket
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from penstock.testing import Peer, RecordedRequest

from .client import RawClient, Reply, answer
from .films import film

SLICE = 16 * 1024
MAX_OBJECT = 64 * 1024
SMALL = 3 * SLICE + 1000
LARGE = 80 * SLICE + 1000
CHEAP = 1024 * 1024
"""Bytes that the origin may be made to send for 100: some slices, and what the kernel takes beforehand of an answer that
is given up. The whole is a quarter more."""
MODIFIED = "Sun, 22 Nov 2026 10:00:00 GMT"
BOUNDARY = "of-the-origin"


@dataclass(frozen=True)
class Kind:
    """How an origin answers."""

    control: str | None = "max-age=60"
    size: int = LARGE
    framing: str = "length"
    """Of a 200; `length`, `chunked` or `close`."""
    part_framing: str = "length"
    ranges: bool = True
    """Whether it follows ranges."""
    validator: str = "strong"
    """`strong`, `weak`, `date` or `none`."""
    fields: tuple[str, ...] = ()

    def tag(self, version: int) -> str | None:
        return {"strong": f'"{version}"', "weak": f'W/"{version}"'}.get(self.validator)


def length(size: int, spans: list[range]) -> int:
    return sum(len(span) for span in spans) if spans else size


def spans_of(value: str, size: int) -> list[range] | None:
    """The bytes that a Range field names of `size`: none of them is there where the list is empty. None where the field
    is malformed, or of another unit (section 14.2)."""
    unit, _, text = value.partition("=")
    spans = []
    for member in text.split(","):
        found = re.fullmatch(r"\s*(\d*)-(\d*)\s*", member)
        if unit.lower() != "bytes" or found is None or found.group(0).strip() == "-":
            return None
        first, last = found.groups()
        if first and last and int(last) < int(first):
            return None
        if first:
            span = range(int(first), min(size, int(last) + 1) if last else size)
        else:
            span = range(max(0, size - int(last)), size)
        if span:
            spans.append(span)
    return spans


def is_met(if_range: str | None, tag: str | None, modified: str | None) -> bool:
    """Section 13.1.5: strong comparison of entity tags, and the very date."""
    if if_range is None:
        return True
    if if_range.endswith('"'):
        return tag is not None and if_range == tag and not tag.startswith("W/")
    return modified is not None and parsedate_to_datetime(if_range) == parsedate_to_datetime(modified)


def by_the_book(
    request: dict[str, str], size: int, tag: str | None, modified: str | None, method: str = "GET"
) -> tuple[int, list[range]]:
    """The status that a server which follows ranges gives, and which bytes."""
    value = request.get("Range")
    spans = spans_of(value, size) if value is not None and method == "GET" else None
    if spans is None or not is_met(request.get("If-Range"), tag, modified):
        return 200, [range(size)]
    return (206, spans) if spans else (416, [])


@dataclass
class Origin:
    """Has a film under each path. `versions` says which, of each path that has changed."""

    kind: Kind
    requests: list[RecordedRequest] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    """Where a whole stops after its first bytes until this is set."""
    stops_after: int = 2000
    under_way: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.films: dict[int, bytes] = {}

    def film(self, version: int) -> bytes:
        if version not in self.films:
            self.films[version] = film(version, self.kind.size)
        return self.films[version]

    async def __call__(self, peer: Peer) -> None:
        # What the kernel takes on the origin's side is sent as far as `sent` knows.
        connection: socket.socket = peer._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        while True:
            request = await peer.request()
            self.requests.append(request)
            head, body, framing = self.says(request)
            await self._send(peer, head)
            event = self.held.get(request.target) if "Range" not in dict(request.fields) else None
            if event is not None:
                await self._send_body(peer, body[: self.stops_after], framing, is_last=False)
                self.under_way.set()
                await event.wait()
                body = body[self.stops_after :]
            await self._send_body(peer, body, framing)
            if framing == "close":
                return

    async def _send(self, peer: Peer, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            piece = data[start : start + SLICE]
            await peer.send(piece)
            self.sent += len(piece)

    async def _send_body(self, peer: Peer, body: bytes, framing: str, *, is_last: bool = True) -> None:
        if framing != "chunked":
            await self._send(peer, body)
            return
        # A chunk with its framing is one piece of `_send`.
        size = SLICE - len(f"{SLICE:x}\r\n\r\n")
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            await self._send(peer, f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if is_last:
            await self._send(peer, b"0\r\n\r\n")

    def says(self, request: RecordedRequest) -> tuple[bytes, bytes, str]:
        """A head, a body, and how that is framed."""
        kind, version = self.kind, self.versions.get(request.target, 1)
        tag, whole = kind.tag(version), self.film(version)
        modified = MODIFIED if kind.validator != "none" else None
        fields = [*kind.fields, "Content-Type: video/mp4"]
        fields += [f"Cache-Control: {kind.control}"] if kind.control else []
        fields += [f"ETag: {tag}"] if tag else []
        fields += [f"Last-Modified: {modified}"] if modified else []
        if tag and tag.removeprefix("W/") in (request.get("If-None-Match") or ""):
            return answer(*fields, status="304 Not Modified"), b"", "none"
        asked = {name: value for name in ("Range", "If-Range") if (value := request.get(name)) is not None}
        status, spans = by_the_book(asked, len(whole), tag, modified, request.method)
        if kind.ranges and status != 200:
            # What a 200 says of a range means nothing, and what a 206 says is its own.
            fields = [name for name in fields if not name.startswith("Content-Range")]
        if not kind.ranges or status == 200:
            return self._framed(fields, "200 OK", whole, kind.framing, request.method)
        if status == 416:
            fields += [f"Content-Range: bytes */{len(whole)}", "Content-Length: 0"]
            return answer(*fields, status="416 Range Not Satisfiable"), b"", "length"
        if len(spans) == 1:
            [span] = spans
            fields.append(f"Content-Range: bytes {span.start}-{span.stop - 1}/{len(whole)}")
            body = whole[span.start : span.stop]
        else:
            fields.remove("Content-Type: video/mp4")
            fields.append(f"Content-Type: multipart/byteranges; boundary={BOUNDARY}")
            body = b"".join(
                f"\r\n--{BOUNDARY}\r\nContent-Range: bytes {span.start}-{span.stop - 1}/{len(whole)}\r\n\r\n".encode()
                + whole[span.start : span.stop]
                for span in spans
            )
            body += f"\r\n--{BOUNDARY}--\r\n".encode()
        return self._framed(fields, "206 Partial Content", body, kind.part_framing, request.method)

    def _framed(
        self, fields: list[str], status: str, body: bytes, framing: str, method: str
    ) -> tuple[bytes, bytes, str]:
        known = {"length": f"Content-Length: {len(body)}", "chunked": "Transfer-Encoding: chunked"}
        said = [known[framing]] if framing in known else ["Connection: close"]
        return answer(*fields, *said, status=status), b"" if method == "HEAD" else body, framing


def parts_of(reply: Reply) -> list[tuple[range, int, bytes]]:
    """Of a 206: which bytes, of how many, and the bytes."""
    kind = reply.head.one("Content-Type") or ""
    pieces = [(reply.head.one("Content-Range") or "", reply.body)]
    if kind.startswith("multipart/byteranges"):
        assert reply.head.one("Content-Range") is None
        delimiter = b"--" + kind.partition("boundary=")[2].encode()
        pieces = []
        for piece in reply.body.split(delimiter)[1:-1]:
            lines, _, data = piece.partition(b"\r\n\r\n")
            named = re.search(rb"(?i)content-range: ([^\r]*)", lines)
            assert named is not None
            pieces.append((named.group(1).decode(), data.removesuffix(b"\r\n")))
    found = []
    for content, data in pieces:
        first, last, size = map(int, re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", content).groups())  # type: ignore[union-attr]
        found.append((range(first, last + 1), size, data))
    return found


def differs(
    reply: Reply, asked: dict[str, str], method: str, origin: Origin, versions: set[int]
) -> str | None:
    """What is wrong with a reply, if anything is: right is what the origin alone gives of one of these versions. Where
    that is the whole, because the origin does not follow ranges, the range will do."""
    kind, status = origin.kind, reply.head.status
    once = ("Content-Range", "Content-Length", "Content-Type", "ETag", "Date", "Age", "Accept-Ranges", "Via")
    doubled = [name for name in (*once, "Cache-Status", "Cache-Control") if len(reply.head.all(name)) > 1]
    if doubled:
        return f"{doubled} came more than once"
    modified = MODIFIED if kind.validator != "none" else None
    reasons = []
    for version in versions:
        tag, whole = kind.tag(version), origin.film(version)
        booked, spans = by_the_book(asked, len(whole), tag, modified, method)
        if kind.validator == "date" and "If-Range" in asked and booked == 206 and status == 200:
            booked = 200
        statuses = {booked} if kind.ranges else {booked, 200}
        if status not in statuses:
            reasons.append(f"{status} instead of {statuses}")
            continue
        if status == 416:
            if reply.head.one("Content-Range") == f"bytes */{len(whole)}":
                return None
            reasons.append(f"416 with {reply.head.one('Content-Range')}")
        elif method == "HEAD":
            return None if reply.body == b"" else "a body for HEAD"
        elif status == 200:
            if (reply.body == whole) is True:
                return None
            reasons.append(f"200 with {len(reply.body)} bytes that are not version {version}")
        else:
            found = parts_of(reply)
            is_all = [span for span, _, _ in found] == spans
            has_bytes = all(data == whole[span.start : span.stop] for span, _, data in found)
            if is_all and has_bytes and {size for _, size, _ in found} == {len(whole)}:
                return None
            reasons.append(
                f"206 with {[span for span, _, _ in found]} instead of {spans}, bytes right: {has_bytes}"
            )
    return "; ".join(reasons)


async def ask(client: RawClient, path: str, asked: dict[str, str], method: str = "GET") -> Reply:
    fields = [f"{name}: {value}" for name, value in asked.items()]
    return await client.ask(path, *fields, method=method)
