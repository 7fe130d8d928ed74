"""Large objects, which are fetched, stored and served in slices of one version."""

import asyncio
import random

import pytest

from penstock.config import Caching
from penstock.testing import ScriptedOrigin
from support.client import RawClient, Reply
from support.edges import Edges
from support.films import BODY, FRESH, SLICE, SLICED, SLICES, Film, film, first_slice, parts_of, slices
from support.waiting import in_time, until

LENGTH = len(BODY)


def check(reply: Reply, expected: bytes = BODY) -> None:
    """Of a whole response. No explanation of what differs: pytest would take minutes for it."""
    assert (reply.head.status, reply.head.one("Content-Length")) == (200, str(len(expected)))
    assert (reply.body == expected) is True


RANGES = {
    "within the first slice": ("0-99", [first_slice(0)]),
    "within another slice": (f"{SLICE * 3 + 5}-{SLICE * 3 + 99}", [first_slice(3)]),
    "over a boundary": (f"{SLICE - 1}-{SLICE}", [first_slice(0), *slices(1)]),
    "over three slices": (f"{SLICE + 7}-{SLICE * 3 + 7}", [first_slice(1), *slices(2, 3)]),
    "to the end": (f"{SLICE * 9 + 5}-", [first_slice(9), *slices(10)]),
    "the last byte": (f"{LENGTH - 1}-", [first_slice(10)]),
    "beyond the end": (f"{LENGTH - 5}-{LENGTH + SLICE * 5}", [first_slice(10)]),
    "the last bytes": ("-5", [first_slice(0), *slices(10)]),
    "more than there are": (f"-{LENGTH * 2}", [first_slice(0), *slices(*range(1, SLICES + 1))]),
    "two that are far apart": (f"0-9,{SLICE * 5}-{SLICE * 5 + 9}", [first_slice(0), *slices(5)]),
    "two the other way round": (f"{SLICE * 5}-{SLICE * 5 + 9},0-9", [first_slice(5), *slices(0)]),
}


@pytest.mark.parametrize("what", RANGES)
async def test_a_range_costs_its_slices_once(caching: Edges, what: str) -> None:
    text, asked = RANGES[what]
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for is_warm in (False, True):
            reply = await in_time(client.ask("/film", f"Range: bytes={text}"))
            assert reply.head.status == 206
            assert len(parts_of(reply.head, reply.body, BODY)) == text.count(",") + 1
            assert ("hit" in (reply.head.one("Cache-Status") or "")) == is_warm
            assert script.ranges == asked


async def test_ranges_that_overlap_cost_what_is_missing(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for text, asked in (
            (f"{SLICE * 2}-{SLICE * 4 - 1}", [first_slice(2), *slices(3)]),
            (f"{SLICE * 3 + 1}-{SLICE * 5}", slices(4, 5)),
            (f"{SLICE * 1 + 1}-{SLICE * 6}", slices(1, 6)),
        ):
            before = len(script.requests)
            reply = await in_time(client.ask("/film", f"Range: bytes={text}"))
            parts_of(reply.head, reply.body, BODY)
            assert script.ranges[before:] == asked
        # All of it, which asks for the rest.
        before = len(script.requests)
        check(await in_time(client.ask("/film")))
        assert script.ranges[before:] == slices(0, 7, 8, 9, 10)
        assert {request.get("If-Range") for request in script.requests[1:]} == {'"1"'}


async def test_a_whole_response_is_fetched_slice_by_slice_and_kept(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for _ in range(2):
            check(await in_time(client.ask("/film")))
        assert script.ranges == [first_slice(0), *slices(*range(1, SLICES + 1))]


async def test_if_range_means_what_is_stored(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for path in ("/cold", "/cold"):
            reply = await in_time(client.ask(path, "Range: bytes=20000-20009", 'If-Range: "1"'))
            assert parts_of(reply.head, reply.body, BODY) == [BODY[20000:20010]]
        check(await in_time(client.ask("/other", "Range: bytes=20000-20009", 'If-Range: "0"')))
        check(await in_time(client.ask("/cold", "Range: bytes=20000-20009", 'If-Range: "0"')))


async def test_head_is_answered_from_slices(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        # Nothing is stored: it is passed on as it came.
        cold = await in_time(client.ask("/film", method="HEAD"))
        await in_time(client.ask("/film", "Range: bytes=0-9"))
        warm = await in_time(client.ask("/film", method="HEAD"))
        for reply in (cold, warm):
            assert (reply.head.status, reply.head.one("Content-Length")) == (200, str(LENGTH))
        assert [request.method for request in script.requests] == ["HEAD", "GET"]


async def test_a_condition_is_answered_from_slices(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for _ in range(2):
            assert (await in_time(client.ask("/film", 'If-None-Match: "1"'))).head.status == 304
        assert script.ranges == [first_slice(0)]


async def test_a_range_that_begins_after_the_end_is_answered_with_416(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        # In the last slice, whose answer tells it; after it, where the origin does; and known.
        for start in (LENGTH, LENGTH + SLICE * 2, LENGTH + SLICE * 2):
            reply = await in_time(client.ask("/film", f"Range: bytes={start}-"))
            assert (reply.head.status, reply.head.one("Content-Range")) == (416, f"bytes */{LENGTH}")
        assert script.ranges == [first_slice(10)]


@pytest.mark.parametrize("size", [0, 1, SLICE - 1, SLICE, SLICE + 1, SLICE * 2])
async def test_what_is_no_larger_than_some_slices(caching: Edges, size: int) -> None:
    body = film(size=size)
    script = Film(body)
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for _ in range(2):
            check(await in_time(client.ask("/film")), body)
        if size:
            reply = await in_time(client.ask("/film", "Range: bytes=-1"))
            assert parts_of(reply.head, reply.body, body) == [body[-1:]]
        # There is no range of what is empty: it is asked for as it is.
        expected = [first_slice(0), None] if not size else [first_slice(0), *slices(1, body=body)]
        assert script.ranges == expected[: 1 if 0 < size <= SLICE else 2]


async def test_one_slice_is_fetched_ahead_and_no_more(caching: Edges) -> None:
    script = Film()
    script.held[SLICE * 2] = asyncio.Event()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client, other = await caching.connect(served), await caching.connect(served)
        await client.get("/film")
        await in_time(client.head())
        assert (await in_time(client.reader.readexactly(SLICE * 2)) == BODY[: SLICE * 2]) is True
        # The third one is asked for as soon as the second is read, and the fourth when the third has come.
        await script.has_been_asked(3)
        await in_time(other.ask("/other", "Range: bytes=0-0"))
        assert script.ranges == [first_slice(0), *slices(1, 2), first_slice(0)]
        script.held[SLICE * 2].set()
        assert (await in_time(client.reader.readexactly(LENGTH - SLICE * 2)) == BODY[SLICE * 2 :]) is True


async def test_a_crowd_costs_each_slice_once(caching: Edges) -> None:
    choose = random.Random(7)
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        clients = [await caching.connect(served) for _ in range(50)]
        wanted = []
        for _ in clients:
            first = choose.randrange(LENGTH - 1)
            wanted.append((first, min(LENGTH - 1, first + choose.randrange(SLICE * 3))))

        async def read(client: RawClient, first: int, last: int) -> None:
            reply = await in_time(client.ask("/film", f"Range: bytes={first}-{last}"))
            assert parts_of(reply.head, reply.body, BODY) == [BODY[first : last + 1]]

        await asyncio.gather(
            *(read(client, first, last) for client, (first, last) in zip(clients, wanted, strict=True))
        )
        distinct = {number for first, last in wanted for number in range(first // SLICE, last // SLICE + 1)}
        starts = [int((text or "").partition("-")[0]) for text in script.ranges]
        assert sorted(starts) == [number * SLICE for number in sorted(distinct)]


@pytest.mark.parametrize("policy", [SLICED, Caching(range_fill="asked")], ids=["slices", "asked"])
async def test_those_who_want_one_part_wait_for_one_request(caching: Edges, policy: Caching) -> None:
    script = Film()
    script.held[SLICE] = asyncio.Event()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        first = await caching.connect(served)
        await first.get("/film", f"Range: bytes={SLICE}-{SLICE + 999}")
        await script.has_been_asked(1)
        # Within what is on its way.
        others = [await caching.connect(served) for _ in range(20)]
        for number, client in enumerate(others):
            await client.get("/film", f"Range: bytes={SLICE + number}-{SLICE + 999 - number}")
        await until(lambda: served.requests == 21, "all have asked")
        script.held[SLICE].set()
        for number, client in enumerate([first, *others]):
            skipped = max(0, number - 1)
            body = await in_time(client.body(await in_time(client.head())))
            assert body == BODY[SLICE + skipped : SLICE + 1000 - skipped]
        assert len(script.requests) == 1


async def test_those_who_want_other_slices_do_not_wait(caching: Edges) -> None:
    script = Film()
    script.held[0] = asyncio.Event()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        first, second = await caching.connect(served), await caching.connect(served)
        await first.get("/film", "Range: bytes=0-9")
        await script.has_been_asked(1)
        reply = await in_time(second.ask("/film", f"Range: bytes={SLICE * 5}-{SLICE * 5 + 9}"))
        assert reply.body == BODY[SLICE * 5 : SLICE * 5 + 10]
        script.held[0].set()
        assert await in_time(first.body(await in_time(first.head()))) == BODY[:10]


@pytest.mark.parametrize("policy", [SLICED, Caching(range_fill="asked")], ids=["slices", "asked"])
async def test_parts_that_come_at_once_stand_beside_each_other(caching: Edges, policy: Caching) -> None:
    """All are asked for before one of them is answered."""
    script = Film()
    starts = [number * SLICE for number in range(SLICES)]
    script.held = {start: asyncio.Event() for start in starts}
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        clients = [await caching.connect(served) for _ in starts]
        for client, start in zip(clients, starts, strict=True):
            await client.get("/film", f"Range: bytes={start}-{start + SLICE - 1}")
        await script.has_been_asked(SLICES)
        for start in reversed(starts):
            script.held[start].set()
        for client, start in zip(clients, starts, strict=True):
            body = await in_time(client.body(await in_time(client.head())))
            assert (body == BODY[start : start + SLICE]) is True
        reply = await in_time(clients[0].ask("/film", f"Range: bytes=0-{SLICES * SLICE - 1}"))
        assert (reply.body == BODY[: SLICES * SLICE]) is True
        assert len(script.requests) == SLICES


@pytest.mark.parametrize("policy", [SLICED, Caching(range_fill="asked")], ids=["slices", "asked"])
async def test_parts_of_two_versions_never_stand_beside_each_other(caching: Edges, policy: Caching) -> None:
    """Two parts are asked for at once, and the origin has another version by the time it answers the second."""
    new = film(2)
    script = Film()
    script.held = {0: asyncio.Event(), SLICE: asyncio.Event()}
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        clients = [await caching.connect(served) for _ in range(2)]
        for number, client in enumerate(clients):
            await client.get("/film", f"Range: bytes={number * SLICE}-{(number + 1) * SLICE - 1}")
        await script.has_been_asked(2)
        script.held[0].set()
        assert (await in_time(clients[0].body(await in_time(clients[0].head()))) == BODY[:SLICE]) is True
        script.body, script.tag = new, '"2"'
        script.held[SLICE].set()
        body = await in_time(clients[1].body(await in_time(clients[1].head())))
        assert (body == new[SLICE : SLICE * 2]) is True
        reply = await in_time(clients[0].ask("/film", f"Range: bytes=0-{SLICE * 2 - 1}"))
        assert (reply.body == new[: SLICE * 2]) is True
        assert reply.head.one("ETag") == '"2"'
        # The part of the new version that was there is not fetched again.
        assert script.ranges[2:] == [f"0-{SLICE - 1}"]


async def test_what_must_be_confirmed_is_confirmed_once_for_all_slices(caching: Edges) -> None:
    script = Film(BODY, '"1"', "Cache-Control: no-cache")
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        check(await in_time(client.ask("/film")))
        before = len(script.requests)
        check(await in_time(client.ask("/film")))
        assert [request.get("If-None-Match") for request in script.requests[before:]] == ['"1"']
        script.body, script.tag = film(2), '"2"'
        check(await in_time(client.ask("/film")), film(2))


async def test_one_request_refreshes_slices_that_may_be_served_stale(caching: Edges) -> None:
    script = Film(BODY, '"1"', "Cache-Control: max-age=0, stale-while-revalidate=60")
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        await in_time(client.ask("/film", "Range: bytes=0-9"))
        script.body, script.tag, script.fields = film(2), '"2"', (FRESH,)
        assert (await in_time(client.ask("/film", "Range: bytes=0-9"))).body == BODY[:10]
        async with asyncio.timeout(10):
            while (await client.ask("/film", "Range: bytes=0-9")).body == BODY[:10]:
                pass
        # The same slice, under a condition.
        assert script.ranges == [first_slice(0)] * 2
        assert script.requests[1].get("If-None-Match") == '"1"'


async def test_a_slice_joins_what_was_confirmed_for_other_requests_while_it_came(caching: Edges) -> None:
    script = Film(BODY, '"1"', FRESH, "Vary: X-Kind")
    script.held[SLICE] = asyncio.Event()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client, other = await caching.connect(served), await caching.connect(served)
        await in_time(client.ask("/film", "X-Kind: a", "Range: bytes=0-9"))
        coming = asyncio.create_task(client.ask("/film", "X-Kind: a", f"Range: bytes={SLICE}-{SLICE + 9}"))
        await script.has_been_asked(2)
        await in_time(other.ask("/film", "X-Kind: b", "Range: bytes=0-9"))
        script.held[SLICE].set()
        await in_time(coming)
        for kind in ("b", "a"):
            check(await in_time(other.ask("/film", f"X-Kind: {kind}")))
        asked = [text for text in script.ranges if text is not None]
        confirmed = [request for request in script.requests if request.get("If-None-Match")]
        assert (len(confirmed), len(script.requests)) == (1, SLICES + 2), f"slices are fetched once: {asked}"
