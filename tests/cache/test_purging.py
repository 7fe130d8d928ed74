"""Purges by URL, prefix and tag, hard and soft: what is meant by them, and what they leave behind; and the listing."""

import pytest

from penstock import ConfigurationError, RequestError
from penstock.config import Caching
from penstock.testing import RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges, cache_of
from support.origins import FRESH, NumberedOrigin, numbered


async def test_a_url_means_every_variant_under_every_key_that_a_route_makes_of_it(caching: Edges) -> None:
    def says(number: int, request: RecordedRequest) -> bytes:
        kind = request.get("X-Kind") or ""
        return answer(FRESH, "Vary: X-Kind", f"Content-Length: {len(kind)}") + kind.encode()

    script = NumberedOrigin(says)
    cache = cache_of(caching)
    async with ScriptedOrigin(script) as origin:
        dropping = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        policy = Caching(drop_parameters=(), keep_parameters=["b", "a"], sort_parameters=True)  # type: ignore[arg-type]
        sorting = await caching.connect(await caching.relay(origin.url, caching=policy))
        for kind in ("one", "two"):
            await dropping.ask("/a?b=1&a=2&CMCD=x", f"X-Kind: {kind}")
            await sorting.ask("/a?b=1&a=2&CMCD=x", f"X-Kind: {kind}")
        await dropping.ask("/a")
        keys = [stored.url.removeprefix(origin.url) for stored in cache.list()]
        assert keys == ["/a", *["/a?a=2&b=1"] * 2, *["/a?b=1&a=2"] * 2]
        assert cache.purge(url=f"{origin.url.upper().replace('HTTP', 'http')}/a?b=1&a=2&CMCD=other#x") == 4
        assert [stored.url for stored in cache.list()] == [f"{origin.url}/a"]
        assert cache.purge(url=f"{origin.url}/a?b=1&a=2") == 0
        asked = len(script.requests)
        for client in (dropping, sorting):
            assert (await client.ask("/a?b=1&a=2", "X-Kind: one")).body == b"one"
        assert len(script.requests) == asked + 2


async def test_a_prefix_means_what_begins_so_at_that_origin(caching: Edges) -> None:
    async with (
        ScriptedOrigin(NumberedOrigin(numbered())) as one,
        ScriptedOrigin(NumberedOrigin(numbered())) as other,
    ):
        cache = cache_of(caching)
        for origin in (one, other):
            client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
            for target in ("/live/a", "/live/b?x=1", "/liver", "/vod"):
                await client.ask(target)
        assert cache.purge(prefix=f"{one.url}/live/") == 2
        assert cache.purge(prefix=f"{one.url}/liv") == 1
        # A part of an authority is not a prefix of it.
        assert cache.purge(prefix=one.url[:-1]) == 0
        assert cache.purge(prefix=one.url) == 1
        assert {stored.url.rpartition("/")[0] for stored in cache.list()} == {other.url, f"{other.url}/live"}
        assert cache.clear() == 4
        assert cache.list() == ()


async def test_a_tag_means_what_the_origin_or_the_route_has_given_it(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        tags = {"/a": "Surrogate-Key: red  blue", "/b": "Cache-Tag: blue, light green ,", "/c": "X-None: 1"}
        return answer(FRESH, tags[request.target], "Content-Length: 2") + b"ok"

    cache = cache_of(caching)
    async with ScriptedOrigin(NumberedOrigin(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching(tags=("all",))))
        for target in ("/a", "/b", "/c"):
            await client.ask(target)
        assert [stored.tags for stored in cache.list()] == [
            ("red", "blue", "all"),
            ("blue", "light green", "all"),
            ("all",),
        ]
        assert [cache.purge(tag=tag) for tag in ("green", "Red", "light green", "blue", "all", "all")] == [
            *(0, 0, 1, 1, 1, 0)
        ]


@pytest.mark.parametrize("how", ["url", "prefix", "tag"])
async def test_what_is_purged_softly_is_validated_and_then_fresh_again(caching: Edges, how: str) -> None:
    def says(number: int, _request: RecordedRequest) -> bytes:
        if number == 1:
            return answer(FRESH, 'ETag: "a"', "Cache-Tag: t", "Content-Length: 2") + b"ok"
        return answer(FRESH, 'ETag: "a"', status="304 Not Modified")

    script = NumberedOrigin(says)
    cache = cache_of(caching)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        what = {"url": f"{origin.url}/a", "prefix": origin.url, "tag": "t"}[how]
        assert cache.purge(**{how: what}, soft=True) == 1  # type: ignore[arg-type]
        (stored,) = cache.list()
        assert stored.ttl <= 0
        assert [(await client.ask("/a")).body for _ in range(2)] == [b"ok"] * 2
        assert [request.get("If-None-Match") for request in script.requests] == [None, '"a"']
        (stored,) = cache.list()
        # It is the same body still, and has its tags.
        assert stored.ttl > 0
        assert cache.purge(tag="t") == 1
        await client.ask("/a")
        assert script.requests[-1].get("If-None-Match") is None


async def test_what_is_purged_softly_may_stand_in_for_an_error(caching: Edges) -> None:
    def says(number: int, _request: RecordedRequest) -> bytes:
        if number == 1:
            return answer("Cache-Control: max-age=60, stale-if-error=60", "Content-Length: 2") + b"ok"
        return answer("Content-Length: 0", status="503 Service Unavailable")

    cache = cache_of(caching)
    async with ScriptedOrigin(NumberedOrigin(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        cache.purge(url=f"{origin.url}/a", soft=True)
        assert (await client.ask("/a")).body == b"ok"
        cache.purge(url=f"{origin.url}/a")
        assert (await client.ask("/a")).head.status == 503


async def test_the_listing_says_what_is_there_page_by_page(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        status = "404 Not Found" if request.target == "/b" else "200 OK"
        return answer(FRESH, "Age: 7", "Vary: X-Kind", "Content-Length: 3", status=status) + b"abc"

    cache = cache_of(caching)
    async with ScriptedOrigin(NumberedOrigin(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for target in ("/c", "/a", "/b", "/a", "/a"):
            await client.ask(target)
        await client.ask("/a", "X-Kind: other")
        first = cache.list(limit=1)
        assert [(stored.url, stored.status, stored.size) for stored in first] == [
            (f"{origin.url}/a", 200, 3)
        ] * 2
        assert sorted(stored.hits for stored in first) == [0, 2]
        assert all(7 <= stored.age <= 37 and 23 <= stored.ttl <= 53 for stored in first)
        second = cache.list(after=first[-1].url, limit=2)
        assert [(stored.url, stored.status) for stored in second] == [
            (f"{origin.url}/b", 404),
            (f"{origin.url}/c", 200),
        ]
        assert cache.list(after=second[-1].url) == ()
        assert len(cache.list(prefix=f"{origin.url}/b")) == 1
        stats = cache.stats()
        assert (stats.keys, stats.objects) == (3, 4)
        assert 0 < stats.used <= stats.limit


async def test_what_is_no_purge_is_refused(caching: Edges) -> None:
    cache = cache_of(caching)
    for url in ("/a", "ftp://o/a", "http://", "http://user@o/"):
        with pytest.raises(RequestError):
            cache.purge(url=url)
        with pytest.raises(RequestError):
            cache.list(prefix=url)
    with pytest.raises(RequestError):
        cache.purge(tag="")
    for nothing in ({}, {"url": "http://o/", "tag": "t"}):
        with pytest.raises(ConfigurationError):
            cache.purge(**nothing)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        cache.list(limit=0)


async def test_a_client_cannot_purge(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        if request.method == "PURGE":
            return answer("Content-Length: 0", status="405 Method Not Allowed")
        return answer(FRESH, "Content-Length: 2") + b"ok"

    script = NumberedOrigin(says)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        assert (await client.ask("/a", method="PURGE")).head.status == 405
        assert (await client.ask("/a")).body == b"ok"
        assert [request.method for request in script.requests] == ["GET", "PURGE"]
