"""A body that breaks off: the rest comes from another origin where a strong entity tag says that it is the same, and the
client notices nothing; anywhere else it fails as that of a single origin does."""

import asyncio

import pytest

import penstock
from penstock import Origins
from penstock.config import Health, Retries, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.backends import SIZE, Backend, Backends, film
from support.client import RawClient, answer
from support.waiting import until

from .conftest import Front

HOWS = ["cut close", "cut reset", "cut stall"]
BROKEN = (asyncio.IncompleteReadError, ConnectionResetError)
SHORT = Timeouts(between_bytes=0.2)
CALM = Health(failures=None, failure_percent=None)


async def from_both(front: Front, a: Backend, b: Backend, **retries: object) -> tuple[Origins, RawClient]:
    """A client of a route to `a`, and then `b`."""
    origins = Origins([a.url, b.url], health=CALM, retries=Retries(**retries))  # type: ignore[arg-type]
    return origins, await front.connect(await front.serve(origins, timeouts=SHORT))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("cut", [0, 1, SIZE // 2, SIZE - 1])
async def test_the_rest_comes_from_another_origin(front: Front, how: str, cut: int) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.cut = how, cut
        origins, client = await from_both(front, a, b)
        reply = await client.ask("/film")
        assert (reply.head.status, reply.head.one("X-From"), reply.body) == (200, "a", film("/film"))
        (rest,) = b.requests
        # What a reset throws away on its way has not come, and is asked for with the rest.
        assert rest.get("If-Range") == '"one"'
        first = int((rest.get("Range") or "").removeprefix("bytes=").split("-")[0])
        assert first == cut if how != "cut reset" else first <= cut
        stats = origins.stats()
        assert (stats.resumed, stats.retries, [state.failures for state in stats.origins]) == (1, 0, [1, 0])
        await until(lambda: a.active == 0, "what broke off is closed")
        # The client's connection is as good as it was.
        assert (await client.ask("/next")).body == film("/next")


async def test_a_range_goes_on_within_its_own_bounds(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.cut = "cut close", 1000
        _, client = await from_both(front, a, b)
        reply = await client.ask("/film", "Range: bytes=5000-14999")
        assert (reply.head.status, reply.body) == (206, film("/film")[5000:15000])
        if front.is_cached:
            # A cache asks for what it wants to keep.
            return
        assert [request.get("Range") for request in (*a.requests, *b.requests)] == [
            "bytes=5000-14999",
            "bytes=6000-14999",
        ]


async def test_a_chunked_body_goes_on_where_the_part_says_how_long_the_whole_is(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.chunked = "cut close", True
        _, client = await from_both(front, a, b)
        reply = await client.ask("/film")
        assert reply.body == film("/film")
        (rest,) = b.requests
        assert rest.get("Range") == f"bytes={a.cut}-"


async def test_a_part_may_come_in_chunks(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.chunked = "cut close", True
        _, client = await from_both(front, a, b)
        assert (await client.ask("/film")).body == film("/film")


async def test_each_that_breaks_off_is_followed_by_another(front: Front) -> None:
    async with Backends(3) as (a, b, c):
        a.mode = b.mode = "cut close"
        a.cut, b.cut = 50_000, 60_000
        origins = Origins([a.url, b.url, c.url], health=CALM)
        client = await front.connect(await front.serve(origins))
        assert (await client.ask("/film")).body == film("/film")
        assert [backend.requests[0].get("Range") for backend in (a, b, c)] == [
            None,
            f"bytes=50000-{SIZE - 1}",
            f"bytes=110000-{SIZE - 1}",
        ]


async def test_a_single_origin_is_asked_for_the_rest_once(front: Front) -> None:
    async with Backend() as only:
        only.mode, only.then = "cut close", "well"
        client = await front.connect(await front.serve(Origins([only.url], health=CALM)))
        assert (await client.ask("/film")).body == film("/film")
        assert only.count() == 2


async def test_a_single_origin_that_stays_broken_is_asked_once_more(front: Front) -> None:
    async with Backend() as only:
        only.mode, only.then = "cut close", "close"
        client = await front.connect(await front.serve(Origins([only.url], health=CALM)))
        assert len(await broken(client)) <= only.cut
        assert only.count() == 2


async def test_those_that_fail_to_resume_are_passed_over(native: Front) -> None:
    async with Backends(4) as (a, b, c, d):
        a.mode, b.mode, c.mode = "cut close", "close", 503
        origins = Origins([backend.url for backend in (a, b, c, d)], health=CALM)
        client = await native.connect(await native.serve(origins))
        assert (await client.ask("/film")).body == film("/film")
        assert [backend.count() for backend in (a, b, c, d)] == [1, 1, 1, 1]


async def broken(client: RawClient) -> bytes:
    """What comes of a body that must not come whole."""
    await client.get("/film")
    head = await client.head()
    assert head.status == 200
    got = b""
    with pytest.raises((AssertionError, *BROKEN)):
        while True:
            part = await client.reader.read(65536)
            assert part, "the end of the connection"
            got += part
    return got


async def test_another_version_is_no_rest(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.tag = "cut close", '"two"'
        a.then = "close"
        _, client = await from_both(front, a, b)
        assert len(await broken(client)) <= a.cut
        assert b.count() == 1


async def test_an_origin_that_knows_no_ranges_has_no_rest(front: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.ranges = "cut close", False
        a.then = "close"
        _, client = await from_both(front, a, b)
        assert len(await broken(client)) <= a.cut


LIES = {
    "another place": (f"bytes {SIZE // 2 + 1}-{SIZE - 1}/{SIZE}", '"one"', "206 Partial Content"),
    "too short": (f"bytes {SIZE // 2}-{SIZE - 2}/{SIZE}", '"one"', "206 Partial Content"),
    "another length": (f"bytes {SIZE // 2}-{SIZE - 1}/{SIZE + 1}", '"one"', "206 Partial Content"),
    "a weak tag": (f"bytes {SIZE // 2}-{SIZE - 1}/{SIZE}", 'W/"one"', "206 Partial Content"),
    "no tag": (f"bytes {SIZE // 2}-{SIZE - 1}/{SIZE}", None, "206 Partial Content"),
    "another status": (f"bytes {SIZE // 2}-{SIZE - 1}/{SIZE}", '"one"', "200 OK"),
    "no range": (None, '"one"', "206 Partial Content"),
    "another unit": (f"lines {SIZE // 2}-{SIZE - 1}/{SIZE}", '"one"', "206 Partial Content"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_part_that_is_not_the_rest_is_not_taken(native: Front, lie: str) -> None:
    content_range, tag, status = LIES[lie]
    rest = film("/film")[SIZE // 2 :]
    fields = [f"Content-Length: {len(rest)}"]
    fields += [f"Content-Range: {content_range}"] if content_range else []
    fields += [f"ETag: {tag}"] if tag else []

    async def lies(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer(*fields, status=status, body=rest))

    async with Backend() as a, ScriptedOrigin(lies) as liar:
        a.mode, a.then = "cut close", "close"
        client = await native.connect(await native.serve(Origins([a.url, liar.url], health=CALM)))
        assert len(await broken(client)) <= a.cut


@pytest.mark.parametrize("framing", ["chunks", "the end of the connection"])
@pytest.mark.parametrize("off", [-1, 1])
async def test_a_part_that_is_longer_or_shorter_than_it_says_is_no_end(
    native: Front, framing: str, off: int
) -> None:
    rest = film("/film", SIZE + 16)[SIZE // 2 : SIZE + off]

    async def lies(peer: Peer) -> None:
        await peer.request()
        fields = [f"Content-Range: bytes {SIZE // 2}-{SIZE - 1}/{SIZE}", 'ETag: "one"']
        if framing == "chunks":
            head = answer(*fields, "Transfer-Encoding: chunked", status="206 Partial Content")
            await peer.send(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest))
        else:
            await peer.send(answer(*fields, "Connection: close", status="206 Partial Content", body=rest))

    async with Backend() as a, ScriptedOrigin(lies) as liar:
        a.mode, a.then, a.chunked = "cut close", "close", True
        origins = Origins([a.url, liar.url], health=CALM, retries=Retries(tries=1))
        client = await native.connect(await native.serve(origins))
        assert not (await broken(client)).endswith(b"0\r\n\r\n")


async def test_a_part_may_end_with_its_connection(native: Front) -> None:
    async def until_close(peer: Peer) -> None:
        await peer.request()
        fields = [f"Content-Range: bytes {SIZE // 2}-{SIZE - 1}/{SIZE}", 'ETag: "one"', "Connection: close"]
        await peer.send(answer(*fields, status="206 Partial Content", body=film("/film")[SIZE // 2 :]))

    async with Backend() as a, ScriptedOrigin(until_close) as b:
        a.mode = "cut close"
        client = await native.connect(await native.serve(Origins([a.url, b.url], health=CALM)))
        assert (await client.ask("/film")).body == film("/film")


@pytest.mark.parametrize("tag", ['W/"one"', ""])
async def test_without_a_strong_tag_it_fails_as_of_one_origin(front: Front, tag: str) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.tag = "cut close", tag
        origins, client = await from_both(front, a, b)
        assert len(await broken(client)) <= a.cut
        assert (b.count(), origins.stats().resumed) == (0, 0)


async def test_a_post_is_not_resumed(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        _, client = await from_both(native, a, b)
        await client.get("/film", "Content-Length: 0", method="POST")
        head = await client.head()
        with pytest.raises(BROKEN):
            await client.body(head)
        assert b.count() == 0


async def test_not_if_it_is_not_wanted(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        _, client = await from_both(native, a, b, resume=False)
        assert len(await broken(client)) <= a.cut
        assert b.count() == 0


async def test_resumptions_are_within_the_budget(native: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        origins, client = await from_both(native, a, b, budget_percent=0, budget_per_second=0)
        assert len(await broken(client)) <= a.cut
        assert b.count() == 0
        assert origins.stats().over_budget >= 1


async def test_what_a_client_wants_to_know_is_not_asked_of_the_rest(native: Front) -> None:
    """Conditions were met by the first answer; the second must be a part whatever they say of it."""
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        _, client = await from_both(native, a, b)
        reply = await client.ask("/film", 'If-None-Match: "other"', "Accept-Encoding: br", "X-Kept: yes")
        assert reply.body == film("/film")
        (rest,) = b.requests
        assert rest.get("If-None-Match") is None
        assert (rest.get("Accept-Encoding"), rest.get("X-Kept")) == ("br", "yes")
        assert rest.get("Host") == f"127.0.0.1:{b.port}"


async def test_a_body_of_the_library_goes_on(engine: penstock.Engine) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut reset"
        async with engine.get("/film", origins=Origins([a.url, b.url])) as response:
            assert await response.bytes() == film("/film")


async def test_lines_are_whole_across_the_break(engine: penstock.Engine) -> None:
    async with Backends(2) as (a, b):
        a.mode, a.cut = "cut close", SIZE // 2 + 3
        async with engine.get("/film", origins=Origins([a.url, b.url])) as response:
            frames = [bytes(frame) async for frame in response.frames(penstock.framing.Fixed(16))]
        assert b"".join(frames) == film("/film")
        assert {len(frame) for frame in frames} == {16}


async def test_what_is_stored_of_two_origins_is_one_version(cached: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode = "cut close"
        _, client = await from_both(cached, a, b)
        for _ in range(2):
            assert (await client.ask("/film")).body == film("/film")
        assert (a.count(), b.count()) == (1, 1), "the second request was not served from what is stored"


async def test_a_body_of_two_versions_is_not_stored(cached: Front) -> None:
    async with Backends(2) as (a, b):
        a.mode, b.tag = "cut close", '"two"'
        a.then = "close"
        _, client = await from_both(cached, a, b)
        await broken(client)
        a.mode, a.then, a.tag = "well", None, '"two"'
        again = await cached.connect(client.writer.get_extra_info("peername")[1])
        reply = await again.ask("/film")
        assert (reply.head.one("ETag"), reply.body) == ('"two"', film("/film"))
