"""A process that has a stream feed the topic "news" of a Redis: `feed_worker.py REDIS ORIGIN LEASE`.

It says when it has begun, and goes on to the end of its input.
"""

import asyncio
import sys

import penstock
from penstock import RedisLog


async def main(redis: str, origin: str, lease: str) -> None:
    log = RedisLog(redis, timeout=1.0, longest_wait=0.1, lease=float(lease))
    async with (
        penstock.Engine(memory="16MiB") as engine,
        penstock.Hub(engine=engine, log=log) as hub,
        engine.get(origin) as response,
    ):
        await hub.feed("news", response)
        print("begun", flush=True)  # noqa: T201 (the parent process reads this)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
