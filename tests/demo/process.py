"""`penstock demo` as a process of its own, started and ended as a user does."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PAGE = re.compile(rb"open\s+(https?://\S+)")


@asynccontextmanager
async def running_demo(*options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`penstock demo` on a free port, as a user starts it: yields the process and the URL it printed.

    A process that is still there at the end is told to terminate. It has to end with status 0, and to have
    had nothing to complain of.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "demo", "--listen", "127.0.0.1:0", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(30):
            async for line in process.stdout:
                if found := _PAGE.search(line):
                    break
            else:
                raise AssertionError(f"penstock demo printed no URL: {(await complaints).decode()}")
        yield process, found[1].decode()
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
            assert await complaints == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await complaints
