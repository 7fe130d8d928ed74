"""An origin of event streams for the load test: `python events_origin.py STREAMS EVENTS PER_SECOND`.

`/events/N` is stream N. None begins before all STREAMS are asked for, so that they are all live at once; each
then sends EVENTS numbered events at PER_SECOND and ends. `/asked` tells how many have been asked for so far.
Prints its URL when it listens.
"""

import asyncio
import sys

from aiohttp import web
from numbered_events import event


class Streams:
    """The handlers, and the gate behind which every stream waits for the last."""

    def __init__(self, streams: int, events: int, per_second: float) -> None:
        self._gate = asyncio.Barrier(streams)
        self._events = events
        self._per_second = per_second
        self._asked = 0

    async def asked(self, _request: web.Request) -> web.Response:
        """How many streams have been asked for."""
        return web.Response(text=str(self._asked))

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Send one stream from its first event to its last."""
        stream = int(request.match_info["stream"])
        self._asked += 1
        response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        await self._gate.wait()
        loop = asyncio.get_running_loop()
        # Spread over the period, as five hundred unrelated streams would be.
        due = loop.time() + (stream % 97) / 97 / self._per_second
        for number in range(self._events):
            await asyncio.sleep(due - loop.time())
            await response.write(event(stream, number))
            due += 1 / self._per_second
        return response


async def main(streams: int, events: int, per_second: float) -> None:
    """Serve until terminated."""
    app = web.Application()
    handlers = Streams(streams, events, per_second)
    app.router.add_get(r"/events/{stream:\d+}", handlers.send)
    app.router.add_get("/asked", handlers.asked)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=streams).start()
    host, port = runner.addresses[0]
    print(f"http://{host}:{port}", flush=True)  # noqa: T201 (how it tells its port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
