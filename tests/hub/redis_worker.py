"""A process that serves topics which a Redis keeps, and publishes until it is told to stop.

It prints its port. At a line of input it stops publishing, and prints what Redis has confirmed, as JSON; what was
refused it goes on without. At a line "finish" it finishes the topic, at the end of input it ends.
"""

import asyncio
import json
import sys

from aiohttp import web

import penstock
import penstock.web
from penstock.config import History, Subscriptions


async def publish(hub: penstock.Hub, name: str, stopped: asyncio.Task[str]) -> list[tuple[str, str]]:
    confirmed = []
    number = 0
    while not stopped.done():
        number += 1
        try:
            data = f"{name} {number}"
            confirmed.append((await hub.publish("news", data), data))
        except penstock.ConnectionFailedError:
            # It is away: asking all the time gains nothing.
            await asyncio.sleep(0.01)
    return confirmed


async def main(url: str, name: str) -> None:
    log = penstock.RedisLog(url, timeout=5.0, longest_wait=0.2)
    kept = History(events=1_000_000, bytes="16MiB", memory="24MiB")
    async with (
        penstock.Engine(memory="32MiB") as engine,
        penstock.Hub(engine=engine, history=kept, log=log) as hub,
    ):
        app = web.Application()
        # While a broker starts on a busy machine, nothing comes for longer than the default of a heartbeat.
        terms = Subscriptions(join="start", heartbeat=None)
        app.add_routes([hub.native("/events/", subscriptions=terms)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = penstock.web.Site(runner, "127.0.0.1", 0, engine=engine)
        await site.start()
        print(site.port, flush=True)  # noqa: T201 (the parent process reads this)
        stopped = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        print(json.dumps(await publish(hub, name, stopped)), flush=True)  # noqa: T201 (the parent process reads this)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line == "finish\n":
                await hub.finish("news")
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
