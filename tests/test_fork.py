"""A pool dies with a fork: the child gets an error and not the parent's memory, and the parent does not notice.

The forks happen in processes of their own: pytest's has threads and a running loop that no child should inherit.
"""

import asyncio
import sys

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.waiting import in_time

COMMON = """
import asyncio, atexit, os, sys, traceback
import penstock

URL = sys.argv[1]

async def fetch(engine):
    async with engine.get(URL) as response:
        assert await response.bytes() == b"x" * 1000
        return response.timings.reused

def refused(use):
    try:
        result = use()
        if asyncio.iscoroutine(result):
            raise AssertionError("nothing here is awaited")
    except penstock.PenstockError as error:
        assert error.name == "POOL_DEAD", error
        assert isinstance(error, penstock.StateError)
    else:
        raise AssertionError(f"{result!r} was made in the child")

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            # What is registered for the exit runs, for the parent's engines too. To unwind would close the parent's
            # loop, and asyncio would take its own pipe out of the epoll instance that both processes share.
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
"""

PARENTS_ENGINE = """
def child():
    async def uses():
        refused(lambda: engine.get(URL))
        refused(lambda: engine.request("PUT", URL, body=body()))
        refused(lambda: penstock.open_file("/etc/hostname", engine=engine))
        refused(lambda: penstock.open_fd(os.open("/dev/null", os.O_RDONLY), engine=engine))
        refused(lambda: penstock.open_process(["true"], engine=engine))
    async def body():
        yield b""
    asyncio.run(uses())
    engine.close()

with asyncio.Runner() as runner:
    engine = penstock.Engine(memory="4MiB")
    assert runner.run(fetch(engine)) is False
    in_child(child)
    assert runner.run(fetch(engine)) is True, "the idle connection is as it was"
    runner.run(engine.aclose())
"""

DEFAULT_ENGINE = """
def child():
    async def uses():
        assert penstock.default_engine() is not parents
        async with penstock.open_file(__file__) as stream:
            assert b"penstock" in await stream.bytes()
        assert await fetch(penstock.default_engine()) is False, "the connection is one of its own"
        assert await fetch(penstock.default_engine()) is True
    asyncio.run(uses())

with asyncio.Runner() as runner:
    parents = penstock.default_engine()
    assert runner.run(fetch(parents)) is False
    in_child(child)
    in_child(child)
    assert penstock.default_engine() is parents
    assert runner.run(fetch(parents)) is True, "the idle connection is as it was"
"""

FRAMES = """
def child():
    # The child's handle goes; the memory stays the parent's.
    frames.clear()

async def hold():
    async with engine.get(URL) as response:
        async for frame in response:
            frames.append(frame)

frames = []
with asyncio.Runner() as runner:
    engine = penstock.Engine(memory="256KiB")
    runner.run(hold())
    in_child(child)
    live = engine.stats().pool.live_bytes
    assert live > 0
    runner.run(fetch(engine))
    assert b"".join(frames) == b"x" * 1000, "what is held is not given to others"
    runner.run(engine.aclose())
"""

UNDER_WAY = """
async def main():
    async with engine.get(URL) as response:
        first = await anext(response)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert bytes(first) + await response.bytes() == b"x" * 1000

engine = penstock.Engine(memory="4MiB")
with asyncio.Runner() as runner:
    runner.run(main())
    assert runner.run(fetch(engine)) is True
    runner.run(engine.aclose())
"""


async def serve(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
        await peer.send(b"x" * 500)


@pytest.mark.parametrize(
    ("program", "connections"),
    [(PARENTS_ENGINE, 1), (DEFAULT_ENGINE, 3), (FRAMES, 1), (UNDER_WAY, 1)],
    ids=["the parent's engine is refused", "a default engine anew", "frames stay", "a body goes on"],
)
async def test_after_a_fork(tmp_path, program: str, connections: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(COMMON + program)
    async with ScriptedOrigin(serve) as origin:
        # Python 3.12 and later warn of every fork beside threads: this is about just that.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", str(path), origin.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(30):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await in_time(process.wait(), "the process has ended")
        assert process.returncode == 0, output.decode()
        assert output == b""
        assert len(origin.connections) == connections
