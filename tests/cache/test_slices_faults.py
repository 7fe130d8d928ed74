"""Slices whose fetch fails, which are purged, and which leave memory, while no client, one and fifty read the
response.

No client takes a truncated body for a whole one, nothing of a failed slice is kept, and the slices beside it stay.
"""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

import penstock
from penstock.cache import Cache
from penstock.config import Caching, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import Head, RawClient, Reply, answer
from support.edges import Edges, Served
from support.films import BODY, FRESH, SLICE, SLICED, SLICES, Film, film, first_slice, slices
from support.waiting import in_time, until

from .origins import AMPLE, READERS

SHORT = 0.5
"""For the limit that must. The honest slices come in one piece each."""

CUTS: dict[str, Callable[[bytes], int]] = {
    "before the head": lambda _: 0,
    "inside the head": lambda _: 20,
    "after the head": lambda response: response.index(b"\r\n\r\n") + 4,
    "at the first byte": lambda response: response.index(b"\r\n\r\n") + 5,
    "inside the slice": lambda response: len(response) - SLICE // 2,
    "one byte before its end": lambda response: len(response) - 1,
}


class Failing(Film):
    """Fails in the middle of one slice, once."""

    def __init__(self, number: int, cut: Callable[[bytes], int], fault: str) -> None:
        super().__init__()
        self.may_fail = asyncio.Event()
        self.gone = asyncio.Event()
        self.number = number
        self._start, self._cut, self._fault = number * SLICE, cut, fault

    async def send(self, peer: Peer, _start: int, response: bytes) -> bool:
        if _start != self._start or self.gone.is_set():
            return await super().send(peer, _start, response)
        await self.may_fail.wait()
        # From here on it is honest, also to a client that asks before the peer has noticed.
        self.gone.set()
        await peer.send(response[: self._cut(response)])
        if self._fault == "reset":
            peer.reset()
        elif self._fault == "stall":
            await peer.stall()
        return False


class Scene:
    """Readers of a response before an origin that fails in one of its slices."""

    def __init__(self, edges: Edges, script: Failing, readers: int, *, is_retried: bool) -> None:
        self._edges, self._script, self._readers = edges, script, readers
        self._number = script.number
        # Nothing had come of the answer, over a connection that had been used before.
        self._is_retried = is_retried

    async def play(self, origin: ScriptedOrigin, limits: Timeouts) -> None:
        served = await self._edges.relay(origin.url, caching=SLICED, timeouts=limits)
        asker = await self._reader(served)
        await self._script.has_been_asked(1)
        clients = [asker, *[await self._reader(served) for _ in range(self._readers)]]
        await until(lambda: served.requests == len(clients), "all have asked")
        # Behind what they have read, all wait for the same slice.
        before = self._number * SLICE
        heads = []
        if before:
            for client in clients:
                heads.append(await in_time(client.head()))
                assert (await in_time(client.reader.readexactly(before)) == BODY[:before]) is True
        await self._script.has_been_asked(self._number + 1)
        if not self._readers:
            asker.abort()
            await until(lambda: served.connections == 0, "the asker has left")
            clients = []
        self._script.may_fail.set()
        whole = []
        for place, client in enumerate(clients):
            body = await self._read(client, heads[place] if heads else None, before)
            # It found nothing when it looked, and had the origin asked again.
            whole.append(body is not None and len(body) == len(BODY) - before)
            client.abort()
        if clients and not self._is_retried:
            # Any of them may be the client for which a later slice was fetched.
            assert not all(whole)
            assert self._number > 0 or not whole[0]
        await in_time(self._script.gone.wait())

    async def _reader(self, served: Served) -> RawClient:
        client = await self._edges.connect(served)
        await client.get("/film")
        return client

    @staticmethod
    async def _read(client: RawClient, head: Head | None, before: int) -> bytes | None:
        """What came; None if it was an error that came in its place."""
        body = b""
        try:
            head = head or await in_time(client.head())
            if head.status != 200:
                assert head.status in {502, 504}
                await in_time(client.body(head))
                return None
            while len(body) < len(BODY) - before:
                data = await in_time(client.reader.read(len(BODY) - before - len(body)))
                if not data:
                    break
                body += data
        except (EOFError, ConnectionError):
            pass
        assert BODY.startswith(body, before)
        return body

    async def check_what_follows(self, origin: ScriptedOrigin) -> None:
        """The slice is fetched anew, and of the others none that had come."""
        served = await self._edges.relay(origin.url, caching=SLICED)
        async with asyncio.timeout(10):
            while True:
                # Without a reader there is no event that says when it has failed.
                client = await self._edges.connect(served)
                await client.get("/film")
                head = await client.head()
                if head.status == 200:
                    try:
                        body = await client.body(head)
                    except (EOFError, ConnectionError):
                        continue
                    break
                client.abort()
        assert (body == BODY) is True
        # Each slice once, and the one that has failed once more.
        starts = [int((text or "").partition("-")[0]) // SLICE for text in self._script.ranges]
        assert sorted(starts) == sorted([*range(SLICES + 1), self._number])


async def fail_at(edges: Edges, number: int, where: str, fault: str, readers: int) -> None:
    script = Failing(number, CUTS[where], fault)
    limits = Timeouts(first_byte=AMPLE, between_bytes=SHORT if fault == "stall" else AMPLE)
    try:
        async with ScriptedOrigin(script) as origin:
            is_retried = where == "before the head" and number > 0
            scene = Scene(edges, script, readers, is_retried=is_retried)
            await scene.play(origin, limits)
            await scene.check_what_follows(origin)
    except BaseException as error:
        error.add_note(f"{fault} {where}")
        raise


@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("fault", ["close", "reset", "stall"])
@pytest.mark.parametrize("number", [0, 2])
async def test_a_slice_that_fails_ends_no_body(caching: Edges, number: int, fault: str, readers: int) -> None:
    for where in CUTS:
        if fault == "stall" and where == "before the head":
            # A limit on the first byte would be one on the honest slices as well.
            continue
        await fail_at(caching, number, where, fault, readers)


async def reading(caching: Edges, script: Film, served: Served) -> RawClient:
    """A client that has read two slices, and waits for the third."""
    script.held[SLICE * 2] = asyncio.Event()
    client = await caching.connect(served)
    await client.get("/film")
    await in_time(client.head())
    assert (await in_time(client.reader.readexactly(SLICE * 2)) == BODY[: SLICE * 2]) is True
    await script.has_been_asked(3)
    return client


def cache_of(caching: Edges) -> Cache:
    assert caching.engine.cache is not None
    return caching.engine.cache


async def test_who_reads_what_is_purged_reads_on(caching: Edges) -> None:
    """What is fetched for him from then on is newer than the purge, and kept."""
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client = await reading(caching, script, served)
        assert cache_of(caching).purge(url=f"{origin.url}/film") == 1
        assert cache_of(caching).list() == ()
        script.held[SLICE * 2].set()
        rest = await in_time(client.reader.readexactly(len(BODY) - SLICE * 2))
        assert (rest == BODY[SLICE * 2 :]) is True
        before = len(script.requests)
        reply = await in_time(client.ask("/film"))
        assert (reply.body == BODY) is True
        assert script.ranges[before:] == [first_slice(0), *slices(1, 2)]


async def test_who_reads_what_is_purged_gets_nothing_of_what_is_there_instead(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client = await reading(caching, script, served)
        script.body, script.tag = film(2), '"2"'
        assert cache_of(caching).purge(url=f"{origin.url}/film") == 1
        script.held[SLICE * 2].set()
        with contextlib.suppress(ConnectionError):
            assert await in_time(client.rest()) == b""
        reply = await in_time((await caching.connect(served)).ask("/film"))
        assert (reply.body == script.body) is True


async def test_who_reads_what_is_made_stale_reads_on_and_the_next_one_asks(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client = await reading(caching, script, served)
        assert cache_of(caching).purge(url=f"{origin.url}/film", soft=True) == 1
        other = await caching.connect(served)
        assert (await in_time(other.ask("/film", "Range: bytes=0-9"))).body == BODY[:10]
        assert script.requests[-1].get("If-None-Match") == '"1"'
        script.held[SLICE * 2].set()
        rest = await in_time(client.reader.readexactly(len(BODY) - SLICE * 2))
        assert (rest == BODY[SLICE * 2 :]) is True


LARGE = 256 * 1024
"""Bytes of a slice of which 48 do not fit into memory."""


async def test_slices_leave_memory_one_by_one(caching: Edges) -> None:
    """Of what is larger than memory, the part that is asked for stays."""
    body = film(size=48 * LARGE)
    script = Film(body)
    policy = Caching(range_fill="slices", slice=LARGE)
    stats = cache_of(caching).stats
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=policy))

        async def asked(number: int) -> int:
            before = len(script.requests)
            start = number * LARGE
            reply = await in_time(client.ask("/film", f"Range: bytes={start}-{start + 9}"))
            assert reply.body == body[start : start + 10]
            return len(script.requests) - before

        assert [await asked(0) for _ in range(3)] == [1, 0, 0]
        for _ in range(2):
            await client.get("/film")
            head = await in_time(client.head())
            assert head.one("Content-Length") == str(len(body))
            for number in range(48):
                data = await in_time(client.reader.readexactly(LARGE))
                assert (data == body[number * LARGE : (number + 1) * LARGE]) is True
                # A piece counts when it has come, and another leaves for it then.
                assert stats().used <= stats().limit + LARGE
        assert await asked(0) == 0
        assert len(script.requests) > 48 + 16, "more than fits was kept"
        assert stats().objects < 32


async def test_who_does_not_read_holds_two_slices_and_no_more(caching: Edges) -> None:
    body = film(size=24 * LARGE)
    script = Film(body)
    policy = Caching(range_fill="slices", slice=LARGE)
    cache = cache_of(caching)
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        reader, other = await caching.connect(served), await caching.connect(served)
        # All of it is stored, and its only reader is one that has stopped.
        assert (await in_time(other.ask("/film"))).head.status == 200
        stalled = await caching.connect(served, receive_buffer=16 * 1024)
        await stalled.get("/film")
        await in_time(stalled.head())

        def holds_two() -> bool:
            # What it fetches itself, until the kernel takes no more for it, is stored as well.
            cache.purge(url=f"{origin.url}/film")
            # Slabs that short reads have filled in part count whole.
            return cache.stats().used <= 2 * 2 * LARGE

        await until(holds_two, "the others are let go")
        assert stalled.reader.exception() is None
        assert (await in_time(reader.ask("/film"))).body[:9] == body[:9]


async def test_who_asked_first_leaves_and_the_slice_goes_on(caching: Edges) -> None:
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=SLICED)
        client = await reading(caching, script, served)
        other = await caching.connect(served)
        await other.get("/film")
        head = await in_time(other.head())
        assert (await in_time(other.reader.readexactly(SLICE * 2)) == BODY[: SLICE * 2]) is True
        client.abort()
        await until(lambda: served.connections == 1, "the first has left")
        script.held[SLICE * 2].set()
        rest = await in_time(other.reader.readexactly(len(BODY) - SLICE * 2))
        assert (rest == BODY[SLICE * 2 :]) is True
        assert head.status == 200
        assert len(script.requests) == SLICES + 1


async def test_a_body_that_is_not_read_is_fetched_at_most_one_slice_ahead(caching: Edges) -> None:
    policy = Caching(range_fill="slices", slice=SLICE, unread=100)
    script = Film()
    async with ScriptedOrigin(script) as origin:
        served = await caching.relay(origin.url, caching=policy)
        client = await reading(caching, script, served)
        client.abort()
        await until(lambda: served.connections == 0, "it has left")
        script.held[SLICE * 2].set()
        reply: Reply = await in_time((await caching.connect(served)).ask("/other", "Range: bytes=0-9"))
        assert reply.head.status == 206
        assert script.ranges == [first_slice(0), *slices(1, 2), first_slice(0)]


async def test_slices_and_the_whole_of_another_route_serve_each_other(caching: Edges) -> None:
    """Both routes have the same keys: what one has whole the other does not fetch in slices."""
    script = Film()
    async with ScriptedOrigin(script) as origin:
        whole = await caching.connect(await caching.relay(origin.url, caching=Caching(range_fill="whole")))
        sliced = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        assert ((await in_time(whole.ask("/whole"))).body == BODY) is True
        for fields in ((), (f"Range: bytes={SLICE}-",)):
            assert BODY.endswith((await in_time(sliced.ask("/whole", *fields))).body)
        assert script.ranges == [None]
        await in_time(sliced.ask("/sliced", f"Range: bytes={SLICE}-{SLICE * 2}"))
        assert ((await in_time(whole.ask("/sliced"))).body == BODY) is True
        assert ((await in_time(sliced.ask("/sliced"))).body == BODY) is True
        assert script.ranges == [None, first_slice(1), *slices(2), None]


def test_a_slice_that_could_not_be_stored_is_refused() -> None:
    with pytest.raises(penstock.ArgumentError, match="slice"):
        Caching(range_fill="slices", slice="2MiB", max_object="1MiB")


async def test_an_error_is_no_slice_and_is_kept_as_what_it_is(caching: Edges) -> None:
    script = Film()
    script.says = lambda _: answer(FRESH, "Content-Length: 0", status="410 Gone")  # type: ignore[method-assign]
    async with ScriptedOrigin(script) as origin:
        client = await caching.connect(await caching.relay(origin.url, caching=SLICED))
        for _ in range(2):
            assert (await in_time(client.ask("/film"))).head.status == 410
        assert len(script.requests) == 1
