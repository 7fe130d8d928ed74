"""The contract of a stream, on pipes whose other end the test holds."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator

import pytest

import penstock
from penstock import framing
from support.waiting import until


class Pipe:
    """A pipe: the test writes, the engine reads."""

    def __init__(self, engine: penstock.Engine, cut: framing.Framing | None = None) -> None:
        read, self.end = os.pipe()
        self.stream = penstock.open_fd(read, engine=engine, framing=cut or framing.Raw())

    def write(self, data: bytes) -> None:
        os.write(self.end, data)

    def close(self) -> None:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1


@pytest.fixture
async def pipe(engine: penstock.Engine) -> AsyncIterator[Pipe]:
    pipe = Pipe(engine)
    yield pipe
    pipe.close()
    await pipe.stream.aclose()


async def test_frames_come_in_order_and_then_the_end(pipe: Pipe) -> None:
    pipe.write(b"one")
    assert bytes(await anext(pipe.stream)) == b"one"
    pipe.write(b"two")
    pipe.close()
    assert [bytes(frame) async for frame in pipe.stream] == [b"two"]
    assert [frame async for frame in pipe.stream] == []


async def test_a_wait_is_one_wake_up(engine: penstock.Engine, pipe: Pipe) -> None:
    waiting = asyncio.ensure_future(anext(pipe.stream))
    await asyncio.sleep(0)
    before = engine.stats().wakeups
    pipe.write(b"x")
    await waiting
    assert engine.stats().wakeups == before + 1


async def test_what_is_ready_needs_no_turn_of_the_loop(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Fixed(1))
    pipe.write(b"abc")
    await anext(pipe.stream)
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    assert [bytes(await anext(pipe.stream)) for _ in "bc"] == [b"b", b"c"]
    assert not turns
    pipe.close()
    await pipe.stream.aclose()


async def test_a_run_of_ready_frames_lets_others_have_a_turn(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Fixed(1))
    pipe.write(b"x" * 1000)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(1000):
        await anext(pipe.stream)
    task.cancel()
    assert turns >= 1000 // 64
    pipe.close()
    await pipe.stream.aclose()


async def test_a_second_consumer_is_refused(pipe: Pipe) -> None:
    first = asyncio.ensure_future(anext(pipe.stream))
    await asyncio.sleep(0)
    with pytest.raises(penstock.StreamBusyError) as caught:
        await anext(pipe.stream)
    assert caught.value.code == 0x502
    pipe.write(b"x")
    assert bytes(await first) == b"x"


async def test_cancelling_a_wait_loses_no_frame(pipe: Pipe) -> None:
    for number in range(100):
        waiting = asyncio.ensure_future(anext(pipe.stream))
        await asyncio.sleep(0)
        if number % 2:
            # Both orders: the frame may have woken the task already when the cancellation comes.
            pipe.write(bytes([number]))
            await asyncio.sleep(0)
        waiting.cancel()
        try:
            frame = await waiting
        except asyncio.CancelledError:
            if not number % 2:
                pipe.write(bytes([number]))
            frame = await anext(pipe.stream)
        assert bytes(frame) == bytes([number])


async def test_wait_for_gives_up_and_the_stream_goes_on(pipe: Pipe) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(pipe.stream), 0.01)
    pipe.write(b"x")
    assert bytes(await anext(pipe.stream)) == b"x"


async def test_closing_twice_is_closing_once(pipe: Pipe) -> None:
    await pipe.stream.aclose()
    await pipe.stream.aclose()
    assert pipe.stream.closed
    with pytest.raises(penstock.StateError) as caught:
        await anext(pipe.stream)
    assert caught.value.name == "STREAM_CLOSED"


async def test_closing_closes_the_source(pipe: Pipe) -> None:
    await pipe.stream.aclose()

    def broken() -> bool:
        try:
            pipe.write(b"x")
        except BrokenPipeError:
            return True
        return False

    await until(broken, "the pipe has no reader")


async def test_an_unclosed_stream_warns_and_is_closed(engine: penstock.Engine) -> None:
    pipe = Pipe(engine)
    with pytest.warns(ResourceWarning, match="async with"):
        del pipe.stream
        gc.collect()
    await until(lambda: engine.stats().streams == 0, "the stream was closed")
    pipe.close()


async def test_a_stream_that_was_read_to_its_end_owes_nothing(engine: penstock.Engine) -> None:
    pipe = Pipe(engine)
    pipe.close()
    assert [frame async for frame in pipe.stream] == []
    del pipe
    gc.collect()


async def test_a_consumer_that_holds_the_window_and_awaits_more_gets_an_error(
    engine: penstock.Engine,
) -> None:
    async with penstock.open_fd(os.open("/dev/zero", os.O_RDONLY), engine=engine) as stream:
        held = []
        with pytest.raises(penstock.WindowHeldError) as caught:
            async for frame in stream:
                held.append(frame)
        assert caught.value.code == 0x402
        assert len(held) > 1
        assert stream.held <= stream.window + 256 * 1024 + 64 * len(held)
        held.clear()
        del frame
        assert len(await anext(stream)) > 0


async def test_one_frame_can_always_be_held(engine: penstock.Engine) -> None:
    size = 3 * 1024 * 1024
    async with penstock.open_fd(
        os.open("/dev/zero", os.O_RDONLY), engine=engine, framing=framing.Fixed(size)
    ) as stream:
        previous = await anext(stream)
        for _ in range(5):
            following = await anext(stream)
            assert len(previous) == len(following) == size
            previous = following
    assert engine.stats().pool.bytes_copied["frame_join"] == 0
    del previous, following


async def test_batches_bring_many_frames_at_a_time(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Lines())
    pipe.write(b"".join(b"%d\n" % number for number in range(1000)))
    pipe.close()
    batches = [[bytes(frame) for frame in batch] async for batch in pipe.stream.batches(most=100)]
    assert [line for batch in batches for line in batch] == [b"%d" % number for number in range(1000)]
    assert max(map(len, batches)) == 100


async def test_bytes_reads_what_is_left(pipe: Pipe, engine: penstock.Engine) -> None:
    writer = asyncio.to_thread(lambda: (pipe.write(b"x" * 3_000_000), pipe.close()))
    body, _ = await asyncio.gather(pipe.stream.bytes(), writer)
    assert body == b"x" * 3_000_000
    assert engine.stats().pool.bytes_copied["python_bytes"] == 3_000_000


async def test_the_framing_can_change_after_bytes_have_come(pipe: Pipe) -> None:
    pipe.write(b"first\nsec")
    await until(lambda: pipe.stream.held > 0, "the bytes have come")
    lines = pipe.stream.frames(framing.Lines())
    assert bytes(await anext(lines)) == b"first"
    pipe.write(b"ond\nthird")
    pipe.close()
    assert [bytes(line) async for line in lines] == [b"second", b"third"]


async def test_the_framing_can_change_after_the_end_has_come(pipe: Pipe) -> None:
    pipe.write(b"a\nb")
    pipe.close()
    await until(lambda: pipe.stream.held > 0, "the bytes have come")
    assert [bytes(line) async for line in pipe.stream.frames(framing.Lines())] == [b"a", b"b"]


async def test_the_framing_is_chosen_once(pipe: Pipe) -> None:
    pipe.write(b"a\nb\nc")
    pipe.close()
    lines = pipe.stream.frames(framing.Lines())
    assert bytes(await anext(lines)) == b"a"
    with pytest.raises(penstock.StateError) as caught:
        pipe.stream.frames(framing.Fixed(2))
    assert caught.value.name == "ALREADY_FRAMED"
    assert [bytes(line) async for line in pipe.stream.frames(framing.Lines())] == [b"b", b"c"]


async def test_a_frame_that_is_too_large_is_an_error_with_a_code(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Lines(max_frame=10))
    pipe.write(b"short\n" + b"x" * 11)
    assert bytes(await anext(pipe.stream)) == b"short"
    with pytest.raises(penstock.FrameError) as caught:
        await anext(pipe.stream)
    assert caught.value.name == "FRAME_TOO_LARGE"
    pipe.close()


async def test_a_body_that_ends_within_a_frame_is_no_clean_end(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Fixed(4))
    pipe.write(b"whole" + b"x")
    pipe.close()
    assert bytes(await anext(pipe.stream)) == b"whol"
    with pytest.raises(penstock.FrameError) as caught:
        await anext(pipe.stream)
    assert caught.value.name == "FRAME_TRUNCATED"


async def test_closing_the_engine_is_no_clean_end() -> None:
    async with penstock.Engine(memory="1MiB") as engine:
        pipe = Pipe(engine)
        waiting = asyncio.ensure_future(anext(pipe.stream))
        await asyncio.sleep(0)
    with pytest.raises(penstock.StateError) as caught:
        await waiting
    assert caught.value.name == "ENGINE_CLOSED"
    pipe.close()


async def test_a_closed_engine_refuses_new_work_and_opens_nothing() -> None:
    """The fixtures check the second half: an engine that no longer closes anything must not open it."""
    engine = penstock.Engine(memory="1MiB")
    await engine.aclose()
    for start in (
        lambda: engine.get("http://127.0.0.1:1/"),
        lambda: engine.request("PUT", "http://127.0.0.1:1/", body=nothing()),
        lambda: penstock.open_file("/dev/null", engine=engine),
    ):
        with pytest.raises(penstock.StateError) as caught:
            start()
        assert caught.value.name == "ENGINE_CLOSED"


async def nothing() -> AsyncIterator[bytes]:
    yield b""


async def test_frames_outlive_their_engine() -> None:
    async with penstock.Engine(memory="1MiB") as engine:
        pipe = Pipe(engine)
        pipe.write(b"still here")
        frame = await anext(pipe.stream)
        await pipe.stream.aclose()
        pipe.close()
    del engine
    gc.collect()
    assert bytes(frame) == b"still here"


@pytest.fixture
def events() -> bytes:
    return b"event: tick\nid: 7\ndata: one\n\ndata: a\ndata: b\nretry: 1500\n\n: comment\n\ndata: last\n\n"


async def test_events_give_their_fields_as_views(engine: penstock.Engine, events: bytes) -> None:
    pipe = Pipe(engine, framing.Events())
    pipe.write(events)
    pipe.close()
    first, second, third = [event async for event in pipe.stream]
    assert (first.event, first.id, first.data, first.retry) == (b"tick", b"7", b"one", None)
    assert (second.event, second.id, second.data, second.retry) == (None, None, b"a\nb", 1500)
    assert third.data == b"last"
    copied = engine.stats().pool.bytes_copied
    assert (copied["frame_join"], copied["event_data"]) == (0, 3)
    assert first.exports == 0


async def test_blocks_cover_every_byte(engine: penstock.Engine, events: bytes) -> None:
    pipe = Pipe(engine, framing.Events(blocks=True))
    pipe.write(events + b"data: unfinished")
    pipe.close()
    blocks = [bytes(block) async for block in pipe.stream]
    assert b"".join(blocks) == events + b"data: unfinished"
    assert len(blocks) == 6
    assert blocks[2:4] == [b": comment\n", b"\n"]


async def test_a_heartbeat_is_a_block_as_soon_as_it_comes(engine: penstock.Engine) -> None:
    pipe = Pipe(engine, framing.Events(blocks=True))
    for heartbeat in (b":\n", b": still here\r\n", b"\n"):
        pipe.write(heartbeat)
        assert bytes(await anext(pipe.stream)) == heartbeat
    pipe.close()
    assert [block async for block in pipe.stream] == []


async def test_closing_the_engine_ends_uploads_that_wait_for_room() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.transport.abort()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    released = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0, limit=1024)
    async with penstock.Engine(memory="1MiB") as engine:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        waiting = asyncio.ensure_future(engine.request("POST", url, body=endless()).__aenter__())
        await until(
            lambda: engine.stats().pool.bytes_copied["upload"] > 100_000, "the window of the upload is full"
        )
    with pytest.raises(penstock.StateError):
        await waiting
    released.set()
    server.close()
    await server.wait_closed()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        await asyncio.wait_for(task, 10)
