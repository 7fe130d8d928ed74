"""The path of a hit: what it does not do, what it sees of a request, and what it holds while a client takes its time."""

from penstock.config import Caching
from penstock.testing import RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import FRESH, NumberedOrigin, always
from support.waiting import in_time, until

from .origins import Held


def work(edges: Edges) -> tuple[int, int, int]:
    """Exchanges begun, copies, wake-ups of the loop."""
    stats = edges.engine.stats()
    return stats.requests, sum(stats.pool.bytes_copied.values()), stats.wakeups


async def test_a_hit_begins_no_exchange_copies_nothing_and_does_not_wake_python(caching: Edges) -> None:
    script = NumberedOrigin(always(FRESH, 'ETag: "a"', body=bytes(range(256)) * 1000))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        whole = (await client.ask("/a")).body
        await until(lambda: caching.engine.stats().streams == 0, "it has been fetched")
        before = work(caching)
        for _ in range(20):
            assert (await client.ask("/a")).body == whole
        assert (await client.ask("/a", method="HEAD")).head.status == 200
        assert (await client.ask("/a", 'If-None-Match: "a"')).head.status == 304
        assert (await client.ask("/a", "Range: bytes=300-70000")).body == whole[300:70001]
        several = await client.ask("/a", "Range: bytes=0-1,70000-70001")
        assert several.head.status == 206
        assert len(several.body) == int(several.head.one("Content-Length") or 0)
        assert (await client.ask("/a", f"Range: bytes={len(whole)}-")).head.status == 416
        assert work(caching) == before
        assert len(script.requests) == 1


async def test_a_follower_of_what_is_on_its_way_begins_no_exchange(caching: Edges) -> None:
    script = Held()
    script.head_may_go.set()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/segment")
        await first.head()
        before = work(caching)
        await second.get("/segment")
        await second.head()
        assert await in_time(second.reader.readexactly(len(script.first))) == script.first
        assert work(caching) == before
        script.rest_may_go.set()
        assert await in_time(second.reader.readexactly(len(script.rest))) == script.rest
        assert await in_time(first.reader.readexactly(80_000)) == script.first + script.rest


async def test_hits_of_one_read_are_all_answered_in_order(caching: Edges) -> None:
    bodies = {"/a": b"a" * 70_000, "/b": b"b" * 10}

    def says(_number: int, request: RecordedRequest) -> bytes:
        body = bodies[request.target]
        return answer(FRESH, f"Content-Length: {len(body)}") + body

    async with ScriptedOrigin(NumberedOrigin(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for path in bodies:
            await client.ask(path)
        order = ["/a", "/b", "/b", "/a", "/b"] * 8
        await client.send(b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in order))
        for path in order:
            head = await in_time(client.head())
            assert await in_time(client.body(head)) == bodies[path]


async def test_a_hit_is_selected_by_what_the_origin_would_be_sent(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        body = (request.get("X-Kind") or "none").encode()
        return answer(FRESH, "Vary: X-Kind", f"Content-Length: {len(body)}") + body

    script = NumberedOrigin(says)
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url)
        served = await caching.serve(
            [
                gateway.native("/set/", rewrite="/", headers={"X-Kind": "set"}, caching=Caching()),
                gateway.native("/dropped/", rewrite="/", headers={"X-Kind": None}, caching=Caching()),
                gateway.native("/", caching=Caching()),
            ]
        )
        client = await caching.connect(served)
        for _ in range(2):
            assert (await client.ask("/a", "X-Kind: own")).body == b"own"
            assert (await client.ask("/a", "X-Kind: other")).body == b"other"
            assert (await client.ask("/set/a", "X-Kind: own")).body == b"set"
            assert (await client.ask("/dropped/a", "X-Kind: own")).body == b"none"
            # About this hop alone: the origin does not see it.
            assert (await client.ask("/a", "X-Kind: own", "Connection: X-Kind")).body == b"none"
        assert [request.get("X-Kind") for request in script.requests] == ["own", "other", "set", None]


async def test_what_a_route_says_to_caches_is_heeded(caching: Edges) -> None:
    script = NumberedOrigin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        gateway = caching.gateway(origin.url)
        served = await caching.serve(
            [
                gateway.native("/set/", headers={"Cache-Control": "no-cache"}, caching=Caching()),
                gateway.native("/added/", add_headers=[("pragma", "no-cache")], caching=Caching()),
                gateway.native("/dropped/", headers={"Cache-Control": None}, caching=Caching()),
            ]
        )
        client = await caching.connect(served)
        for path, asked in [("/set/a", 2), ("/added/a", 4), ("/dropped/a", 5)]:
            for _ in range(2):
                await client.ask(path, *(["Cache-Control: no-cache"] if "dropped" in path else []))
            assert len(script.requests) == asked


async def test_a_range_about_the_hop_alone_is_not_followed(caching: Edges) -> None:
    async with ScriptedOrigin(NumberedOrigin(always(FRESH))) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        assert (await client.ask("/a", "Range: bytes=0-1")).body == b"01"
        assert (await client.ask("/a", "Range: bytes=0-1", "Connection: range")).body == b"0123456789"


async def test_what_waits_for_a_client_counts_until_it_is_taken(caching: Edges) -> None:
    # More than the kernel takes for a client that reads nothing.
    body = b"x" * (6 << 20)
    async with ScriptedOrigin(NumberedOrigin(always(FRESH, body=body))) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        assert (await in_time((await caching.connect(served)).ask("/a"))).body == body
        slow = await caching.connect(served, receive_buffer=4096)
        await slow.get("/a")
        await in_time(slow.head())
        cache = caching.engine.cache
        assert cache is not None
        cache.clear()
        assert cache.stats().used >= len(body)
        slow.abort()
        await until(lambda: cache.stats().used == 0, "the client has released it")
