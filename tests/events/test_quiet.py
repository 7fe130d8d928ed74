"""While an event stream is quiet: the head is there, comments are sent, and an origin without events is given up."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from penstock.config import EventRelay, Timeouts
from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.origins import EVENTS, ChunkSteps, chunk
from support.sockets import unread_from
from support.ways import BEAT, NEVER, SOON, Relay, Way, beats, blocks

MARK = b"\xef\xbb\xbf"
POLICIES = {"none": None, "one": EventRelay(heartbeat=None)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_the_head_does_not_wait_for_the_first_event(way: Way, policy: str, version: str) -> None:
    origin = ChunkSteps()
    async with ScriptedOrigin(origin) as served:
        relay = await way.relay(served.url, events=POLICIES[policy])
        client = await relay.ask(version=version)
        assert (await client.head()).status == 200
        origin.put(b"data: x\n\n")
        assert await client.reader.readuntil(b"data: x\n\n")


async def test_comments_are_sent_while_nothing_else_is(way: Way) -> None:
    origin = ChunkSteps()
    async with ScriptedOrigin(origin) as served:
        client = await (await way.relay(served.url, events=SOON, timeouts=NEVER)).ask()
        await client.head()
        await beats(client, 2)
        for number in range(3):
            origin.put(b"data: %d\n\n" % number)
            assert set(await blocks(client, until=b"data: %d\n\n" % number)) <= {
                BEAT,
                b"data: %d\n\n" % number,
            }
            await beats(client, 1)
        assert way.counts().heartbeats >= 5


async def test_comments_of_http_1_0_are_bare(way: Way) -> None:
    async with ScriptedOrigin(ChunkSteps()) as served:
        client = await (await way.relay(served.url, events=SOON, timeouts=NEVER)).ask(version="1.0")
        assert (await client.head()).one("Transfer-Encoding") is None
        assert await client.reader.readexactly(2 * len(BEAT)) == BEAT * 2


PARTS = {
    "within a field": (b"da", b"ta: x\n\n"),
    "between lines": (b"id: 1\n", b"data: x\n\n"),
    "before the blank line": (b"data: x\n", b"\n"),
    "between CR and LF": (b"data: x\r", b"\n\r\n"),
    "between the last CR and LF": (b"data: x\r\n\r", b"\n"),
    "within a comment": (b": pi", b"ng\n"),
    "within the byte order mark": (MARK[:2], MARK[2:] + b"data: x\n\n"),
}


@pytest.mark.parametrize("where", PARTS)
async def test_comments_never_stand_within_an_event(way: Way, where: str) -> None:
    first, second = PARTS[where]
    origin = ChunkSteps()
    async with ScriptedOrigin(origin) as served:
        client = await (await way.relay(served.url, events=SOON, timeouts=NEVER)).ask()
        await client.head()
        origin.put(first)
        await beats(client, 3)
        origin.put(second)
        origin.put(b"data: end\n\n")
        origin.end()
        data = b""
        while part := await client.chunk():
            data += part
        whole = (first + second).removeprefix(MARK)
        assert data.replace(BEAT, b"") == whole + b"data: end\n\n"
        assert data.count(whole) == 1, "in one piece"


async def test_a_byte_order_mark_comes_first_or_not_at_all(way: Way) -> None:
    """After a comment of ours it would make another field of the first one."""
    prompt, late = ChunkSteps(MARK + b"data: x\n\n"), ChunkSteps()
    async with ScriptedOrigin(prompt) as first, ScriptedOrigin(late) as second:
        client = await (await way.relay(first.url, events=EventRelay(heartbeat=30))).ask()
        await client.head()
        assert (await client.reader.readuntil(b"data: x\n\n")).count(MARK) == 1
        client = await (await way.relay(second.url, events=SOON)).ask()
        await client.head()
        await beats(client, 1)
        late.put(MARK + b"data: y\n\n")
        assert set(await blocks(client, until=b"data: y\n\n")) <= {BEAT, b"data: y\n\n"}


@pytest.mark.parametrize("kind", ["no policy", "no heartbeat", "no events", "a length", "compressed"])
async def test_comments_are_sent_where_they_were_asked_for_alone(way: Way, kind: str) -> None:
    """The beats of another stream are the clock."""
    heads = {
        "no events": answer("Transfer-Encoding: chunked", "Content-Type: text/plain"),
        "a length": answer("Content-Length: 9", "Content-Type: text/event-stream"),
        "compressed": answer(
            "Transfer-Encoding: chunked", "Content-Type: text/event-stream", "Content-Encoding: gzip"
        ),
    }
    events = {"no policy": None, "no heartbeat": EventRelay(heartbeat=None)}.get(kind, SOON)
    origin = ChunkSteps(head=heads.get(kind, EVENTS))
    async with ScriptedOrigin(origin) as served, ScriptedOrigin(ChunkSteps()) as other:
        client = await (await way.relay(served.url, events=events, timeouts=NEVER)).ask()
        head = await client.head()
        clock = await (await way.relay(other.url, events=SOON, timeouts=NEVER)).ask()
        await clock.head()
        await beats(clock, 5)
        origin.pieces.put_nowait(b"data: x\n\n" if kind == "a length" else chunk(b"data: x\n\n"))
        if head.one("Transfer-Encoding") is None:
            assert await client.reader.readexactly(9) == b"data: x\n\n"
        else:
            assert await client.chunk() == b"data: x\n\n"


class Endless:
    """An origin that sends one event after the other until it is told to stop, as fast as they are taken."""

    def __init__(self, event: bytes) -> None:
        self.stop = asyncio.Event()
        self.sent = 0
        self._event = event

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS)
        while not self.stop.is_set():
            await peer.send(chunk(self._event))
            self.sent += 1
        await peer.send(b"0\r\n\r\n")


class Clock:
    """Another stream, of comments alone: its beats tell the time, and all of them are read."""

    def __init__(self, way: Way, quiet: ChunkSteps, relay: Relay) -> None:
        self.beats = 0
        self._way = way
        self._quiet = quiet
        self._relay = relay

    async def others(self, count: int) -> int:
        """Return how many comments other streams are sent while this one is sent `count`."""
        before = self._way.counts().heartbeats
        client = await self._relay.ask()
        head = await client.head()
        own = await beats(client, count)
        self._quiet.end()
        # The end of its connection: the next stream has another.
        self._quiet.pieces.put_nowait(None)
        own += (await client.body(head)).count(BEAT)
        self.beats += own
        return self._way.counts().heartbeats - before - own

    async def while_full(self, count: int, origin: str) -> int:
        """Return how many comments others are sent in a time in which the stream of `origin` waits for its client.

        It does while more bytes of its origin wait in the kernel than are read. At another time the origin may pause
        by no choice of its own: what the kernel drops because a buffer is full it sends again seconds later.
        """
        port = urlsplit(origin).port
        assert port is not None
        stats = self._way.engine.stats
        for _ in range(20):
            before, unread = stats().bytes_received, unread_from(port)
            comments = await self.others(count)
            payload = stats().bytes_received - before
            # The bytes around an event are no payload. Of the rest one is enough: once the engine has less room
            # than a segment takes, the kernel lets no more come, and less than an event may wait there.
            if unread > payload + (payload // len(EVENT) + 2) * (len(chunk(EVENT)) - len(EVENT)):
                return comments
        pytest.fail("the stream never waited for its client")


EVENT = b"data: " + b"x" * 60_000 + b"\n\n"


async def test_a_client_that_does_not_read_is_sent_no_comments(way: Way) -> None:
    """What waits for it says as much."""
    endless, quiet = Endless(EVENT), ChunkSteps()
    async with ScriptedOrigin(endless) as served, ScriptedOrigin(quiet) as other:
        slow = await (await way.relay(served.url, events=SOON, timeouts=NEVER)).ask(receive_buffer=4096)
        slow.writer.transport.pause_reading()
        clock = Clock(way, quiet, await way.relay(other.url, events=SOON, timeouts=NEVER))
        comments = await clock.while_full(40, served.url)
        assert comments == 0, "comments were put in while nothing was read"
        if not way.is_stock:
            # What waits is in the window, and not in the kernel: by itself that would take some megabytes.
            assert way.engine.stats().bytes_received < 2 << 20
        endless.stop.set()
        slow.writer.transport.resume_reading()
        data = await slow.body(await slow.head())
        assert data.replace(BEAT, b"") == EVENT * endless.sent
        assert data.count(BEAT) == way.counts().heartbeats - clock.beats


async def test_an_origin_without_events_is_given_up(way: Way) -> None:
    """Its comments are bytes, and no events."""
    comments = asyncio.Event()

    async def comment(peer: Peer) -> None:
        await peer.request()
        await peer.send(EVENTS + chunk(b"data: x\n\n"))
        while not peer.left:
            await peer.send(chunk(b": still here\n\n"))
            comments.set()
            await asyncio.sleep(0.01)

    policy = EventRelay(heartbeat=None, idle=0.5)
    async with ScriptedOrigin(comment) as served:
        relay = await way.relay(served.url, events=policy)
        client = await relay.ask()
        await client.head()
        data = b""
        while b"event: error" not in data:
            data += await client.chunk()
        assert data.startswith(b"data: x\n\n")
        assert comments.is_set()
        told = data[data.index(b"event: error\n") :]
        assert json.loads(told.removeprefix(b"event: error\ndata: "))["error"]["name"] == "EVENT_TIMEOUT"
        assert await client.rest() == b"", "there is no last chunk"
        await (await served.connection()).wait_left()
        assert (way.counts().idle, way.counts().told) == (1, 1)
        if not way.is_route:
            error = (await relay.ends.get()).error
            assert getattr(error, "name", None) == "EVENT_TIMEOUT"


async def test_an_origin_may_pause_for_as_long_as_its_events_may(way: Way) -> None:
    """`between_bytes` is not for a stream that has a limit of its own."""
    origin = ChunkSteps()
    timeouts = Timeouts(between_bytes=0.05)
    async with ScriptedOrigin(origin) as served:
        policy = EventRelay(heartbeat=0.1, idle=30)
        client = await (await way.relay(served.url, events=policy, timeouts=timeouts)).ask()
        await client.head()
        await beats(client, 5)
        origin.put(b"data: x\n\n")
        await blocks(client, until=b"data: x\n\n")


OTHERS = {
    "without an idle limit": (EventRelay(), EVENTS),
    "compressed": (
        EventRelay(idle=30),
        answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream", "Content-Encoding: br"),
    ),
    "of another type": (
        EventRelay(idle=30),
        answer("Transfer-Encoding: chunked", "Content-Type: text/plain"),
    ),
    "of a known length": (
        EventRelay(idle=30),
        answer("Content-Length: 9", "Content-Type: text/event-stream"),
    ),
}


@pytest.mark.parametrize("what", OTHERS)
async def test_other_bodies_have_the_limit_between_bytes(way: Way, what: str) -> None:
    policy, head = OTHERS[what]
    async with ScriptedOrigin(ChunkSteps(head=head)) as served:
        relay = await way.relay(served.url, events=policy, timeouts=Timeouts(between_bytes=0.4))
        client = await relay.ask()
        await client.head()
        try:
            data = await client.rest()
        except ConnectionResetError:
            data = b""
        assert not data.endswith(b"0\r\n\r\n")
        await (await served.connection()).wait_left()
        if not way.is_route:
            assert getattr((await relay.ends.get()).error, "name", None) == "IO_TIMEOUT"


async def test_the_idle_limit_waits_for_a_client_that_does_not_read(way: Way) -> None:
    """An origin that is not read does not pause. The beats of another stream are the clock."""
    endless, quiet = Endless(EVENT), ChunkSteps()
    # Longer than a busy machine, or the kernel, keeps the origin from sending on.
    policy = EventRelay(heartbeat=None, idle=2.0)
    async with ScriptedOrigin(endless) as served, ScriptedOrigin(quiet) as other:
        slow = await (await way.relay(served.url, events=policy)).ask(receive_buffer=4096)
        slow.writer.transport.pause_reading()
        clock = Clock(way, quiet, await way.relay(other.url, events=SOON, timeouts=NEVER))
        await clock.while_full(45, served.url)
        endless.stop.set()
        slow.writer.transport.resume_reading()
        assert len(await slow.body(await slow.head())) == len(EVENT) * endless.sent
