"""Clients of every kind read while a writer changes what the origin has: no client gets bytes of two versions, or, once
an invalidation has been answered, an older one. What is read slice by slice may break off, where the origin has another
version by then.

Every version's bytes are unlike those of all others, at every place. The writer makes a new version, and then has what
is stored made invalid, by an unsafe request or by clearing the cache; what must be confirmed before each use is current
without that. Some seconds by default; fifty times as many requests with PENSTOCK_LONG=1.
"""

import asyncio
import os
import random
import re
import zlib
from collections import Counter, defaultdict
from functools import cache

import pytest

from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import Head, RawClient, Reply, answer
from support.edges import Edges, Served
from support.waiting import in_time

CLIENTS = 10
REQUESTS = 10_000 if os.environ.get("PENSTOCK_LONG") == "1" else 200
"""Of each client."""
SEED = 4
SLOT = 16
MOST_SLOTS = 18_000
OBJECTS = 20
"""On each route: of all kinds they are more than the cache holds."""
CONTROLS = {
    "max-age=3600": False,
    "max-age=0, stale-while-revalidate=60": False,
    "no-cache": True,
    "max-age=0, must-revalidate": True,
}
"""How an object may be used before the origin is asked again; and whether it must be, each time."""
KINDS = ("a", "b")
ROUTES = {
    "/whole/": Caching(),
    "/asked/": Caching(range_fill="asked"),
    "/slices/": Caching(range_fill="slices", slice="16KiB"),
}


@cache
def places() -> bytes:
    return b"".join(b"%08d--sum---" % place for place in range(MOST_SLOTS)).replace(b"--sum---", b"checksum")


@cache
def content(path: str, kind: str, version: int) -> bytes:
    """Slots with their place and the checksum of what they belong to; of another length in each version."""
    checksum = zlib.crc32(f"{path} {kind} {version}".encode())
    return places()[: SLOT * (200 + checksum % (MOST_SLOTS - 200))].replace(b"checksum", b"%08x" % checksum)


def tag(kind: str, version: int) -> str:
    return f'"{kind}{version}"'


class Shelf:
    """What the origin has, and since when no client may get an older version."""

    def __init__(self) -> None:
        self.current = {f"{route}{number}": 1 for route in ROUTES for number in range(OBJECTS)}
        self.floor: dict[str, int] = defaultdict(int)
        self.asked: Counter[str] = Counter()

    @staticmethod
    def control(path: str) -> str:
        return list(CONTROLS)[int(path.rpartition("/")[2]) % len(CONTROLS)]

    @staticmethod
    def kinds(path: str) -> tuple[str, ...]:
        """Of half of the objects there are variants."""
        return KINDS if int(path.rpartition("/")[2]) % 8 < 4 else ("",)

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            head, body = self._answer(request)
            is_slice = request.method == "GET" and request.target.startswith("/slices/")
            self.asked["slice" if is_slice else request.method] += 1
            await peer.send(head)
            # In pieces, between which whatever else is going on goes on.
            for start in range(0, len(body), 32 * 1024):
                await peer.send(body[start : start + 32 * 1024])
                await asyncio.sleep(0)

    def _answer(self, request: RecordedRequest) -> tuple[bytes, bytes]:
        if request.method == "POST":
            return answer(status="204 No Content"), b""
        path = request.target
        kind = (request.get("X-Kind") or "") if self.kinds(path) == KINDS else ""
        version = self.current[path]
        body = content(path, kind, version)
        fields = [
            f"Cache-Control: {self.control(path)}",
            f"ETag: {tag(kind, version)}",
            f"X-Version: {version}",
            *(["Vary: X-Kind"] if self.kinds(path) == KINDS else []),
        ]
        if tag(kind, version) in (request.get("If-None-Match") or ""):
            self.asked["confirmed"] += 1
            return answer(*fields, status="304 Not Modified"), b""
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", request.get("Range") or "")
        status = "200 OK"
        if span and request.get("If-Range") in {None, tag(kind, version)}:
            first, last = (int(part) if part else None for part in span.groups())
            if first is None:
                assert last is not None
                first, last = max(0, len(body) - last), None
            end = min(len(body), len(body) if last is None else last + 1)
            if first >= len(body):
                return answer(
                    *fields, f"Content-Range: bytes */{len(body)}", "Content-Length: 0", status="416 No"
                ), b""
            fields.append(f"Content-Range: bytes {first}-{end - 1}/{len(body)}")
            body, status = body[first:end], "206 Partial Content"
            self.asked["ranges"] += 1
        head = answer(*fields, f"Content-Length: {len(body)}", status=status)
        return head, b"" if request.method == "HEAD" else body


class Viewer:
    """One client, which asks for this and that in every way, and knows what it may get."""

    def __init__(self, edges: Edges, served: Served, shelf: Shelf, seed: int) -> None:
        self._edges, self._served, self._shelf = edges, served, shelf
        self._random = random.Random(seed)
        self._seen: dict[tuple[str, str], int] = {}
        self.statuses: Counter[int] = Counter()
        self.broken = 0

    async def run(self) -> None:
        client = await self._edges.connect(self._served)
        for number in range(REQUESTS):
            if number % 25 == 24:
                # In the middle of a body, as viewers do.
                await client.get(self._random.choice(list(self._shelf.current)))
                await in_time(client.head())
                client.abort()
                client = await self._edges.connect(self._served)
            if not await self._ask(client):
                client.abort()
                client = await self._edges.connect(self._served)
        client.abort()

    async def _ask(self, client: RawClient) -> bool:
        """Whether the response came whole."""
        choose, shelf = self._random, self._shelf
        # Some are asked for more than others.
        path = list(shelf.current)[int(len(shelf.current) * choose.random() ** 2)]
        kind = choose.choice(shelf.kinds(path))
        fields = [f"X-Kind: {kind}"] if kind else []
        seen = self._seen.get((path, kind))
        way = choose.choice(
            ("plain", "plain", "range", "ranges", "suffix", "if-range", "condition", "refresh", "head")
        )
        first = choose.randrange(SLOT * MOST_SLOTS // 4)
        if way in {"range", "if-range"}:
            fields.append(f"Range: bytes={first}-{first + choose.randrange(50_000)}")
        elif way == "ranges":
            fields.append(f"Range: bytes={first}-{first + 999}, {first + 5000}-{first + 20_000}")
        elif way == "suffix":
            fields.append(f"Range: bytes=-{choose.randrange(1, 50_000)}")
        if way == "if-range" and seen:
            fields.append(f"If-Range: {tag(kind, seen)}")
        if way == "condition" and seen:
            fields.append(f"If-None-Match: {tag(kind, seen)}")
        if way == "refresh":
            fields.append("Cache-Control: no-cache")
        is_current = CONTROLS[shelf.control(path)] or way == "refresh"
        floor = shelf.current[path] if is_current else shelf.floor[path]
        method = "HEAD" if way == "head" else "GET"
        await client.get(path, *fields, method=method)
        head = await in_time(client.head())
        try:
            reply = Reply(head, await in_time(client.body(head, method)))
        except (EOFError, ConnectionError):
            assert path.startswith("/slices/")
            assert int(head.one("X-Version") or 0) < shelf.current[path], "it was broken off without need"
            self.broken += 1
            return False
        self.statuses[reply.head.status] += 1
        try:
            version = self._check(path, kind, reply, method, seen)
            assert version >= floor, f"version {version}, when {floor} was the oldest"
        except AssertionError as error:
            error.add_note(f"{method} {path} {fields}: {reply.head} {reply.body[:200]!r}")
            raise
        self._seen[path, kind] = version
        return True

    def _check(self, path: str, kind: str, reply: Reply, method: str, seen: int | None) -> int:
        """That all of it is of one version, and which."""
        head = reply.head
        if head.status == 304:
            assert seen is not None
            assert head.one("ETag") == tag(kind, seen)
            return seen
        version = int(head.one("X-Version") or 0)
        assert head.one("ETag") == tag(kind, version)
        whole = content(path, kind, version)
        if head.status == 416:
            assert head.one("Content-Range") == f"bytes */{len(whole)}"
        elif head.status == 206:
            for content_range, part in parts(head, reply.body):
                first, last, length = map(int, re.findall(r"\d+", content_range))
                assert length == len(whole)
                assert part == whole[first : last + 1]
        else:
            assert head.status == 200
            assert head.one("Content-Length") == str(len(whole))
            if method == "GET":
                # No explanation of what differs: pytest would take minutes for it.
                assert (reply.body == whole) is True
        return version


def parts(head: Head, body: bytes) -> list[tuple[str, bytes]]:
    """Of a 206: what each is, and its bytes."""
    content_range = head.one("Content-Range")
    if content_range is not None:
        return [(content_range, body)]
    boundary = (head.one("Content-Type") or "").removeprefix("multipart/byteranges; boundary=").encode()
    found = []
    for part in body.split(b"--" + boundary)[1:-1]:
        lines, _, data = part.partition(b"\r\n\r\n")
        found.append((lines.decode().strip().removeprefix("Content-Range: "), data.removesuffix(b"\r\n")))
    assert len(found) == 2
    return found


async def write(edges: Edges, served: Served, shelf: Shelf, counts: Counter[str]) -> None:
    """New versions, until it is cancelled."""
    choose = random.Random(SEED)
    client = await edges.connect(served)
    while True:
        for path in choose.sample(list(shelf.current), 3):
            shelf.current[path] += 1
        if choose.random() < 0.1:
            now = dict(shelf.current)
            assert edges.engine.cache is not None
            edges.engine.cache.clear()
            shelf.floor.update(now)
            counts["cleared"] += 1
        else:
            now = {path: shelf.current[path]}
            assert (await in_time(client.ask(path, "Content-Length: 0", method="POST"))).head.status == 204
            shelf.floor.update(now)
            counts["posted"] += 1
        for _ in range(choose.randrange(5)):
            await asyncio.sleep(0)


@pytest.mark.timeout(180 if REQUESTS == 200 else 3600)
async def test_no_response_mixes_two_versions_or_has_an_expired_one(caching: Edges) -> None:
    shelf = Shelf()
    async with ScriptedOrigin(shelf) as origin:
        gateway = caching.gateway(origin.url)
        served = await caching.serve([gateway.native(path, caching=how) for path, how in ROUTES.items()])
        viewers = [Viewer(caching, served, shelf, SEED + number + 1) for number in range(CLIENTS)]
        counts: Counter[str] = Counter()
        writing = asyncio.create_task(write(caching, served, shelf, counts))
        try:
            async with asyncio.TaskGroup() as group:
                for viewer in viewers:
                    group.create_task(viewer.run())
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        # All of it has happened, and most without the origin.
        statuses = sum((viewer.statuses for viewer in viewers), Counter())
        assert all(statuses[status] for status in (200, 206, 304, 416)), statuses
        assert all(shelf.asked[what] for what in ("GET", "slice", "confirmed", "ranges", "POST")), shelf.asked
        assert counts["cleared"]
        # One response may be several slices; but the other routes get most of the requests.
        assert shelf.asked["GET"] < CLIENTS * REQUESTS * 3 // 4
        assert sum(viewer.broken for viewer in viewers) < CLIENTS * REQUESTS // 10
