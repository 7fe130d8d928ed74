"""Requests of the library against origins that are scripted byte by byte."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator

import pytest

import penstock
from penstock import config, framing
from support.waiting import in_time, until


class Origin:
    """A listening socket whose connections the test answers."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.left = asyncio.Event()
        self.sent = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, answer) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                while True:
                    try:
                        head = await reader.readuntil(b"\r\n\r\n")
                    except asyncio.IncompleteReadError:
                        return
                    self.heads.append(head)
                    if await answer(self, reader, writer) is not True:
                        return
            except ConnectionError:
                self.left.set()
            except asyncio.CancelledError:
                pass
            finally:
                writer.transport.abort()
                self._tasks.discard(task)

        self.server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def close(self) -> None:
        self.server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.wait_closed()


@pytest.fixture
async def origins() -> AsyncIterator:
    started: list[Origin] = []

    async def start(answer) -> Origin:
        origin = Origin()
        await origin.start(answer)
        started.append(origin)
        return origin

    yield start
    for origin in started:
        await origin.close()


def fixed(content: bytes, keep: bool = True):
    async def answer(origin, reader, writer) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Twice: a\r\nX-Twice: b\r\n\r\n" % len(content)
        )
        writer.write(content)
        await writer.drain()
        return keep

    return answer


@pytest.mark.parametrize("threads", [1, 3])
async def test_all_requests_of_one_turn_of_the_loop_are_sent(origins, threads) -> None:
    """Engine threads are told of the first at once, and of the others together, at the loop's next turn."""
    origin = await origins(fixed(b"body"))
    async with penstock.Engine(memory="4MiB", threads=threads) as engine:
        for _ in range(3):
            responses = [engine.get(f"{origin.url}/{number}") for number in range(20)]
            # One that is given up in the same turn holds up none of the others.
            await responses.pop().aclose()
            bodies = [in_time(response.text(), "a body") for response in responses]
            assert await asyncio.gather(*bodies) == ["body"] * 19


def test_a_request_after_the_loop_of_an_earlier_one_has_ended_is_sent() -> None:
    """The loop of the earlier ones ended before its next turn."""

    async def leave(engine: penstock.Engine) -> None:
        for _ in range(5):
            await engine.get("http://127.0.0.1:1").aclose()

    async def ask(engine: penstock.Engine) -> None:
        for _ in range(5):
            with pytest.raises(penstock.ConnectionFailedError):
                await in_time(engine.get("http://127.0.0.1:1"), "a refusal")

    with contextlib.closing(penstock.Engine(memory="4MiB", threads=1)) as engine:
        for _ in range(3):
            asyncio.run(leave(engine))
            asyncio.run(ask(engine))


async def test_a_body_begins_at_a_frame_however_long_the_head_before_it_was(origins) -> None:
    """The first read of a head brings as many bytes as the last head had: a guess, which may be wrong either way."""
    content = os.urandom(16 * 1024)
    pads = iter([10, 10, 13, 7, 5000, 5000, 10])

    async def answer(origin, reader, writer) -> bool:
        pad = b"x" * next(pads)
        writer.write(
            b"HTTP/1.1 200 OK\r\nX-Pad: %b\r\nContent-Length: %d\r\n\r\n%b" % (pad, len(content), content)
        )
        return True

    origin = await origins(answer)
    sizes = []
    async with penstock.Engine(memory="4MiB", threads=1) as engine:
        for _ in range(7):
            async with engine.get(origin.url) as response:
                frames = [frame async for frame in response]
                assert b"".join(frames) == content
                sizes.append([len(frame) for frame in frames])
                del frames
    assert origin.connections == 1
    first, again, longer, shorter, *_ = sizes
    assert len(first) > 1, "the beginning came with the head"
    assert again == [len(content)]
    assert len(longer) > 1, "the rest of the head brought a beginning"
    assert shorter[0] == 6, "what was taken for head"


@pytest.mark.parametrize(
    "rest",
    [
        "/",
        "/a/b?c=d",
        "/a?",
        "/a??",
        "/a#f",
        "/a?b#f",
        "/a/../b",
        "/%2F?x=%20",
        "/a?/b",
        "/\u00e4?\u00e4",
        "",
        "?a=/b",
    ],
)
async def test_a_url_is_requested_alike_whether_its_origin_is_known(origins, rest: str) -> None:
    origin = await origins(fixed(b""))
    seen = []
    async with penstock.Engine(memory="4MiB") as engine:
        for path in (rest, "/known", "/%41", rest):
            async with engine.get(origin.url + path) as response:
                seen.append((response.url, response.origin, origin.heads.pop().split(b"\r\n")[0]))
    first, known, escaped, again = seen
    assert first == again
    assert known == (origin.url + "/known", origin.url, b"GET /known HTTP/1.1")
    assert escaped == (origin.url + "/%41", origin.url, b"GET /%41 HTTP/1.1")


async def test_status_headers_and_body(engine, origins) -> None:
    content = os.urandom(3_000_000)
    origin = await origins(fixed(content))
    async with engine.get(f"{origin.url}/a/b?c=%2F") as response:
        assert (response.status, response.reason, response.version) == (200, "OK", (1, 1))
        assert response.headers["content-length"] == "3000000"
        assert response.headers.getall("x-twice") == ["a", "b"]
        digest = hashlib.sha256()
        async for frame in response:
            digest.update(frame)
        assert digest.digest() == hashlib.sha256(content).digest()
        assert response.timings.first_byte > 0
        assert response.timings.body is not None
    assert origin.heads[0].startswith(b"GET /a/b?c=%2F HTTP/1.1\r\n")
    del frame
    copied = engine.stats().pool.bytes_copied
    assert not any(copied.values()), "raw frames over plain HTTP are never copied"


async def test_connections_are_reused_and_counted(engine, origins) -> None:
    origin = await origins(fixed(b"x" * 1000))
    for number in range(20):
        async with engine.get(origin.url) as response:
            assert len(await response.bytes()) == 1000
            assert response.timings.reused == (number > 0)
    assert origin.connections == 1
    stats = engine.stats().origins[origin.url]
    assert (stats.opened, stats.reused, stats.idle) == (1, 19, 1)


async def test_a_truncated_body_is_never_a_clean_end(engine, origins) -> None:
    async def answer(origin, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nonly")
        await writer.drain()

    origin = await origins(answer)
    async with engine.get(origin.url) as response:
        with pytest.raises(penstock.ConnectionFailedError) as caught:
            await response.bytes()
    assert caught.value.name in {"BODY_TRUNCATED", "ORIGIN_RESET"}
    assert caught.value.origin == origin.url


async def test_leaving_early_closes_the_connection(engine, origins) -> None:
    async def answer(origin, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    origin = await origins(answer)
    async with engine.get(origin.url) as response:
        await anext(response)
    await asyncio.wait_for(origin.left.wait(), 10)


async def test_a_consumer_that_never_reads_stops_the_origin(engine, origins) -> None:
    async def answer(origin, reader, writer):
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            origin.sent += 65536

    origin = await origins(answer)
    async with engine.get(origin.url) as response:
        await until(lambda: response.held >= response.window, "the window is full")
        quiet = origin.sent
        # What the kernel's buffers still take; then nothing more, however often the origin gets a turn.
        while True:
            for _ in range(200):
                await asyncio.sleep(0.001)
            if quiet == origin.sent:
                break
            quiet = origin.sent
        assert origin.sent < 32 * 1024 * 1024
        assert engine.stats().pool.live_bytes <= 1024 * 1024


async def test_a_body_passes_a_pool_whose_only_region_is_cut_small(origins) -> None:
    """A pool of one region, cut for the head's slab, which the consumer holds while it awaits the next frame."""
    content = os.urandom(1_000_000)
    origin = await origins(fixed(content))
    received = bytearray()
    async with penstock.Engine(memory="256KiB") as engine:
        async with engine.get(origin.url) as response:
            first = await anext(response)
            received += first
            async for frame in response:
                received += frame
                # Two whole slabs and what their frames cost are more than the window of a pool this small.
                del frame
        assert received == content
        del first


async def test_cancelling_the_wait_for_the_head_cancels_the_request(engine, origins) -> None:
    arrived = asyncio.Event()

    async def answer(origin, reader, writer):
        arrived.set()
        await reader.read()
        origin.left.set()

    origin = await origins(answer)

    async def ask() -> None:
        async with engine.get(origin.url):
            pass

    task = asyncio.ensure_future(ask())
    await in_time(arrived.wait(), "the request has arrived")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(origin.left.wait(), 10)


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3_000_000])
@pytest.mark.parametrize("kind", ["bytes", "memoryview", "iterator", "announced"])
async def test_request_bodies_arrive_whole(engine, origins, kind: str, size: int) -> None:
    content = os.urandom(size)
    received = []

    async def answer(origin, reader, writer):
        head = origin.heads[-1].lower()
        if b"content-length: %d\r\n" % size in head:
            received.append(await reader.readexactly(size))
        else:
            assert b"transfer-encoding: chunked\r\n" in head
            body = b""
            while (length := int(await reader.readline(), 16)) > 0:
                body += await reader.readexactly(length)
                assert await reader.readexactly(2) == b"\r\n"
            assert await reader.readexactly(2) == b"\r\n"
            received.append(body)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        return True

    async def pieces():
        for start in range(0, size, 100_000):
            yield content[start : start + 100_000]

    origin = await origins(answer)
    body = (
        {"bytes": content, "memoryview": memoryview(content)}.get(kind)
        if kind in {"bytes", "memoryview"}
        else pieces()
    )
    headers = {"Content-Length": str(size)} if kind == "announced" else {}
    async with engine.request("PUT", origin.url, body=body, headers=headers) as response:
        assert response.status == 204
        assert await response.bytes() == b""
    assert received == [content]


async def test_a_body_whose_source_fails_fails_the_request(engine, origins) -> None:
    arrived = asyncio.Event()

    async def answer(origin, reader, writer):
        arrived.set()
        await reader.read()
        origin.left.set()

    async def pieces():
        yield b"some"
        await arrived.wait()
        msg = "the source broke"
        raise OSError(msg)

    origin = await origins(answer)
    with pytest.raises(penstock.StateError) as caught:
        await engine.request("POST", origin.url, body=pieces())
    assert caught.value.name == "UPLOAD_FAILED"
    assert "the source broke" in str(caught.value)
    await asyncio.wait_for(origin.left.wait(), 10)


async def test_events_of_a_response(engine, origins) -> None:
    async def answer(origin, reader, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for number in range(100):
            block = b"data: %d\n\n" % number
            writer.write(b"%x\r\n%s\r\n" % (len(block), block))
        writer.write(b"0\r\nX-Sum: 4950\r\n\r\n")
        await writer.drain()
        return True

    origin = await origins(answer)
    async with engine.get(origin.url) as response:
        events = [int(bytes(event.data)) async for event in response.frames(framing.Events())]
        assert events == list(range(100))
        assert response.trailers["x-sum"] == "4950"


async def test_first_byte_and_between_bytes_have_their_own_limits(engine, origins) -> None:
    silence = asyncio.Event()

    async def silent(origin, reader, writer):
        await silence.wait()

    async def stalls(origin, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsome")
        await silence.wait()

    limits = config.Timeouts(first_byte=0.05, between_bytes=0.05)
    with pytest.raises(penstock.TimeLimitError) as caught:
        await engine.request("GET", (await origins(silent)).url, timeouts=limits)
    assert caught.value.name == "FIRST_BYTE_TIMEOUT"
    async with engine.request("GET", (await origins(stalls)).url, timeouts=limits) as response:
        with pytest.raises(TimeoutError) as caught:
            await response.bytes()
    assert caught.value.code == 0x102


async def test_a_slow_consumer_is_not_a_slow_origin(engine, origins) -> None:
    origin = await origins(fixed(b"x" * 3_000_000))
    limits = config.Timeouts(between_bytes=0.05)
    async with engine.request("GET", origin.url, timeouts=limits) as response:
        await anext(response)
        # Nothing is waited for: a consumer that takes four times as long as an origin may is what is tested.
        await asyncio.sleep(0.2)
        assert len(await response.bytes()) > 0


@pytest.mark.parametrize("url", ["ftp://host/", "/relative", "http://", "nonsense"])
async def test_what_is_no_url_is_refused_before_anything_is_sent(engine, url: str) -> None:
    with pytest.raises(penstock.RequestError):
        engine.get(url)


@pytest.mark.parametrize(
    "headers",
    [{"Bad Name": "x"}, {"X": "a\r\nInjected: b"}, {"X": "a\0"}, {"Content-Length": "five"}],
    ids=["name", "value", "nul", "length"],
)
async def test_headers_that_make_no_request_are_refused(engine, origins, headers) -> None:
    origin = await origins(fixed(b""))
    with pytest.raises(penstock.RequestError):
        await engine.get(origin.url, headers=headers)
    assert not origin.heads


async def test_refused_connections_name_the_origin(engine) -> None:
    with pytest.raises(ConnectionError) as caught:
        await engine.get("http://127.0.0.1:1/")
    assert caught.value.name == "CONNECT_FAILED"
    assert caught.value.origin == "http://127.0.0.1:1"
    assert caught.value.retryable


async def test_head_has_no_body(engine, origins) -> None:
    async def answer(origin, reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        return True

    origin = await origins(answer)
    for _ in range(2):
        async with engine.request("HEAD", origin.url) as response:
            assert response.headers["Content-Length"] == "1000"
            assert await response.bytes() == b""
    assert origin.connections == 1


async def test_many_streams_at_once_from_two_threads(origins) -> None:
    content = os.urandom(300_000)
    origin = await origins(fixed(content))
    async with penstock.Engine(memory="16MiB", threads=2) as engine:

        async def one() -> bool:
            async with engine.get(origin.url) as response:
                return await response.bytes() == content

        assert all(await asyncio.gather(*(one() for _ in range(100))))


async def test_the_head_is_not_there_before_it_is_awaited(engine, origins) -> None:
    origin = await origins(fixed(b"x"))
    response = engine.get(origin.url)
    with pytest.raises(AttributeError, match="await it"):
        _ = response.status
    assert (await response).status == 200
    await response.aclose()
