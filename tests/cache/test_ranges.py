"""A client's range is followed whatever becomes of the object: origins × what is there already × policies × ranges, each
compared with what RFC 9110 and the origin alone give, and with what it may cost the origin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock import config
from penstock.config import Caching
from penstock.testing import ScriptedOrigin
from support.client import Head, RawClient, Reply, client_of
from support.edges import THREADS, Edges, caching_under_test, serving
from support.hooks import Hook
from support.ranges import CHEAP, LARGE, MAX_OBJECT, MODIFIED, SLICE, SMALL, Kind, Origin, ask, differs
from support.relaying import Relaying, family, relaying
from support.waiting import in_time, until

__all__ = ["family", "relaying"]

KINDS = {
    "large": Kind(),
    "large, weak": Kind(validator="weak"),
    "large, by date": Kind(validator="date"),
    "large, no validator": Kind(validator="none"),
    "large, no-store": Kind(control="no-store"),
    "large, private": Kind(control="private, max-age=60"),
    "large, no-cache": Kind(control="no-cache"),
    "large, sets a cookie": Kind(fields=("Set-Cookie: a=b",)),
    "large, says nothing": Kind(control=None, validator="none"),
    "large, without ranges": Kind(ranges=False),
    "large, without ranges, no-store": Kind(ranges=False, control="no-store"),
    "large, chunked": Kind(framing="chunked"),
    "large, chunked, weak": Kind(framing="chunked", validator="weak"),
    "large, no length": Kind(framing="close"),
    "large, parts without a length": Kind(part_framing="close"),
    "large, parts in chunks": Kind(part_framing="chunked"),
    "small": Kind(size=SMALL),
    "small, weak": Kind(size=SMALL, validator="weak"),
    "small, no validator": Kind(size=SMALL, validator="none"),
    "small, no-store": Kind(size=SMALL, control="no-store"),
    "small, without ranges": Kind(size=SMALL, ranges=False),
    "small, chunked": Kind(size=SMALL, framing="chunked"),
    "small, chunked, without ranges": Kind(size=SMALL, framing="chunked", ranges=False),
    "small, no length": Kind(size=SMALL, framing="close"),
    "small, told by others": Kind(
        size=SMALL,
        fields=(
            "Content-Range: bytes 0-4/5",
            "Age: 3",
            "Via: 1.1 other",
            "Cache-Status: other; hit",
            "Accept-Ranges: bytes",
            "Date: Sun, 22 Nov 2026 10:00:05 GMT",
        ),
    ),
}
POLICIES = {
    name: Caching(range_fill=name, slice=SLICE, max_object=MAX_OBJECT, heuristic_percent=0)
    for name in ("auto", "whole", "asked", "slices")
}


def ranges_of(size: int) -> dict[str, dict[str, str]]:
    texts = {
        "the first": "bytes=0-99",
        "within": "bytes=20000-20099",
        "over a boundary": f"bytes={SLICE * 2 - 50}-{SLICE * 2 + 49}",
        "the end": f"bytes={size - 100}-{size - 1}",
        "beyond the end": f"bytes={size - 100}-{size + 99}",
        "the last": "bytes=-100",
        "open": f"bytes={size - 1000}-",
        "from the beginning": "bytes=0-",
        "after the end": f"bytes={size + 5}-",
        "two": "bytes=0-9,20000-20009",
        "three, one after the end": f"bytes=100-109,{size - 10}-,{size + 1}-",
        "malformed": "bytes=9-5",
        "of another unit": "lines=1-5",
    }
    asked = {what: {"Range": text} for what, text in texts.items()}
    within = texts["within"]
    asked["if it is the first version"] = {"Range": within, "If-Range": '"1"'}
    asked["if it is another version"] = {"Range": within, "If-Range": '"other"'}
    asked["if it is weakly the first"] = {"Range": within, "If-Range": 'W/"1"'}
    asked["if it is of the date"] = {"Range": within, "If-Range": MODIFIED}
    asked["if it is of another date"] = {"Range": within, "If-Range": "Sat, 21 Nov 2026 10:00:00 GMT"}
    return asked


ONE_SHORT = {"the first", "within", "over a boundary", "the end", "beyond the end", "the last"}


class Table:
    """The cells of one origin and one policy, each at a path of its own."""

    def __init__(self, edges: Edges, url: str, origin: Origin, port: int) -> None:
        self.edges = edges
        self.url = url
        self.origin = origin
        self.port = port
        self.wrong: list[str] = []
        self.number = 0

    def path(self) -> str:
        self.number += 1
        return f"/{self.number}"

    async def check(
        self,
        where: str,
        path: str,
        what: str,
        asked: dict[str, str],
        versions: tuple[int, ...] = (1,),
        client: RawClient | None = None,
        method: str = "GET",
        is_alone: bool = True,
    ) -> Reply:
        """`is_alone`: whether all that the origin sends meanwhile is for this."""
        sent, requests = self.origin.sent, len(self.origin.requests)
        reply = await in_time(ask(client or self.client, path, asked, method))
        reason = differs(reply, asked, method, self.origin, set(versions))
        spent = self.origin.sent - sent
        # What begins far behind the beginning of what an origin gives whole, it must send up to there.
        is_cheap = self.origin.kind.ranges or what in {"the first", "within", "over a boundary"}
        is_short = what in ONE_SHORT and "Range" in asked
        if is_short and is_alone and is_cheap and reply.head.status == 206 and spent > CHEAP:
            reason = f"{spent} bytes for a hundred; {reason}"
        if is_short and is_alone and len(self.origin.requests) - requests > 3:
            reason = f"{len(self.origin.requests) - requests} requests; {reason}"
        if reason:
            status = reply.head.all("Cache-Status")
            self.wrong.append(f"{where}: {what} ({asked.get('Range')}): {reason} [{status}]")
        return reply

    async def reconnect(self) -> None:
        self.client = await RawClient.connect(self.port)
        self.edges.keep(self.client)

    def purge(self) -> None:
        assert self.edges.engine.cache is not None
        self.edges.engine.cache.purge(prefix=f"{self.url}/")

    def soft_purge(self) -> None:
        assert self.edges.engine.cache is not None
        self.edges.engine.cache.purge(prefix=f"{self.url}/", soft=True)

    async def settled(self) -> None:
        """What goes on behind the clients is over."""
        await until(lambda: self.edges.engine.stats().streams == 0, "what is fetched has come")


@asynccontextmanager
async def table(edges: Edges, kind: Kind, policy: Caching) -> AsyncIterator[Table]:
    origin = Origin(kind)
    async with ScriptedOrigin(origin) as scripted:
        cells = Table(edges, scripted.url, origin, (await edges.relay(scripted.url, caching=policy)).port)
        await cells.reconnect()
        yield cells
        cells.client.abort()
        await cells.settled()
        assert edges.engine.cache is not None
        edges.engine.cache.clear()
    assert not cells.wrong, f"{len(cells.wrong)} wrong:\n" + "\n".join(cells.wrong)


alone = pytest.fixture(caching_under_test, params=THREADS[:1], name="alone")
"""One engine thread: the table is large."""

cases = pytest.mark.parametrize("kind", KINDS)
policies = pytest.mark.parametrize("policy", POLICIES)


@policies
@cases
async def test_ranges_of_what_is_not_there_and_of_what_is(caching: Edges, kind: str, policy: str) -> None:
    async with table(caching, KINDS[kind], POLICIES[policy]) as cells:
        for what, asked in ranges_of(KINDS[kind].size).items():
            path = cells.path()
            await cells.check("miss", path, what, asked)
            await cells.check("again", path, what, asked)
            await cells.check("HEAD", path, what, asked, method="HEAD")
        # One path, so that each finds what those before have left.
        path = cells.path()
        for what, asked in ranges_of(KINDS[kind].size).items():
            await cells.check("after others", path, what, asked)


@policies
@cases
async def test_ranges_of_what_was_asked_for_whole(alone: Edges, kind: str, policy: str) -> None:
    async with table(alone, KINDS[kind], POLICIES[policy]) as cells:
        path = cells.path()
        await cells.check("whole", path, "whole", {})
        for what, asked in ranges_of(KINDS[kind].size).items():
            await cells.check("after the whole", path, what, asked)
        await cells.check("whole, after ranges", path, "whole", {})


@policies
@cases
async def test_ranges_of_what_is_stale(alone: Edges, kind: str, policy: str) -> None:
    async with table(alone, KINDS[kind], POLICIES[policy]) as cells:
        for is_whole in (True, False):
            path = cells.path()
            for what, asked in ranges_of(KINDS[kind].size).items():
                await cells.check("before", path, what, {} if is_whole else asked)
                await cells.settled()
                cells.soft_purge()
                await cells.check(f"stale, whole before: {is_whole}", path, what, asked)


@policies
@cases
async def test_ranges_of_what_has_changed(alone: Edges, kind: str, policy: str) -> None:
    """Stale or fresh, an answer is of one version; what is fresh may be of the one before."""
    async with table(alone, KINDS[kind], POLICIES[policy]) as cells:
        for is_stale in (True, False):
            path, version = cells.path(), 1
            for what, asked in ranges_of(KINDS[kind].size).items():
                await cells.check("before", path, what, {"Range": "bytes=0-99"}, (version, version - 1))
                await cells.settled()
                version = 3 - version
                cells.origin.versions[path] = version
                if is_stale:
                    cells.soft_purge()
                versions = (version,) if is_stale else (1, 2)
                try:
                    await cells.check(f"changed, stale: {is_stale}", path, what, asked, versions)
                except (EOFError, ConnectionError):
                    # It began with a slice that is fresh, and the next is of another version: it cannot be whole.
                    assert not is_stale
                    assert POLICIES[policy].range_fill in {"auto", "slices"}
                    await cells.reconnect()
                    await cells.check("after a break", path, what, asked, versions)
                cells.purge()


@policies
@cases
async def test_ranges_of_what_is_on_its_way(alone: Edges, kind: str, policy: str) -> None:
    """Another has asked for the whole, which stops after its first bytes. No client waits for the rest of a body
    that is too large, or not stored."""
    async with table(alone, KINDS[kind], POLICIES[policy]) as cells, AsyncExitStack() as stack:
        origin = cells.origin
        for what, asked in ranges_of(KINDS[kind].size).items():
            path = cells.path()
            origin.held[path], origin.under_way = asyncio.Event(), asyncio.Event()
            other = await RawClient.connect(cells.port)
            stack.callback(other.abort)
            await other.get(path)
            head = await in_time(other.head())
            if POLICIES[policy].range_fill != "slices":
                await in_time(origin.under_way.wait())
            is_asked_elsewhere = KINDS[kind].size == LARGE and KINDS[kind].ranges
            if is_asked_elsewhere and what in ONE_SHORT:
                # The other is served in slices as well, one ahead of it.
                is_alone = POLICIES[policy].range_fill != "slices"
                await cells.check("on its way", path, what, asked, is_alone=is_alone)
                origin.held[path].set()
            else:
                checking = asyncio.create_task(
                    cells.check("on its way", path, what, asked, is_alone=is_asked_elsewhere)
                )
                await asyncio.sleep(0)
                origin.held[path].set()
                await checking
            await in_time(other.body(head))


async def test_ranges_of_one_large_object_wait_for_one_request_a_slice(caching: Edges) -> None:
    origin = Origin(Kind())
    policy = POLICIES["auto"]
    async with ScriptedOrigin(origin) as scripted:
        served = await caching.relay(scripted.url, caching=policy)
        clients = [await caching.connect(served) for _ in range(60)]
        starts = [SLICE * (number % 3) * 10 + number for number in range(len(clients))]
        replies = await asyncio.gather(
            *(
                in_time(ask(client, "/film", {"Range": f"bytes={start}-{start + 99}"}))
                for client, start in zip(clients, starts, strict=True)
            )
        )
        whole = origin.film(1)
        for reply, start in zip(replies, starts, strict=True):
            assert reply.head.status == 206
            assert (reply.body == whole[start : start + 100]) is True
        ranges = sorted(request.get("Range") or "" for request in origin.requests)
        assert len(ranges) == 3, ranges
        assert origin.sent < 4 * SLICE


async def test_what_is_large_is_fetched_in_slices_once_that_is_known(caching: Edges) -> None:
    origin = Origin(Kind())
    async with ScriptedOrigin(origin) as scripted:
        client = await caching.connect(await caching.relay(scripted.url, caching=POLICIES["auto"]))
        for _ in range(3):
            reply = await in_time(client.ask("/film"))
            assert (reply.head.status, (reply.body == origin.film(1)) is True) == (200, True)
        # The first is passed on as it comes, the second fetches slices, the third finds them.
        wholes = [request for request in origin.requests if request.get("Range") is None]
        assert len(wholes) == 1
        assert len(origin.requests) == 1 + LARGE // SLICE + 1
        assert "hit" in (reply.head.one("Cache-Status") or "")


async def test_what_is_small_is_asked_for_whole_once(caching: Edges) -> None:
    """The origin sees no Range that no client has sent."""
    origin = Origin(Kind(size=SMALL))
    async with ScriptedOrigin(origin) as scripted:
        client = await caching.connect(await caching.relay(scripted.url, caching=POLICIES["auto"]))
        await in_time(client.ask("/film"))
        reply = await in_time(client.ask("/film", "Range: bytes=-100"))
        assert (reply.head.status, reply.body == origin.film(1)[-100:]) == (206, True)
        assert [request.get("Range") for request in origin.requests] == [None]


async def test_origins_that_disagree_about_a_tag_break_one_response_at_most(caching: Edges) -> None:
    """Slices that no setting asked for are left alone for a while."""
    origin = Origin(Kind())

    class Disagreeing:
        """Another tag for each request, and the same bytes."""

        async def __call__(self, peer: Any) -> None:
            while True:
                request = await peer.request()
                origin.requests.append(request)
                number = len(origin.requests)
                head, body, _ = origin.says(request)
                if request.get("If-Range"):
                    whole = origin.film(1)
                    head, body, _ = origin._framed(
                        ["Cache-Control: max-age=60"], "200 OK", whole, "length", "GET"
                    )
                await peer.send(head.replace(b'ETag: "1"', f'ETag: "{number}"'.encode()) + body)

    async with ScriptedOrigin(Disagreeing()) as scripted:
        served = await caching.relay(scripted.url, caching=POLICIES["auto"])
        outcomes = []
        for _ in range(5):
            client = await caching.connect(served)
            try:
                reply = await in_time(client.ask("/film", "Range: bytes=0-"))
            except (EOFError, ConnectionError):
                outcomes.append(False)
            else:
                outcomes.append(reply.head.status == 206 and reply.body == origin.film(1))
        assert outcomes == [False, True, True, True, True]


async def test_an_unsatisfiable_range_is_not_kept_for_others(caching: Edges) -> None:
    """Whatever its origin says of caching: it is about one request's Range."""
    for name, policy in POLICIES.items():
        origin = Origin(Kind())
        async with ScriptedOrigin(origin) as scripted:
            client = await caching.connect(await caching.relay(scripted.url, caching=policy))
            reply = await in_time(client.ask("/film", f"Range: bytes={LARGE}-"))
            assert (reply.head.status, name) == (416, name)
            reply = await in_time(client.ask("/film", "Range: bytes=0-99"))
            assert (reply.head.status, name) == (206, name)
            assert (await in_time(client.ask("/film"))).head.status == 200


LANES = ["site", "stock", "protected", "worker", "library"]
LANE_KINDS = [
    "large",
    "large, weak",
    "large, no-store",
    "large, without ranges",
    "small",
    "small, told by others",
]


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("kind", LANE_KINDS)
async def test_every_lane_follows_ranges(caching: Edges, relaying: Relaying, kind: str, lane: str) -> None:
    policy = POLICIES["auto"]
    origin = Origin(KINDS[kind])
    async with ScriptedOrigin(origin) as scripted, AsyncExitStack() as stack:
        if lane == "worker":
            await relaying.serve(relaying.gateway(scripted.url, caching=policy).relay)
            client = await relaying.connect()
        elif lane == "protected":
            # The origin, and so the cache, hears nothing of the token.
            options = {"decision_key": "header:Authorization", "headers": {"Authorization": None}}
            served = await caching.relay(scripted.url, caching=policy, authorise=Hook(), **options)
            client = Authorized(await caching.connect(served))  # type: ignore[assignment]
        elif lane == "library":
            client = Library(caching.engine, scripted.url, policy)  # type: ignore[assignment]
        else:
            app = web.Application()
            app.router.add_get("/{path:.*}", caching.gateway(scripted.url, caching=policy).relay)
            port = await stack.enter_async_context(serving(caching, lane, app))
            client = await stack.enter_async_context(client_of(port))
        wrong = []
        for what, asked in ranges_of(KINDS[kind].size).items():
            for turn in ("miss", "again"):
                sent = origin.sent
                reply = await in_time(ask(client, f"/{what.replace(' ', '-')}", asked))
                reason = differs(reply, asked, "GET", origin, {1})
                if what in ONE_SHORT and origin.kind.ranges and origin.sent - sent > CHEAP:
                    reason = f"{origin.sent - sent} bytes; {reason}"
                if reason:
                    wrong.append(f"{turn}: {what}: {reason}")
        assert not wrong, "\n".join(wrong)


class Authorized:
    """A client whom a hook lets in."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def ask(self, path: str, *fields: str, method: str = "GET") -> Reply:
        return await self.client.ask(path, *fields, "Authorization: good-1", method=method)


class Library:
    """`engine.get`, asked as a client is."""

    def __init__(self, engine: penstock.Engine, origin: str, policy: Caching) -> None:
        self.engine, self.origin, self.policy = engine, origin, policy

    async def ask(self, path: str, *fields: str, method: str = "GET") -> Reply:
        headers = dict(field.split(": ", 1) for field in fields)
        url = self.origin + path
        async with self.engine.request(method, url, headers=headers, caching=self.policy) as response:
            body = await response.bytes()
            pairs = tuple((name.title(), value) for name, value in response.headers.items())
            return Reply(Head("HTTP/1.1", response.status, response.reason, pairs), body)


FULL = 2 * 1024 * 1024


@pytest.mark.parametrize("policy", POLICIES)
async def test_ranges_where_the_cache_is_full(policy: str) -> None:
    """Of what is being fetched and read, which nothing can take the place of."""
    size = FULL - 300 * 1024
    fill = Caching(range_fill=POLICIES[policy].range_fill, slice=SLICE, max_object=FULL)
    async with penstock.Engine(memory="32MiB", cache=config.Cache(memory=FULL)) as engine:
        edges, origin = Edges(engine), Origin(Kind(size=size))
        async with ScriptedOrigin(origin) as scripted:
            held, served = asyncio.Event(), await edges.relay(scripted.url, caching=Caching(max_object=FULL))
            other = await edges.connect(served)
            origin.held["/held"], origin.stops_after = held, size - 1
            await other.get("/held")
            head = await in_time(other.head())
            await in_time(origin.under_way.wait())
            assert engine.cache is not None
            await until(lambda: engine.cache.stats().used > size - SLICE, "it is nearly full")  # type: ignore[union-attr]
            client = await edges.connect(await edges.relay(scripted.url, caching=fill))
            wrong = []
            for what, asked in ranges_of(size).items():
                for turn in ("miss", "again"):
                    reply = await in_time(ask(client, f"/{what.replace(' ', '-')}", asked))
                    reason = differs(reply, asked, "GET", origin, {1})
                    wrong += [f"{turn}: {what}: {reason}"] if reason else []
            assert engine.cache.stats().used <= FULL
            held.set()
            assert len(await in_time(other.body(head))) == size
        await edges.close()
        assert not wrong, "\n".join(wrong)
