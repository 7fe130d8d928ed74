"""Many upgrades one after the other: the process that serves in the end is no larger than the ones before it."""

import asyncio
import os
from itertools import count
from pathlib import Path

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.feeds import HEADS
from support.origins import chunk
from support.upgrading import Line, serving
from support.waiting import in_time, until

UPGRADES, STREAMS, IDLE = 20, 10, 50
# Of clients, and of the origin of each stream.
LEAST = IDLE + 2 * STREAMS


async def origin(peer: Peer) -> None:
    """Events without end under /live, ten a second; and segments."""
    while True:
        if (await peer.request()).target != "/live":
            await peer.send(answer("Cache-Control: max-age=3600", "Content-Length: 5", body=b"body!"))
            continue
        await peer.send(HEADS["chunked"])
        for number in count():
            await peer.send(chunk(b"data: %d\n\n" % number))
            await asyncio.sleep(0.1)


async def follow(line: Line) -> None:
    """Read a stream; each event must be the next one."""
    client = await line.connect()
    try:
        await client.get("/live", "Accept: text/event-stream")
        await in_time(client.head())
        for number in count():
            assert await in_time(client.chunk()) == b"data: %d\n\n" % number
    finally:
        client.abort()


async def churn(line: Line, over: asyncio.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        assert await line.ask(f"/{number % 100}") == b"body!"


def descriptors(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def status(process: int, name: str) -> int:
    (found,) = (
        line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith(name)
    )
    return int(found.split()[1])


async def test_descriptors_threads_and_memory_stay_as_they_are_through_many_upgrades() -> None:
    async with (
        ScriptedOrigin(origin) as server,
        serving("--origin", server.url, "--cache", "8MiB", "--no-access-log") as line,
    ):
        idle = [await RawClient.connect(line.port) for _ in range(IDLE)]
        over = asyncio.Event()
        following = [asyncio.create_task(follow(line)) for _ in range(STREAMS)]
        churning = [asyncio.create_task(churn(line, over)) for _ in range(2)]
        seen = []
        for _ in range(UPGRADES):
            before = line.newest
            number = await line.upgrade()
            await line.ended(before)
            await until(lambda number=number: descriptors(number) >= LEAST, "all connections have moved")
            seen.append((descriptors(number), status(number, "Threads"), status(number, "VmRSS")))
            assert not any(task.done() for task in (*following, *churning))
        over.set()
        await in_time(asyncio.gather(*churning))
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        for client in idle:
            assert (await client.ask("/0")).body == b"body!"
            client.abort()
    early, late = seen[2:5], seen[-3:]
    # The churn has a connection or two at a time.
    assert max(row[0] for row in late) <= max(row[0] for row in early) + 4, seen
    assert max(row[1] for row in late) <= max(row[1] for row in early), seen
    assert max(row[2] for row in late) <= max(row[2] for row in early) * 1.1, seen
