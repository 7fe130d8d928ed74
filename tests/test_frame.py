"""A frame is read-only bytes that Python owns a share of: `bytes` is the oracle for everything it can do."""

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

import penstock
from support.waiting import until

CONTENT = bytes(range(40))


@pytest.fixture
async def frame(engine: penstock.Engine, tmp_path: Path) -> penstock.Frame:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    async with penstock.open_file(path, engine=engine) as stream:
        return await anext(stream)


async def test_it_reads_like_bytes(frame: penstock.Frame) -> None:
    assert bytes(frame) == CONTENT
    assert len(frame) == len(CONTENT)
    assert frame == CONTENT
    assert frame != CONTENT[1:]
    assert [frame[i] for i in range(-40, 40)] == [CONTENT[i] for i in range(-40, 40)]
    for bad in (40, -41):
        with pytest.raises(IndexError):
            frame[bad]


async def test_every_slice_is_that_of_bytes(frame: penstock.Frame) -> None:
    edges = [None, 0, 1, 20, 39, 40, 41, -1, -40, -41]
    for start in edges:
        for stop in edges:
            assert bytes(frame[start:stop]) == CONTENT[start:stop], (start, stop)
    with pytest.raises(ValueError, match="step"):
        frame[::2]


async def test_its_memory_is_inside_the_pool(engine: penstock.Engine, frame: penstock.Frame) -> None:
    base, length = engine.pool_addresses()
    array = np.frombuffer(frame, np.uint8)
    address = array.__array_interface__["data"][0]
    assert base <= address < base + length
    assert not array.flags.writeable
    assert array.tobytes() == CONTENT


async def test_views_are_read_only(frame: penstock.Frame) -> None:
    with memoryview(frame) as view:
        assert view.readonly
        with pytest.raises(TypeError):
            view[0] = 1


async def test_release_is_refused_while_a_view_or_a_part_is_alive(frame: penstock.Frame) -> None:
    view = memoryview(frame)
    part = frame[1:3]
    assert frame.exports == 2
    with pytest.raises(BufferError, match="2 views"):
        frame.release()
    view.release()
    with pytest.raises(BufferError, match="1 view"):
        frame.release()
    assert bytes(part) == CONTENT[1:3]
    part.release()
    del part
    gc.collect()
    assert frame.exports == 0
    frame.release()
    frame.release()
    assert frame.released
    for use in (len, bytes, memoryview, lambda f: f[0], lambda f: f[:1]):
        with pytest.raises((ValueError, BufferError), match="released"):
            use(frame)


async def test_an_array_pins_its_slab_and_nothing_else(
    engine: penstock.Engine, frame: penstock.Frame
) -> None:
    array = np.frombuffer(frame, np.uint8)
    smallest = engine.stats().pool.live_bytes
    assert 0 < smallest <= 64 * 1024
    del frame
    gc.collect()
    assert array.tobytes() == CONTENT
    assert engine.stats().pool.live_bytes == smallest
    del array


async def test_a_weak_reference_does_not_keep_it(engine: penstock.Engine, tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    async with penstock.open_file(path, engine=engine) as stream:
        frame = await anext(stream)
        reference = weakref.ref(frame)
        assert reference() is frame
        del frame
        gc.collect()
        assert reference() is None


async def test_a_million_frames_leave_nothing(engine: penstock.Engine) -> None:
    # /dev/zero never ends, so this also shows that closing stops the source.
    async with penstock.open_fd(
        os.open("/dev/zero", os.O_RDONLY), engine=engine, framing=penstock.framing.Fixed(16)
    ) as stream:
        count = 0
        async for frame in stream:
            count += len(frame) // 16
            if count == 1_000_000:
                break
    del frame
    await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
