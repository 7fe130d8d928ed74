"""How requests went, by exact counts: each is counted once."""

from dataclasses import astuple, dataclass, replace

import pytest

from penstock.config import Caching
from penstock.testing import RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import FRESH, NumberedOrigin, numbered
from support.waiting import in_time, until


@dataclass(frozen=True)
class Counts:
    hits: int = 0
    stale: int = 0
    revalidated: int = 0
    collapsed: int = 0
    misses: int = 0
    passed: int = 0
    errors: int = 0


def counted(edges: Edges) -> Counts:
    assert edges.engine.cache is not None
    stats = edges.engine.cache.stats()
    return Counts(
        stats.hits, stats.stale, stats.revalidated, stats.collapsed, stats.misses, stats.passed, stats.errors
    )


async def test_each_request_is_counted_once(caching: Edges) -> None:
    control = {
        "/fresh": FRESH,
        "/checked": "Cache-Control: no-cache",
        "/swr": "Cache-Control: max-age=0, stale-while-revalidate=60",
        "/private": "Cache-Control: private",
    }

    def says(_number: int, request: RecordedRequest) -> bytes:
        if request.get("If-None-Match") is not None:
            return answer(control[request.target], 'ETag: "a"', status="304 Not Modified")
        if request.target == "/gone":
            return b""
        body = b"" if request.method == "HEAD" else b"ok"
        return answer(control[request.target], 'ETag: "a"', "Content-Length: 2") + body

    async with ScriptedOrigin(NumberedOrigin(says)) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        expected = Counts()

        async def ask(went: str, target: str, *fields: str, method: str = "GET") -> None:
            nonlocal expected
            await in_time(client.ask(target, *fields, method=method))
            expected = replace(expected, **{went: getattr(expected, went) + 1})
            assert counted(caching) == expected, (target, fields, method)

        await ask("misses", "/fresh")
        await ask("hits", "/fresh")
        await ask("hits", "/fresh", method="HEAD")
        await ask("hits", "/fresh", 'If-None-Match: "a"')
        await ask("hits", "/fresh", "Range: bytes=0-0")
        await ask("revalidated", "/fresh", "Cache-Control: no-cache")
        await ask("misses", "/checked")
        await ask("revalidated", "/checked")
        await ask("misses", "/swr")
        await ask("stale", "/swr")
        await ask("passed", "/private")
        await ask("passed", "/private")
        await ask("passed", "/fresh", "Cache-Control: no-store")
        await ask("passed", "/fresh", 'If-Match: "a"')
        await ask("passed", "/fresh", "Content-Length: 0", method="POST")
        await ask("errors", "/fresh", "Cache-Control: only-if-cached")


async def test_an_origin_that_fails_is_an_error_and_what_stands_in_is_stale(caching: Edges) -> None:
    script = NumberedOrigin(numbered("Cache-Control: max-age=0, stale-if-error=60"))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert (await client.ask("/a")).body == b"1"
    assert (await in_time(client.ask("/a"))).body == b"1"
    assert (await in_time(client.ask("/b"))).head.status == 502
    assert counted(caching) == Counts(misses=1, stale=1, errors=1)


@pytest.mark.parametrize("caching", [pytest.param(1, id="one thread")], indirect=True)
async def test_who_waits_for_another_is_collapsed(caching: Edges) -> None:
    """On one thread: who has asked has begun to wait, before the origin's answer is read."""
    script = NumberedOrigin(numbered(), 1)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        clients = [await caching.connect(served) for _ in range(5)]
        for client in clients:
            await client.get("/a")
        await until(lambda: served.requests == len(clients), "all have asked")
        assert counted(caching) == Counts()
        script.go.set()
        for client in clients:
            assert (await in_time(client.head())).status == 200
        assert counted(caching) == Counts(misses=1, collapsed=len(clients) - 1)


async def test_nothing_is_counted_of_what_is_not_of_the_cache(caching: Edges) -> None:
    async with ScriptedOrigin(NumberedOrigin(numbered())) as origin:
        client = await caching.connect(await caching.relay(origin.url))
        await client.ask("/a")
        assert sum(astuple(counted(caching))) == 0
