"""aiohttp-sse as a hub, on uvloop, as its documentation would have one made: a queue for each subscriber."""

from __future__ import annotations

import argparse
import asyncio
from collections import deque
from itertools import count

import uvloop
from aiohttp import web
from aiohttp_sse import sse_response

HISTORY = 1000


class Topic:
    """Its subscribers' queues, and what a subscriber could resume from."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[tuple[str, str]]] = set()
        self._history: deque[tuple[str, str]] = deque(maxlen=HISTORY)
        self._numbers = count(1)

    async def publish(self, request: web.Request) -> web.Response:
        event = (await request.text(), str(next(self._numbers)))
        self._history.append(event)
        for queue in self._queues:
            queue.put_nowait(event)
        return web.Response(status=204)

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        async with sse_response(request) as response:
            self._queues.add(queue)
            try:
                while response.is_connected():
                    data, number = await queue.get()
                    await response.send(data, id=number)
            finally:
                self._queues.discard(queue)
        return response


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    arguments = parser.parse_args()
    topic = Topic()
    app = web.Application()
    app.router.add_get("/events/topic", topic.subscribe)
    app.router.add_post("/publish", topic.publish)
    host, _, port = arguments.listen.rpartition(":")
    web.run_app(
        app,
        host=host,
        port=int(port),
        backlog=4096,
        access_log=None,
        print=None,
        shutdown_timeout=1,
        keepalive_timeout=300,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
