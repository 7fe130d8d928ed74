"""Slices of origins that know no ranges, have no strong entity tag, lie about what they send, or change it on the way.

What cannot be had in slices is fetched as it was asked for. What turns out on the way not to be what was begun is broken
off, and the next request gets what there is.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from penstock.config import Caching
from penstock.testing import RecordedRequest, ScriptedOrigin
from support.client import Head, answer
from support.edges import Edges
from support.films import (
    BODY,
    FRESH,
    SLICE,
    SLICED,
    SLICES,
    Film,
    broken_off,
    film,
    first_slice,
    part,
    parts_of,
    span_of,
    spans_of,
)
from support.waiting import in_time, until

NEW = film(2, len(BODY) + 5000)
HONEST = (FRESH, 'ETag: "1"')

Says = Callable[[Film, RecordedRequest], bytes]


def asked_for(request: RecordedRequest) -> range:
    return span_of(spans_of(request)[0], len(BODY))


def as_whole(script: Film, _request: RecordedRequest) -> bytes:
    return answer(*HONEST, f"Content-Length: {len(script.body)}") + script.body


def with_fields(*fields: str, length: str | None = None) -> Says:
    def says(script: Film, request: RecordedRequest) -> bytes:
        if not spans_of(request):
            return answer(*fields, f"Content-Length: {len(script.body)}") + script.body
        return part(script.body, asked_for(request), *fields, length=length)

    return says


def another_part(script: Film, request: RecordedRequest) -> bytes:
    """Whatever is asked for, it gets the first bytes."""
    return part(script.body, range(100), *HONEST) if spans_of(request) else as_whole(script, request)


def more_than_asked(script: Film, request: RecordedRequest) -> bytes:
    span = asked_for(request) if spans_of(request) else range(0)
    return part(script.body, range(span.start, len(BODY)), *HONEST) if span else as_whole(script, request)


UNSLICED = {
    "it knows no ranges": as_whole,
    "its entity tag is weak": with_fields(FRESH, 'ETag: W/"1"'),
    "it has no entity tag": with_fields(FRESH, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"),
    "it does not tell the length": with_fields(*HONEST, length="*"),
    "its parts are not to be stored": with_fields("Cache-Control: no-store", 'ETag: "1"'),
    "it sends another part": another_part,
    "it sends more than was asked for": more_than_asked,
}


@pytest.mark.parametrize("policy", [SLICED, Caching(range_fill="slices", slice=SLICE, max_object=SLICE)])
@pytest.mark.parametrize("what", UNSLICED)
async def test_what_cannot_be_had_in_slices_is_fetched_as_it_was_asked_for(
    caching: Edges, what: str, policy: Caching
) -> None:
    """Also where it is too large to be kept whole."""
    script = Film()
    script.says = lambda request: UNSLICED[what](script, request)  # type: ignore[method-assign]
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        client, other = await caching.connect(served), await caching.connect(served)
        for asker in (client, other, client):
            reply = await in_time(asker.ask("/film"))
            assert reply.head.status == 200
            assert (reply.body == BODY) is True
        if what == "it knows no ranges":
            # What it sends is the whole, whatever it is asked for.
            assert len(script.requests) <= 3
        else:
            # A second request for the first of them alone.
            assert script.ranges[:2] in ([first_slice(0)], [first_slice(0), None])
            assert set(script.ranges[2:]) <= {None}
        # Nor does a range get what it has not asked for, but where the origin itself sends that.
        reply = await in_time(client.ask("/another", f"Range: bytes={SLICE + 5}-{SLICE + 9}"))
        if reply.head.status == 206 and what != "it does not tell the length":
            assert b"".join(parts_of(reply.head, reply.body, BODY)) in (
                BODY[SLICE + 5 : SLICE + 10],
                BODY[:100] if what == "it sends another part" else b"",
                BODY[SLICE + 5 :] if what == "it sends more than was asked for" else b"",
            )
        elif reply.head.status == 200:
            assert what == "it knows no ranges"


async def test_what_is_missing_is_told_as_it_is(caching: Edges) -> None:
    script = Film()
    script.says = lambda _: answer(FRESH, "Content-Length: 4", status="404 Not Found") + b"none"  # type: ignore[method-assign]
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for fields in ((), ("Range: bytes=5-",)):
            reply = await in_time(client.ask("/film", *fields))
            assert (reply.head.status, reply.body) == (404, b"none")
        assert script.ranges == [first_slice(0)]


def changes(script: Film) -> None:
    script.body, script.tag = NEW, '"2"'


@dataclass
class Change:
    """What the origin answers to the third slice."""

    says: Says
    is_new: bool = True
    """Whether it has another version from then on."""


def ignoring_if_range(script: Film, request: RecordedRequest) -> bytes:
    return part(script.body, span_of(spans_of(request)[0], len(script.body)), FRESH, f"ETag: {script.tag}")


def shorter(script: Film, request: RecordedRequest) -> bytes:
    span = asked_for(request)
    return part(script.body, range(span.start, span.stop - 1), *HONEST)


CHANGES = {
    "the whole of another version": Change(lambda script, request: script.says(request)),
    "a part of another version": Change(ignoring_if_range),
    "412": Change(lambda *_: answer("Content-Length: 0", status="412 Precondition Failed")),
    "416": Change(lambda *_: answer("Content-Range: bytes */5", "Content-Length: 0", status="416 No Range")),
    "404": Change(lambda *_: answer("Content-Length: 0", status="404 Not Found")),
    "503": Change(lambda *_: answer("Content-Length: 0", status="503 Unavailable"), is_new=False),
    "304": Change(lambda *_: answer('ETag: "1"', status="304 Not Modified"), is_new=False),
    "a redirect": Change(
        lambda *_: answer("Location: /new", "Content-Length: 0", status="302 Found"), is_new=False
    ),
    "another length": Change(
        lambda script, request: part(script.body, asked_for(request), *HONEST, length=str(len(BODY) + 1)),
        is_new=False,
    ),
    "a weak entity tag": Change(with_fields(FRESH, 'ETag: W/"1"'), is_new=False),
    "no entity tag": Change(with_fields(FRESH), is_new=False),
    "no Content-Range": Change(
        lambda script, request: (
            answer(*HONEST, f"Content-Length: {len(asked_for(request))}", status="206 Partial Content")
            + script.body[asked_for(request).start : asked_for(request).stop]
        ),
        is_new=False,
    ),
    "another part": Change(another_part, is_new=False),
    "less than was asked for": Change(shorter, is_new=False),
    "what is not to be stored": Change(with_fields("Cache-Control: no-store", 'ETag: "1"'), is_new=False),
}


@pytest.mark.parametrize("followers", [0, 20])
@pytest.mark.parametrize("what", CHANGES)
async def test_what_changes_on_the_way_is_broken_off(caching: Edges, what: str, followers: int) -> None:
    """No client that was sent the head of one version gets a byte of another; the next request gets what there is."""
    change = CHANGES[what]
    script = Film()
    start = SLICE * 2
    script.held[start] = asyncio.Event()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        clients = [await caching.connect(served) for _ in range(1 + followers)]
        heads = []
        for client in clients:
            await client.get("/film")
            head = await in_time(client.head())
            assert (head.status, head.one("Content-Length")) == (200, str(len(BODY)))
            assert (await in_time(client.reader.readexactly(start)) == BODY[:start]) is True
            heads.append(head)
        # All of them wait for the one request.
        await script.has_been_asked(3)
        if change.is_new:
            changes(script)
        script.instead[start] = lambda request: change.says(script, request)
        script.held[start].set()
        for client, head in zip(clients, heads, strict=True):
            rest = await in_time(
                broken_off(client, Head(head.version, 200, "", (("Content-Length", str(len(BODY) - start)),)))
            )
            assert BODY.startswith(rest, start)
            # Nothing of the slice was what was begun.
            assert rest == b""
        assert len(script.requests) == 3
        script.held.clear()
        script.instead.clear()
        client = await caching.connect(served)
        reply = await in_time(client.ask("/film"))
        if what == "404":
            # It is known to be missing, for a moment.
            assert reply.head.status in {200, 404}
        if reply.head.status == 200:
            assert (reply.body == script.body) is True
            assert reply.head.one("ETag") == script.tag


@pytest.mark.parametrize("excess", [-1, 1], ids=["less", "more"])
@pytest.mark.parametrize("number", [0, 3])
async def test_a_part_that_is_not_as_long_as_it_says_is_broken_off_and_not_kept(
    caching: Edges, number: int, excess: int
) -> None:
    def lies(request: RecordedRequest) -> bytes:
        span = asked_for(request)
        honest = part(BODY, span, *HONEST, chunked=True)
        data = BODY[span.start : span.stop + excess]
        return (
            honest.partition(b"\r\n\r\n")[0] + f"\r\n\r\n{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
        )

    script = Film()
    script.instead[number * SLICE] = lies
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        for fields in ((), (f"Range: bytes={number * SLICE}-",)):
            client = await caching.connect(served)
            await client.get("/film", *fields)
            head = await in_time(client.head())
            if head.status == 502:
                # It was seen before anything was sent.
                await in_time(client.body(head))
                continue
            body = await in_time(broken_off(client, head))
            assert BODY.startswith(body, number * SLICE if fields else 0)
        # What is not chunked is as long as it says.
        script.instead.clear()
        reply = await in_time((await caching.connect(served)).ask("/film"))
        assert (reply.body == BODY) is True


async def test_a_part_in_chunks_is_a_part(caching: Edges) -> None:
    script = Film()
    script.says = lambda request: part(BODY, asked_for(request), *HONEST, chunked=True)  # type: ignore[method-assign]
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for _ in range(2):
            assert ((await in_time(client.ask("/film"))).body == BODY) is True
        assert len(script.requests) == SLICES + 1


@pytest.mark.parametrize("is_ranged", [True, False])
async def test_a_new_version_that_is_found_before_the_head_is_served(caching: Edges, is_ranged: bool) -> None:
    """The slice in which the response begins is missing, and the origin has another version by now."""
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        await in_time(client.ask("/film", f"Range: bytes={SLICE * 3}-{SLICE * 3 + 9}"))
        changes(script)
        reply = await in_time(client.ask("/film", *(["Range: bytes=5-20000"] if is_ranged else [])))
        assert reply.head.one("ETag") == '"2"'
        assert (reply.body == (NEW[5:20001] if is_ranged else NEW)) is True
        # The bytes of the old one are gone.
        reply = await in_time(client.ask("/film", f"Range: bytes={SLICE * 3}-{SLICE * 3 + 9}"))
        assert parts_of(reply.head, reply.body, NEW) == [NEW[SLICE * 3 : SLICE * 3 + 10]]


@pytest.mark.parametrize("policy", [SLICED, Caching(range_fill="asked", max_object=SLICE)])
async def test_a_new_version_that_may_not_be_kept_is_served_as_it_was_asked_for(
    caching: Edges, policy: Caching
) -> None:
    """The origin sends the part that is missing, which is no longer stored: no client has asked for it alone."""
    first = SLICE + 50 if policy is SLICED else 50
    script = Film()
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=policy))
        await in_time(client.ask("/film", "Range: bytes=0-99"))
        script.fields = ("Cache-Control: no-store",)
        for _ in range(2):
            reply = await in_time(client.ask("/film", f"Range: bytes={first}-{SLICE * 2 + 99}"))
            assert reply.head.status == 206
            assert parts_of(reply.head, reply.body, BODY) == [BODY[first : SLICE * 2 + 100]]


async def test_a_crowd_for_what_has_no_slices_waits_for_the_whole(caching: Edges) -> None:
    """The slice that was asked for first comes under a weak entity tag; all of it is fetched for all who wait."""
    script = Film(BODY, 'W/"1"')
    script.held = {0: asyncio.Event(), -1: asyncio.Event()}
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        clients = [await caching.connect(served) for _ in range(20)]
        for client in clients[:10]:
            await client.get("/film")
        await until(lambda: served.requests == 10, "the first have asked")
        script.held[0].set()
        await script.has_been_asked(2)
        for client in clients[10:]:
            await client.get("/film")
        await until(lambda: served.requests == 20, "all have asked")
        script.held[-1].set()
        for client in clients:
            assert (await in_time(client.body(await in_time(client.head()))) == BODY) is True
        assert script.ranges == [first_slice(0), None]
