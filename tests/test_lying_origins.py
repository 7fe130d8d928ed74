"""Origins that stall, break off, lie and never end, seen from Python: each ends in its own code, within the limit that
is meant for it, and leaves nothing. (The fixture of the engine checks slabs, streams, descriptors and tasks.)
"""

import asyncio
import socket

import pytest

import penstock
from penstock.config import OriginLimits, Timeouts
from penstock.testing import Peer, Script, ScriptedOrigin
from support.waiting import until

HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH = HEAD + b"Content-Length: 10\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
UNFRAMED = HEAD + b"\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"

# Where an origin can stop, by what it has sent until then.
BEFORE = {"before the head": b"", "behind an interim response": HINTS}
IN_HEAD = {
    "in the status line": b"HTTP/1.1 2",
    "at the end of a line": HEAD,
    "in a field": HEAD + b"Content-Le",
    "before the blank line": LENGTH[:-2],
    "in the blank line": LENGTH[:-1],
}
IN_BODY = {
    "at the end of the head": LENGTH,
    "in the body": LENGTH + b"half",
    "before the last byte": LENGTH + b"nine byte",
    "before the first chunk": CHUNKED,
    "in a chunk's size": CHUNKED + b"1",
    "in a chunk's extension": CHUNKED + b"4;ext",
    "in the end of a chunk's size": CHUNKED + b"4\r",
    "at the end of a chunk's size": CHUNKED + b"4\r\n",
    "in a chunk's data": CHUNKED + b"4\r\nha",
    "at the end of a chunk's data": CHUNKED + b"4\r\nhalf",
    "behind a chunk": CHUNKED + b"4\r\nhalf\r\n",
    "in the last chunk": CHUNKED + b"4\r\nhalf\r\n0",
    "before the last line": CHUNKED + b"4\r\nhalf\r\n0\r\n",
    "in the trailers": CHUNKED + b"4\r\nhalf\r\n0\r\nX: y\r\n",
}
UNTIL_CLOSED = {"in a body without framing": UNFRAMED + b"half"}

AMPLE = 30.0
"""For the limits that must not be the ones: a test that meets one fails by its code."""
SHORT = 0.1


def sends(data: bytes, then: str) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        if then == "reset":
            peer.reset()
        elif then == "stall":
            await peer.stall()

    return script


async def failure(
    engine: penstock.Engine, script: Script, timeouts: Timeouts | None = None
) -> penstock.PenstockError:
    """What a request ends in, once the connection is closed on both sides."""
    async with ScriptedOrigin(script) as origin:
        with pytest.raises(penstock.PenstockError) as caught:
            async with engine.request("GET", origin.url, timeouts=timeouts) as response:
                await response.bytes()
        error = caught.value
        assert error.origin == origin.url
        assert len(origin.connections) == 1, "a new connection is no reason to ask again"
        await origin.connections[0].wait_left()
        stats = engine.stats().origins.get(origin.url)
        assert stats is None or (stats.active, stats.idle) == (0, 0), "the connection is not kept"
    error.__traceback__ = None
    return error


def same(error: penstock.PenstockError, name: str) -> bool:
    row = next(row for row in penstock.error_codes() if row.name == name)
    return (error.name, error.code) == (name, row.number)


@pytest.mark.parametrize("where", [*BEFORE, *IN_HEAD, *IN_BODY])
async def test_a_close_is_told_by_where_it_happens(engine: penstock.Engine, where: str) -> None:
    data = {**BEFORE, **IN_HEAD, **IN_BODY}[where]
    error = await failure(engine, sends(data, "close"))
    assert same(error, "BODY_TRUNCATED" if where in IN_BODY else "ORIGIN_CLOSED")
    assert isinstance(error, ConnectionError)
    assert isinstance(error, penstock.BodyTruncatedError) == (where in IN_BODY)


@pytest.mark.parametrize("where", [*BEFORE, *IN_HEAD, *IN_BODY, *UNTIL_CLOSED])
async def test_a_reset_is_a_reset_at_every_stage(engine: penstock.Engine, where: str) -> None:
    data = {**BEFORE, **IN_HEAD, **IN_BODY, **UNTIL_CLOSED}[where]
    error = await failure(engine, sends(data, "reset"))
    assert same(error, "ORIGIN_RESET")
    assert isinstance(error, penstock.ConnectionFailedError)


@pytest.mark.parametrize("where", [*BEFORE, *IN_HEAD, *IN_BODY, *UNTIL_CLOSED])
async def test_a_stall_ends_in_the_limit_of_its_stage(engine: penstock.Engine, where: str) -> None:
    data = {**BEFORE, **IN_HEAD, **IN_BODY, **UNTIL_CLOSED}[where]
    if where in BEFORE:
        limits, name = Timeouts(first_byte=SHORT, between_bytes=AMPLE), "FIRST_BYTE_TIMEOUT"
    else:
        limits, name = Timeouts(first_byte=AMPLE, between_bytes=SHORT), "IO_TIMEOUT"
    error = await failure(engine, sends(data, "stall"), limits)
    assert same(error, name)
    assert isinstance(error, TimeoutError)


@pytest.mark.parametrize("where", [*BEFORE, *IN_HEAD, *IN_BODY, *UNTIL_CLOSED])
async def test_the_limit_on_the_whole_holds_at_every_stage(engine: penstock.Engine, where: str) -> None:
    data = {**BEFORE, **IN_HEAD, **IN_BODY, **UNTIL_CLOSED}[where]
    limits = Timeouts(first_byte=AMPLE, between_bytes=AMPLE, total=SHORT)
    assert same(await failure(engine, sends(data, "stall"), limits), "TOTAL_TIMEOUT")


async def test_an_origin_that_dribbles_meets_the_limit_on_the_whole(engine: penstock.Engine) -> None:
    """Every wait is short and the end never comes."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(LENGTH.replace(b"10", b"1000000000"))
        while not peer.left:
            await peer.send(b"x")
            await asyncio.sleep(0)

    limits = Timeouts(between_bytes=AMPLE, total=SHORT)
    assert same(await failure(engine, script, limits), "TOTAL_TIMEOUT")


async def test_accepting_and_silence_before_tls_is_a_limit_of_its_own(engine: penstock.Engine) -> None:
    async def silent(peer: Peer) -> None:
        await peer.stall()

    limits = Timeouts(connect=AMPLE, tls=SHORT, first_byte=AMPLE, between_bytes=AMPLE)
    async with ScriptedOrigin(silent) as origin:
        with pytest.raises(penstock.TimeLimitError) as caught:
            await engine.request("GET", origin.url.replace("http", "https"), timeouts=limits)
        assert caught.value.name == "TLS_TIMEOUT"
        await origin.connections[0].wait_left()


async def test_a_listener_that_never_accepts_ends_in_the_limit_on_connecting(engine: penstock.Engine) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        # A full queue drops what more comes: so many are sure to fill one of length 0.
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(listener.getsockname())
        limits = Timeouts(connect=SHORT, first_byte=AMPLE)
        with pytest.raises(penstock.TimeLimitError) as caught:
            await engine.request("GET", f"http://127.0.0.1:{listener.getsockname()[1]}", timeouts=limits)
        assert caught.value.name == "CONNECT_TIMEOUT"
        for connection in waiting:
            connection.close()


LIES = {
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "BAD_HEAD"),
    "HTTP/2": (b"HTTP/2 200\r\n\r\n", "BAD_HEAD"),
    "bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "BARE_LINE_FEED"),
    "a folded field": (HEAD + b"X: a\r\n b\r\n\r\n", "FOLDED_HEADER"),
    "a length of letters": (HEAD + b"Content-Length: ten\r\n\r\n", "BAD_LENGTH"),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n", "BAD_LENGTH"),
    "a length above all": (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", "BAD_LENGTH"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "CONFLICTING_LENGTH"),
    "a list of lengths": (HEAD + b"Content-Length: 1, 2\r\n\r\nab", "CONFLICTING_LENGTH"),
    "length and chunks": (
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "LENGTH_AND_CHUNKED",
    ),
    "another coding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "BAD_TRANSFER_ENCODING"),
    "a size of letters": (CHUNKED + b"xyz\r\n", "BAD_CHUNK"),
    "an empty size": (CHUNKED + b"\r\n", "BAD_CHUNK"),
    "a size above all": (CHUNKED + b"f" * 20 + b"\r\n", "BAD_CHUNK"),
    "more than its chunk": (CHUNKED + b"4\r\nhalf!\r\n", "BAD_CHUNK"),
    "a bad trailer": (CHUNKED + b"0\r\n: x\r\n\r\n", "BAD_TRAILER"),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "UNEXPECTED_UPGRADE"),
    "interim responses without end": (HINTS * 20, "TOO_MANY_INTERIM"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_what_is_not_strictly_http_is_refused(engine: penstock.Engine, lie: str) -> None:
    data, name = LIES[lie]
    error = await failure(engine, sends(data, "stall"))
    assert same(error, name)
    assert isinstance(error, penstock.ProtocolError)
    assert not error.retryable


ENDLESS = {
    "field": (HEAD + b"X: ", b"x" * 1024, "HEAD_TOO_LARGE"),
    "row of fields": (HEAD, b"X: y\r\n" * 100, "HEAD_TOO_LARGE"),
    "status line": (b"HTTP/1.1 200 ", b"x" * 1024, "HEAD_TOO_LARGE"),
    "row of interim responses": (b"", HINTS, "TOO_MANY_INTERIM"),
    "chunk extension": (CHUNKED + b"4;", b"x" * 1024, "CHUNK_EXTENSION_TOO_LARGE"),
    "row of chunk extensions": (CHUNKED, b"1;" + b"x" * 100 + b"\r\na\r\n", "CHUNK_EXTENSION_TOO_LARGE"),
    "chunk size": (CHUNKED, b"0" * 1024, "BAD_CHUNK"),
    "trailer": (CHUNKED + b"0\r\nX: ", b"x" * 1024, "BAD_TRAILER"),
    "row of trailers": (CHUNKED + b"0\r\n", b"X: y\r\n" * 100, "BAD_TRAILER"),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_never_ends_is_cut_off_at_its_limit(engine: penstock.Engine, what: str) -> None:
    begin, more, name = ENDLESS[what]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(begin)
        while True:
            await peer.send(more)

    error = await failure(engine, script)
    assert same(error, name)
    # What the kernel's buffers took beyond it was not read.
    assert engine.stats().pool.peak_bytes <= 1024 * 1024


async def test_limits_are_those_of_the_settings() -> None:
    limits = OriginLimits(head_bytes="4KiB", head_fields=4, chunk_extension_bytes=8, trailer_bytes=8)
    for data, name in (
        (HEAD + b"X: " + b"x" * 5000 + b"\r\n\r\n", "HEAD_TOO_LARGE"),
        (HEAD + b"X: y\r\n" * 5 + b"\r\n", "HEAD_TOO_LARGE"),
        (CHUNKED + b"1;" + b"x" * 9 + b"\r\na\r\n0\r\n\r\n", "CHUNK_EXTENSION_TOO_LARGE"),
        (CHUNKED + b"0\r\nX: 456789\r\n\r\n", "BAD_TRAILER"),
    ):
        async with penstock.Engine(memory="4MiB", limits=limits) as engine:
            assert same(await failure(engine, sends(data, "stall")), name)
            await until(lambda engine=engine: engine.stats().pool.live_bytes == 0, "every slab is back")
