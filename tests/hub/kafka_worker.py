"""A process that serves a topic of a Kafka to the end of its input: `kafka_worker.py SERVERS TOPIC`. Prints its port."""

import asyncio
import logging
import sys

from aiohttp import web

import penstock
import penstock.web
from penstock.config import History, Subscriptions


async def main(servers: str, topic: str) -> None:
    log = penstock.KafkaLog(servers, [topic], longest_wait=0.2)
    kept = History(events=100_000, bytes="16MiB", memory="24MiB")
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
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.WARNING)
    logging.getLogger("penstock.hub").setLevel(logging.INFO)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(main(*sys.argv[1:]))
