"""Two processes on a Redis that is killed and started again, while subscribers come, go and resume with either."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from support.brokers.redis_server import RedisServer
from support.waiting import in_time

from .watcher import Watcher

WORKER = Path(__file__).with_name("redis_worker.py")
SUBSCRIBERS = 30
KILLS = 3
# Events that Redis confirms before it is killed, and again.
BETWEEN = 100


async def started(redis: RedisServer, name: str) -> tuple[Process, int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), redis.url, name, stdin=PIPE, stdout=PIPE, limit=1 << 26
    )
    assert process.stdout is not None
    return process, int(await in_time(process.stdout.readline()))


async def stopped(process: Process) -> list[tuple[str, str]]:
    """Has it publish no more, and gives what Redis has confirmed."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    return [tuple(pair) for pair in json.loads(await in_time(process.stdout.readline()))]


def stream(redis: RedisServer) -> list[tuple[str, str]]:
    rows: Any = redis.call("XRANGE", "penstock:news", "-", "+")
    return [(position.decode(), fields[b"event"].split(b"\n")[1].decode()) for position, fields in rows]


async def published(redis: RedisServer, count: int) -> None:
    """Waits until so many more events are there."""
    goal = redis.call("XLEN", "penstock:news") + count
    while redis.call("XLEN", "penstock:news") < goal:
        await asyncio.sleep(0.01)


async def test_what_was_confirmed_comes_once_and_in_order_though_redis_is_killed(redis: RedisServer) -> None:
    workers = [await started(redis, name) for name in "ab"]
    ports = [port for _, port in workers]
    watchers = [Watcher(seed) for seed in range(SUBSCRIBERS)]
    watching = [asyncio.create_task(watcher.watch(ports)) for watcher in watchers]
    try:
        for _ in range(KILLS):
            await in_time(published(redis, BETWEEN))
            redis.kill()
            await redis.start()
        await in_time(published(redis, BETWEEN))
        confirmed = [pair for process, _ in workers for pair in await stopped(process)]
        there = stream(redis)
        workers[0][0].stdin.write(b"finish\n")  # type: ignore[union-attr]
        await in_time(asyncio.gather(*watching))
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for process, _ in workers:
            process.stdin.close()  # type: ignore[union-attr]
            await in_time(process.wait())
    assert len(confirmed) >= (KILLS + 1) * BETWEEN // 2
    assert set(confirmed) <= set(there), "what was confirmed is there"
    places = {pair: place for place, pair in enumerate(there)}
    for watcher in watchers:
        for run in watcher.runs:
            got = [places[pair] for pair in run]
            assert got == list(range(got[0], got[0] + len(got))) if got else True, (
                "once, in order, none missing"
            )
        final = [run for run in watcher.runs if run]
        assert final[-1][-1] == there[-1], "up to the end"
    gaps = sum(len(watcher.runs) - 1 for watcher in watchers)
    assert gaps <= KILLS * SUBSCRIBERS, "nothing was lost, so that few could not be told"
