"""Origins that die, stall and lie at every boundary of head and body, while no client, one and fifty read them.

Whatever an origin does, no reader takes for whole what is not; nothing of it is kept; the next request is a fetch of its
own; and what is stored beside it stays as it is. (The fixture checks slabs, streams, descriptors and tasks.)
"""

import asyncio
from dataclasses import dataclass
from itertools import count

import pytest

from penstock.config import Caching, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.edges import Edges, Served
from support.origins import FRESH
from support.waiting import in_time, until

from .origins import AMPLE, READERS

SHORT = 0.1
"""For the limit that must."""
NUMBERS = count()
AT_A_TIME = 4
"""Scenes: enough to be in each other's way, and few enough for the usual limit of descriptors."""


def version(number: int) -> bytes:
    """What a whole body is: larger than a read of a head, and unlike that of another version everywhere."""
    return f"{number:08d}".encode() * 5000


BODY = version(1)
STATUS = b"HTTP/1.1 200 OK\r\n"
LENGTH = answer(FRESH, f"Content-Length: {len(BODY)}")
CHUNKED = answer(FRESH, "Transfer-Encoding: chunked", "Trailer: X-Sum")
UNFRAMED = answer(FRESH)
CHUNK = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n"

IN_HEAD = {
    "before the head": b"",
    "behind an interim response": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    "inside the status line": b"HTTP/1.1 2",
    "at the end of the status line": STATUS,
    "inside a field": STATUS + b"Cache-Con",
    "inside the blank line": LENGTH[:-1],
}
IN_BODY = {
    "after the head": LENGTH,
    "at the first byte of the body": LENGTH + BODY[:1],
    "inside the body": LENGTH + BODY[: len(BODY) // 2],
    "one byte before its end": LENGTH + BODY[:-1],
    "after a head with chunks": CHUNKED,
    "inside a chunk's size": CHUNKED + b"1",
    "between a chunk's size and its data": CHUNKED + b"10\r\n",
    "inside a chunk": CHUNKED + CHUNK[:20_000],
    "one byte before a chunk's end": CHUNKED + CHUNK[:-3],
    "between a chunk's data and its line end": CHUNKED + CHUNK[:-2],
    "behind a chunk": CHUNKED + CHUNK,
    "inside the last chunk": CHUNKED + CHUNK + b"0",
    "before the trailer": CHUNKED + CHUNK + b"0\r\n",
    "inside the trailer": CHUNKED + CHUNK + b"0\r\nX-Sum: 1",
    "before the last line": CHUNKED + CHUNK + b"0\r\nX-Sum: 1\r\n",
}
# A close is its end.
UNTIL_CLOSED = {"inside a body without framing": UNFRAMED + BODY[:20_000]}

LIES_IN_HEAD = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n" + BODY,
    "a field without a name": STATUS + b": x\r\n\r\n" + BODY,
    "a folded field": STATUS + b"Cache-Control: max-age=60\r\n , x\r\n\r\n" + BODY,
    "two lengths": answer(FRESH, "Content-Length: 1", "Content-Length: 2") + BODY,
    "length and chunks": answer(FRESH, "Content-Length: 1", "Transfer-Encoding: chunked")
    + CHUNK
    + b"0\r\n\r\n",
}
LIES_IN_BODY = {
    "a chunk's size of letters": CHUNKED + b"xyz\r\n" + BODY,
    "a second chunk's size of letters": CHUNKED + CHUNK + b"xyz\r\n",
    "more than its chunk": CHUNKED + CHUNK[:-2] + b"!\r\n0\r\n\r\n",
    "less than its chunk": CHUNKED + b"fffff\r\n" + BODY,
    "a malformed trailer": CHUNKED + CHUNK + b"0\r\n: x\r\n\r\n",
}
SECOND = answer(FRESH, "Content-Length: 6") + b"second"
EXCESS = {
    "more than its length": LENGTH + BODY + b"more",
    "a second response behind its length": LENGTH + BODY + SECOND,
    "a second response behind its chunks": CHUNKED + CHUNK + b"0\r\n\r\n" + SECOND,
}


class Faulty:
    """Answers the first request for each path with what the test says, and then fails as it says; and every other one
    with the next version, whole. A connection is used once, so that none is to blame but the one that failed.
    """

    def __init__(self, data: bytes, fault: str) -> None:
        # A port may be used again while the cache still knows what another origin sent from it.
        self.bad = f"/bad/{next(NUMBERS)}"
        self.requests: list[str] = []
        self.may_send, self.may_fail = asyncio.Event(), asyncio.Event()
        self.gone = asyncio.Event()
        self._data, self._fault = data, fault

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        self.requests.append(request.target)
        number = self.requests.count(request.target)
        if request.target == self.bad and number == 1:
            try:
                await self._fail(peer)
            finally:
                self.gone.set()
            return
        body = version(number)
        await peer.send(answer(FRESH, "Connection: close", f"Content-Length: {len(body)}") + body)

    async def _fail(self, peer: Peer) -> None:
        await self.may_send.wait()
        await peer.send(self._data)
        await self.may_fail.wait()
        if self._fault == "reset":
            peer.reset()
        elif self._fault == "stall":
            await peer.stall()


@dataclass
class Reader:
    """Reads a response as a strict client, and tells how it ended."""

    client: RawClient
    status: int = 0
    body: bytes = b""
    is_whole: bool = False

    async def head(self) -> None:
        self._head = await in_time(self.client.head())
        while self._head.status == 103:
            self._head = await in_time(self.client.head())
        self.status = self._head.status

    async def read(self) -> None:
        try:
            if not self.status:
                await self.head()
            await in_time(self._read())
            self.is_whole = True
        except (EOFError, ConnectionError):
            pass

    async def _read(self) -> None:
        if self._head.one("Transfer-Encoding") is None:
            length = int(self._head.one("Content-Length") or 0)
            while len(self.body) < length:
                await self._take(length - len(self.body))
            return
        while size := int((await self.client.reader.readuntil(b"\r\n"))[:-2], 16):
            end = len(self.body) + size
            while len(self.body) < end:
                await self._take(end - len(self.body))
            assert await self.client.reader.readexactly(2) == b"\r\n"
        while await self.client.reader.readuntil(b"\r\n") != b"\r\n":
            pass

    async def _take(self, most: int) -> None:
        data = await self.client.reader.read(most)
        if not data:
            raise EOFError
        self.body += data


class Scene:
    """An asker and its followers before an origin that fails, beside something that is stored."""

    def __init__(self, edges: Edges, script: Faulty, readers: int) -> None:
        self._edges, self._script, self._readers = edges, script, readers
        self.bad, self.other = script.bad, script.bad.replace("bad", "other")

    async def begin(self, origin: ScriptedOrigin, limits: Timeouts) -> None:
        self._served = await self._edges.relay(origin.url, caching=Caching(), timeouts=limits)
        self._patient = await self._edges.relay(origin.url, caching=Caching())
        assert (await self.ask(self.other)).body == BODY
        self.asker = await self._reader(self._served, self.bad)
        await until(lambda: self.bad in self._script.requests, "the origin has been asked")
        self.followers = [await self._reader(self._served, self.bad) for _ in range(self._readers)]
        await until(lambda: self._served.requests == 1 + self._readers, "all have asked")
        if not self._readers:
            self.asker.client.abort()
            await until(lambda: self._served.connections == 0, "the asker has left")

    @property
    def readers(self) -> list[Reader]:
        """The clients that have not left."""
        return [self.asker, *self.followers] if self._readers else []

    async def read(self) -> None:
        await asyncio.gather(*(reader.read() for reader in self.readers))
        for reader in self.readers:
            reader.client.abort()

    async def check_what_follows(self) -> None:
        """Nothing of it is kept, the next request is a fetch of its own, and another key is as it was."""

        async def kept_now() -> Reader:
            reader = await self._reader(self._patient, self.bad, "Cache-Control: only-if-cached")
            await reader.read()
            reader.client.abort()
            return reader

        kept, asked = await kept_now(), self._script.requests.count(self.bad)
        async with asyncio.timeout(10):
            # Without a reader there is no event that says when it has failed.
            while asked == 1 and kept.status != 504:
                kept = await kept_now()
        # A follower may have had the origin asked again: what that brought is kept.
        expected = version(asked + (kept.status == 504))
        for _ in range(2):
            assert (await self.ask(self.bad)).body == expected
        assert self._script.requests.count(self.bad) == asked + (kept.status == 504)
        assert (await self.ask(self.other)).body == BODY
        assert self._script.requests.count(self.other) == 1

    async def _reader(self, served: Served, path: str, *fields: str) -> Reader:
        reader = Reader(await self._edges.connect(served))
        await reader.client.get(path, *fields)
        return reader

    async def ask(self, path: str, *fields: str) -> Reader:
        """One more, which has time and gets a whole answer."""
        reader = await self._reader(self._patient, path, *fields)
        await reader.read()
        assert reader.is_whole
        reader.client.abort()
        return reader


async def fail(
    edges: Edges, data: bytes, fault: str, readers: int, *, in_body: bool, limits: Timeouts | None = None
) -> None:
    """`in_body`: whether a head comes before the fault."""
    script = Faulty(data, fault)
    # Before these the readers have time to see it.
    is_seen = in_body and fault in {"close", "reset"}
    async with ScriptedOrigin(script) as origin:
        scene = Scene(edges, script, readers)
        await scene.begin(origin, limits or Timeouts(first_byte=AMPLE, between_bytes=AMPLE))
        script.may_send.set()
        if is_seen:
            for reader in scene.readers:
                await reader.head()
        script.may_fail.set()
        await scene.read()
        await in_time(script.gone.wait())
        for reader in scene.readers:
            if reader.status in {502, 504}:
                assert reader.is_whole
                assert not is_seen
            elif reader.is_whole:
                # It asked when the others had been told already, and had the origin asked again.
                assert reader is not scene.asker
                assert not is_seen
                assert reader.body in {version(number + 2) for number in range(readers)}
            else:
                assert in_body
                assert BODY.startswith(reader.body)
        await scene.check_what_follows()


async def fail_at_each(
    edges: Edges, cells: dict[str, bytes], fault: str, readers: int, limits: Timeouts | None = None
) -> None:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def fail_at(where: str) -> None:
        async with turn:
            try:
                in_body = where not in {**IN_HEAD, **LIES_IN_HEAD}
                await fail(edges, cells[where], fault, readers, in_body=in_body, limits=limits)
            except BaseException as error:
                error.add_note(f"{fault} {where}")
                raise

    async with asyncio.TaskGroup() as group:
        for where in cells:
            group.create_task(fail_at(where))


@pytest.mark.parametrize("readers", READERS)
@pytest.mark.parametrize("fault", ["close", "reset"])
async def test_an_origin_that_dies_ends_no_body(caching: Edges, fault: str, readers: int) -> None:
    cells = {**IN_HEAD, **IN_BODY, **(UNTIL_CLOSED if fault == "reset" else {})}
    await fail_at_each(caching, cells, fault, readers)


@pytest.mark.parametrize("readers", READERS)
async def test_an_origin_that_stalls_before_its_head_fails_all_who_wait(caching: Edges, readers: int) -> None:
    cells = {where: IN_HEAD[where] for where in ("before the head", "behind an interim response")}
    await fail_at_each(caching, cells, "stall", readers, Timeouts(first_byte=SHORT, between_bytes=AMPLE))


@pytest.mark.parametrize("readers", READERS)
async def test_an_origin_that_stalls_within_its_response_ends_no_body(caching: Edges, readers: int) -> None:
    cells = {**IN_HEAD, **IN_BODY, **UNTIL_CLOSED}
    del cells["before the head"], cells["behind an interim response"]
    await fail_at_each(caching, cells, "stall", readers, Timeouts(first_byte=AMPLE, between_bytes=SHORT))


@pytest.mark.parametrize("readers", READERS)
async def test_a_lie_of_the_origin_is_never_served_as_a_whole_response(caching: Edges, readers: int) -> None:
    await fail_at_each(caching, {**LIES_IN_HEAD, **LIES_IN_BODY}, "lie", readers)


@pytest.mark.parametrize("fault", ["close", "reset", "stall"])
@pytest.mark.parametrize("data", [LENGTH + BODY, CHUNKED + CHUNK + b"0\r\nX-Sum: 1\r\n\r\n"])
async def test_what_has_come_whole_is_kept_whatever_the_origin_does_then(
    caching: Edges, data: bytes, fault: str
) -> None:
    script = Faulty(data, fault)
    async with ScriptedOrigin(script) as origin:
        scene = Scene(caching, script, 1)
        await scene.begin(origin, Timeouts(first_byte=AMPLE, between_bytes=AMPLE))
        script.may_send.set()
        await scene.read()
        assert [(reader.is_whole, reader.body) for reader in scene.readers] == [(True, BODY)] * 2
        script.may_fail.set()
        assert (await scene.ask(scene.bad)).body == BODY
        assert script.requests.count(script.bad) == 1


@pytest.mark.parametrize("readers", [1, 50])
@pytest.mark.parametrize("what", EXCESS)
async def test_bytes_after_a_whole_response_reach_no_client(caching: Edges, what: str, readers: int) -> None:
    """The response has ended where its head says, whatever the packets: it is sent on and kept, and they are dropped."""
    script = Faulty(EXCESS[what], "stall")
    async with ScriptedOrigin(script) as origin:
        scene = Scene(caching, script, readers)
        await scene.begin(origin, Timeouts(first_byte=AMPLE, between_bytes=AMPLE))
        script.may_send.set()
        await scene.read()
        assert {(reader.is_whole, reader.body) for reader in scene.readers} == {(True, BODY)}
        script.may_fail.set()
        assert (await scene.ask(scene.bad)).body == BODY
        assert script.requests.count(script.bad) == 1
