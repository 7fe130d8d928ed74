"""What a client gets of what is stored: hits, ranges, conditions, validation, staleness, variants, invalidation."""

import asyncio
import json
from collections.abc import Callable

import pytest

from penstock.config import Caching
from penstock.testing import Peer, RecordedRequest, ScriptedOrigin
from support.client import answer
from support.edges import Edges
from support.origins import always
from support.waiting import in_time, until

FRESH = "Cache-Control: max-age=60"

Says = Callable[[int, RecordedRequest], bytes]


class Origin:
    """Answers each request with what `says` makes of its number and head."""

    def __init__(self, says: Says) -> None:
        self.requests: list[RecordedRequest] = []
        self._says = says

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            self.requests.append(request)
            await peer.send(self._says(len(self.requests), request))


async def test_a_hit_has_an_age_and_says_that_it_is_one(caching: Edges) -> None:
    script = Origin(always(FRESH, "Age: 7", 'ETag: "a"'))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        miss, hit = await client.ask("/a"), await client.ask("/a")
        assert miss.head.one("Cache-Status") == "penstock; fwd=uri-miss; fwd-status=200; stored"
        said = hit.head.one("Cache-Status")
        assert said is not None
        assert said.startswith("penstock; hit; ttl=5")
        assert hit.head.one("Age") in {"7", "8"}
        assert hit.body == miss.body == b"0123456789"
        head = await client.ask("/a", method="HEAD")
        assert (head.head.one("Content-Length"), head.body) == ("10", b"")
        assert (await client.ask("/a", 'If-None-Match: "a"')).head.status == 304
        assert len(script.requests) == 1


async def test_ranges_come_out_of_the_whole(caching: Edges) -> None:
    script = Origin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        first = await client.ask("/a", "Range: bytes=2-4")
        assert (first.head.status, first.head.one("Content-Range"), first.body) == (
            206,
            "bytes 2-4/10",
            b"234",
        )
        assert (await client.ask("/a", "Range: bytes=-2")).body == b"89"
        several = await client.ask("/a", "Range: bytes=0-1,4-5")
        kind = several.head.one("Content-Type")
        assert kind is not None
        boundary = kind.removeprefix("multipart/byteranges; boundary=").encode()
        parts = [part.partition(b"\r\n\r\n") for part in several.body.split(b"--" + boundary)[1:-1]]
        assert [(head.strip(), body[:2]) for head, _, body in parts] == [
            (b"Content-Range: bytes 0-1/10", b"01"),
            (b"Content-Range: bytes 4-5/10", b"45"),
        ]
        beyond = await client.ask("/a", "Range: bytes=10-")
        assert (beyond.head.status, beyond.head.one("Content-Range")) == (416, "bytes */10")
        # A slice was asked for, and all of it came.
        assert [request.get("Range") for request in script.requests] == ["bytes=0-1048575"]


async def test_what_is_put_together_of_parts_has_a_length(caching: Edges) -> None:
    body = bytes(range(100))

    def says(_number: int, request: RecordedRequest) -> bytes:
        first, last = map(int, (request.get("Range") or "bytes=0-99").removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        fields = (f"Content-Range: bytes {first}-{last}/100", f"Content-Length: {len(part)}")
        return answer(FRESH, 'ETag: "a"', *fields, status="206 Partial Content") + part

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(range_fill="asked"))
        client = await caching.connect(served)
        await client.ask("/a", "Range: bytes=0-49")
        await client.ask("/a", "Range: bytes=50-99")
        whole = await client.ask("/a")
        assert (whole.head.status, whole.head.one("Content-Length"), whole.body) == (200, "100", body)
        assert [request.get("Range") for request in script.requests] == ["bytes=0-49", "bytes=50-99"]


async def test_a_part_that_is_confirmed_is_completed(caching: Edges) -> None:
    """It must be confirmed each time, and has not all that is asked for the second time."""
    body = bytes(range(100))

    def says(_number: int, request: RecordedRequest) -> bytes:
        fields = ("Cache-Control: no-cache", 'ETag: "a"')
        if request.get("If-None-Match"):
            return answer(*fields, status="304 Not Modified")
        first, last = map(int, (request.get("Range") or "bytes=0-99").removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        fields += (f"Content-Range: bytes {first}-{last}/100", f"Content-Length: {len(part)}")
        return answer(*fields, status="206 Partial Content") + part

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(range_fill="asked"))
        client = await caching.connect(served)
        for first, last in ((0, 49), (25, 74), (30, 60)):
            reply = await client.ask("/a", f"Range: bytes={first}-{last}")
            assert (reply.head.status, reply.body) == (206, body[first : last + 1])
        assert [(request.get("If-None-Match"), request.get("Range")) for request in script.requests] == [
            (None, "bytes=0-49"),
            ('"a"', "bytes=25-74"),
            (None, "bytes=25-74"),
            ('"a"', "bytes=30-60"),
        ]


async def test_what_is_stale_is_confirmed_and_served(caching: Edges) -> None:
    def says(number: int, _request: RecordedRequest) -> bytes:
        if number == 1:
            return answer("Cache-Control: max-age=0", 'ETag: "a"', "Content-Length: 5") + b"first"
        return answer("Cache-Control: max-age=60", 'ETag: "a"', status="304 Not Modified")

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        replies = [await client.ask("/a") for _ in range(3)]
        assert [reply.body for reply in replies] == [b"first"] * 3
        assert [request.get("If-None-Match") for request in script.requests] == [None, '"a"']


async def test_one_request_refreshes_what_may_be_served_stale(caching: Edges) -> None:
    def says(number: int, _request: RecordedRequest) -> bytes:
        control = "Cache-Control: max-age=0, stale-while-revalidate=60" if number == 1 else FRESH
        return answer(control, "Content-Length: 1") + str(number).encode()

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert (await client.ask("/a")).body == b"1"
        assert (await client.ask("/a")).body == b"1"
        await until(lambda: len(script.requests) == 2, "it is fetched anew")

        async with asyncio.timeout(10):
            while (await client.ask("/a")).body != b"2":
                pass
        assert len(script.requests) == 2


async def test_a_stale_one_stands_in_for_an_error(caching: Edges) -> None:
    def says(number: int, _request: RecordedRequest) -> bytes:
        if number == 1:
            return answer("Cache-Control: max-age=0, stale-if-error=60", "Content-Length: 2") + b"ok"
        return answer("Content-Length: 0", status="503 Service Unavailable")

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert [(await client.ask("/a")).body for _ in range(2)] == [b"ok", b"ok"]
        assert len(script.requests) == 2


class FailingOnceStale:
    """Its first answer is of that age when it comes; then it answers 503, or closes."""

    def __init__(self, control: str, age: int, *, closes: bool) -> None:
        self._first = answer(f"Cache-Control: {control}", f"Age: {age}", "Content-Length: 2") + b"ok"
        self._closes = closes
        self._asked = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self._asked += 1
            if self._asked == 1:
                await peer.send(self._first)
            elif self._closes:
                return
            else:
                await peer.send(answer("Content-Length: 0", status="503 Service Unavailable"))


@pytest.mark.parametrize("closes", [False, True], ids=["503", "disconnected"])
async def test_what_is_stale_stands_in_for_an_origin_that_fails_for_a_bounded_time(
    caching: Edges, *, closes: bool
) -> None:
    """RFC 9111, sections 4.2.4 and 4.3.3."""
    for control, age, policy, stands_in in (
        ("max-age=60", 100, Caching(), True),
        ("max-age=60", 359, Caching(), True),
        ("max-age=60", 362, Caching(), False),
        ("max-age=60", 100, Caching(stale_if_error=0), False),
        ("max-age=60, stale-if-error=10", 100, Caching(), False),
        ("max-age=60, stale-if-error=1000", 362, Caching(), True),
        ("max-age=60, must-revalidate", 100, Caching(), False),
        ("max-age=60, proxy-revalidate", 100, Caching(), False),
        ("s-maxage=60", 100, Caching(), False),
        ("max-age=60, no-cache", 100, Caching(), False),
    ):
        script = FailingOnceStale(control, age, closes=closes)
        async with ScriptedOrigin(script) as origin:
            client = await caching.connect(await caching.relay(origin.url, caching=policy))
            assert (await client.ask("/a")).body == b"ok"
            reply = await client.ask("/a")
            if stands_in:
                assert (reply.head.status, reply.body) == (200, b"ok"), (control, age)
                assert "stale-if-error" in (reply.head.one("Cache-Status") or "")
            else:
                assert reply.head.status in {502, 503}, (control, age)


async def test_what_was_never_fresh_is_not_stored_to_stand_in(caching: Edges) -> None:
    """It would take room for nothing else, and there is much of it."""
    async with ScriptedOrigin(Origin(always("Cache-Control: max-age=0"))) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        assert caching.engine.cache is not None
        assert caching.engine.cache.stats().objects == 0


async def test_variants_stand_beside_each_other(caching: Edges) -> None:
    def says(_number: int, request: RecordedRequest) -> bytes:
        body = (request.get("X-Kind") or "none").encode()
        return answer(FRESH, "Vary: X-Kind", f"Content-Length: {len(body)}") + body

    script = Origin(says)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for _ in range(2):
            for kind in ("a", "b"):
                assert (await client.ask("/a", f"X-Kind: {kind}")).body == kind.encode()
        assert len(script.requests) == 2


async def test_an_unsafe_request_makes_what_is_stored_invalid(caching: Edges) -> None:
    script = Origin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.ask("/a")
        await client.ask("/a", "Content-Length: 0", method="POST")
        await client.ask("/a")
        assert [request.method for request in script.requests] == ["GET", "POST", "GET"]


async def test_only_if_cached_does_not_ask_the_origin(caching: Edges) -> None:
    script = Origin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        refused = await client.ask("/a", "Cache-Control: only-if-cached")
        assert (refused.head.status, json.loads(refused.body)["name"]) == (504, "NOT_CACHED")
        assert not script.requests


async def test_what_is_too_large_is_passed_on_and_not_kept(caching: Edges) -> None:
    script = Origin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching(max_object=9))
        client = await caching.connect(served)
        assert [(await client.ask("/a")).body for _ in range(2)] == [b"0123456789"] * 2
        assert len(script.requests) == 2


async def test_what_tells_who_asks_is_not_in_the_key_and_not_sent(caching: Edges) -> None:
    script = Origin(always(FRESH))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for target in ("/a?x=1&CMCD=a", "/a?x=1&CMCD=b", "/a?x=1"):
            await client.ask(target)
        assert [request.target for request in script.requests] == ["/a?x=1"]


async def test_interim_responses_pass(caching: Edges) -> None:
    script = Origin(
        lambda *_: (
            answer("Link: </style>", status="103 Early Hints") + answer(FRESH, "Content-Length: 2") + b"ok"
        )
    )
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        await client.get("/a")
        assert (await in_time(client.head())).status == 103
        head = await in_time(client.head())
        assert (head.status, await client.body(head)) == (200, b"ok")
        assert (await client.ask("/a")).head.status == 200


async def test_what_is_missed_least_leaves(caching: Edges) -> None:
    """40 bodies of 256 KiB pass a cache of 8 MiB; the one that is asked for again and again stays."""
    script = Origin(always(FRESH, body=bytes(256 * 1024)))
    cache = caching.engine.cache
    assert cache is not None
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        for number in range(40):
            await client.ask("/hot")
            await client.ask(f"/{number}")
            stats = cache.stats()
            used, limit = stats.used, stats.limit
            assert used <= limit
        assert [request.target for request in script.requests].count("/hot") == 1
        assert len(script.requests) == 41
        assert used > limit // 2


async def test_fields_for_one_client_reach_it_alone(caching: Edges) -> None:
    script = Origin(always('Cache-Control: max-age=60, private="X-Mine"', "X-Mine: secret"))
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=Caching()))
        assert [(await client.ask("/a")).head.one("X-Mine") for _ in range(2)] == ["secret", None]
        assert len(script.requests) == 1


async def test_what_was_asked_for_before_an_unsafe_request_is_not_stored(caching: Edges) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    requests: list[str] = []

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.read_body()
            requests.append(request.method)
            if len(requests) == 1:
                asked.set()
                await may_answer.wait()
            await peer.send(answer(FRESH, "Content-Length: 2") + b"ok")

    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        slow, other = await caching.connect(served), await caching.connect(served)
        await slow.get("/a")
        await in_time(asked.wait(), "the origin is asked")
        await other.ask("/a", "Content-Length: 0", method="POST")
        may_answer.set()
        assert (await in_time(slow.head())).status == 200
        await other.ask("/a")
        assert requests == ["GET", "POST", "GET"]


async def test_what_has_left_does_not_come_back_when_it_is_confirmed(caching: Edges) -> None:
    """Else its memory would count for ever: only objects that were stored can be evicted."""
    asked, may_confirm = asyncio.Event(), asyncio.Event()
    body = bytes(256 * 1024)

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.get("If-None-Match") is not None:
                asked.set()
                await may_confirm.wait()
                await peer.send(answer(FRESH, 'ETag: "a"', status="304 Not Modified"))
                continue
            control = "Cache-Control: max-age=0" if request.target == "/a" else FRESH
            await peer.send(answer(control, 'ETag: "a"', f"Content-Length: {len(body)}") + body)

    cache = caching.engine.cache
    assert cache is not None
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=Caching())
        slow, other = await caching.connect(served), await caching.connect(served)
        await slow.ask("/a")
        await slow.get("/a")
        await in_time(asked.wait())
        for number in range(40):
            await other.ask(f"/{number}")
        assert cache.list(prefix=f"{origin.url}/a") == ()
        may_confirm.set()
        assert await slow.body(await in_time(slow.head())) == body
        assert cache.list(prefix=f"{origin.url}/a") == ()
