"""What the boundary costs: a ready frame, a wake-up, a part of a frame, a framer.

    make bench            or            .venv/bin/python -m pytest -q --benchmark-enable benchmarks/test_boundary.py

Each figure is for many operations at a time, divided (`per` in the extra info is the number). `bare` is the least
that an asynchronous iterator in PyO3 can cost (benchmarks/bare, built on first use); a ready frame is judged by its
ratio to it in the same run.
"""

import asyncio
import importlib.util
import os
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

import penstock
from penstock import framing

HERE = Path(__file__).parent
FRAMES = 50_000


@pytest.fixture(scope="module")
def bare() -> Any:
    environment = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_PYTHON": os.sys.executable}
    target = HERE.parent / "rust" / "target" / "bare"
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--target-dir", target],
        cwd=HERE / "bare",
        env=environment,
        check=True,
    )
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / f"bare{suffix}"
        module.symlink_to(target / "release" / "libbare.so")
        spec = importlib.util.spec_from_file_location("bare", module)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[Any]], Any]]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


@pytest.fixture
def engine() -> Iterator[penstock.Engine]:
    # The window must hold all frames of a round at once, so that none is waited for.
    flow = penstock.config.Flow(floor="64MiB", ceiling="64MiB")
    engine = penstock.Engine(memory="128MiB", flow=flow)
    yield engine
    engine.close()


def _per(benchmark: Any, count: int) -> None:
    benchmark.extra_info["per"] = count
    if benchmark.stats:
        benchmark.extra_info["nanoseconds_each"] = round(benchmark.stats.stats.median / count * 1e9, 1)


async def _consume(stream: Any, count: int) -> None:
    async for _ in stream:
        count -= 1
        if not count:
            return


async def _consume_views(stream: Any, count: int) -> None:
    async for frame in stream:
        memoryview(frame)
        count -= 1
        if not count:
            return


def _filled(engine: penstock.Engine, run: Any, path: Path) -> penstock.FrameStream:
    async def fill() -> penstock.FrameStream:
        stream = penstock.open_file(path, framing=framing.Fixed(16), engine=engine)
        while stream.held < FRAMES * (16 + 64):
            await asyncio.sleep(0.001)
        return stream

    return run(fill())


@pytest.mark.parametrize("consume", [_consume, _consume_views], ids=["frame", "memoryview"])
def test_ready_bare(benchmark: Any, run: Any, bare: Any, consume: Any) -> None:
    value = b"x" * 16
    benchmark.pedantic(lambda: run(consume(bare.Bare(value), FRAMES)), rounds=15, warmup_rounds=2)
    _per(benchmark, FRAMES)


@pytest.mark.parametrize("consume", [_consume, _consume_views], ids=["frame", "memoryview"])
def test_ready_frame(
    benchmark: Any, run: Any, engine: penstock.Engine, bare: Any, consume: Any, tmp_path: Path
) -> None:
    """Each round has one of the bare awaitable right before it: a machine that is slow for a while is so to both."""
    path = tmp_path / "frames"
    path.write_bytes(b"x" * 16 * FRAMES)
    bare_seconds: list[float] = []

    def setup() -> tuple[tuple[penstock.FrameStream], dict[str, Any]]:
        stream = _filled(engine, run, path)
        started = time.perf_counter()
        run(consume(bare.Bare(b"x" * 16), FRAMES))
        bare_seconds.append(time.perf_counter() - started)
        return (stream,), {}

    benchmark.pedantic(lambda stream: run(consume(stream, FRAMES)), setup=setup, rounds=31, warmup_rounds=2)
    _per(benchmark, FRAMES)
    if benchmark.stats:
        ratio = benchmark.stats.stats.median / statistics.median(bare_seconds)
        benchmark.extra_info["of_a_bare_awaitable"] = round(ratio, 2)


def test_ready_batch(benchmark: Any, run: Any, engine: penstock.Engine, tmp_path: Path) -> None:
    path = tmp_path / "frames"
    path.write_bytes(b"x" * 16 * FRAMES)

    async def consume(stream: penstock.FrameStream) -> None:
        async for _ in stream.batches(most=256):
            pass

    benchmark.pedantic(
        lambda stream: run(consume(stream)),
        setup=lambda: ((_filled(engine, run, path),), {}),
        rounds=15,
        warmup_rounds=2,
    )
    _per(benchmark, FRAMES)


def test_wake_up(benchmark: Any, run: Any, engine: penstock.Engine) -> None:
    """From a byte written to a pipe to the task that waits for it: the engine thread, the eventfd, the loop."""
    count = 2000

    async def ping() -> None:
        read, write = os.pipe()
        async with penstock.open_fd(read, engine=engine) as stream:
            for _ in range(count):
                waiting = stream.__anext__()
                os.write(write, b"x")
                await waiting
        os.close(write)

    benchmark.pedantic(lambda: run(ping()), rounds=10, warmup_rounds=1)
    _per(benchmark, count)


def test_part_of_a_frame(benchmark: Any, run: Any, engine: penstock.Engine, tmp_path: Path) -> None:
    """Clone and split: a slice of a frame, and its end."""
    path = tmp_path / "frame"
    path.write_bytes(b"x" * 4096)

    async def first() -> penstock.Frame:
        async with penstock.open_file(path, engine=engine) as stream:
            return await anext(stream)

    frame = run(first())

    def parts() -> None:
        for _ in range(10_000):
            frame[100:200]

    benchmark.pedantic(parts, rounds=20, warmup_rounds=2)
    _per(benchmark, 10_000)


CONTENT = {
    "raw": (framing.Raw(), b"x" * (32 << 20)),
    "fixed 1 KiB": (framing.Fixed(1024), b"x" * (32 << 20)),
    "lines of 100 B": (framing.Lines(), (b"x" * 99 + b"\n") * 300_000),
    "events of 200 B": (framing.Events(), (b"data: " + b"x" * 192 + b"\n\n") * 160_000),
    "length-prefixed 1 KiB": (framing.LengthPrefixed(), ((1024).to_bytes(4) + b"x" * 1024) * 32_000),
}


@pytest.mark.parametrize("name", CONTENT)
def test_framer(benchmark: Any, engine: penstock.Engine, name: str, tmp_path: Path) -> None:
    """Megabytes per second from a file in memory through a framer to batches in Python."""
    cut, content = CONTENT[name]
    path = Path("/dev/shm") / f"penstock-bench-{os.getpid()}"
    path.write_bytes(content)

    async def read() -> None:
        async with penstock.open_file(path, framing=cut, engine=engine) as stream:
            async for _ in stream.batches(most=256):
                pass

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            benchmark.pedantic(lambda: runner.run(read()), rounds=5, warmup_rounds=1)
    finally:
        path.unlink()
    if benchmark.stats:
        benchmark.extra_info["megabytes_per_second"] = round(
            len(content) / benchmark.stats.stats.median / 1e6
        )
