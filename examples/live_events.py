"""A scoreboard: what is posted to /goals comes to every page that listens, of all processes on one Redis.

python examples/live_events.py
python examples/live_events.py --port 8081 --redis redis://localhost:6379/0
curl -N http://localhost:8080/events/scores
curl -d '1:0' http://localhost:8080/goals
"""

import argparse
from collections.abc import AsyncIterator

from aiohttp import web

from penstock import ConnectionFailedError, Hub, RedisLog
from penstock.config import Subscriptions
from penstock.web import run_app

PAGE = """<!doctype html><title>Scores</title><ul id="goals"></ul><script>
const events = new EventSource("/events/scores");
const tell = (text) => goals.append(Object.assign(document.createElement("li"), {textContent: text}));
events.addEventListener("goal", (event) => tell(event.data));
events.addEventListener("penstock-gap", () => tell("something is missing here"));
</script>"""


def make_app(hub: Hub) -> web.Application:
    """Serve `hub`, and have it publish."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def goal(request: web.Request) -> web.Response:
        try:
            position = await hub.publish("scores", await request.text(), event="goal")
        except ConnectionFailedError as error:
            # It may have been published: the client decides whether to post it again.
            raise web.HTTPServiceUnavailable(text=f"{error}\n", headers={"Retry-After": "1"}) from error
        return web.json_response({"id": position})

    async def follow(_: web.Application) -> AsyncIterator[None]:
        async with hub:
            yield

    app = web.Application()
    app.cleanup_ctx.append(follow)
    app.router.add_get("/", page)
    app.router.add_post("/goals", goal)
    app.add_routes([hub.native("/events/", subscriptions=Subscriptions(join=10))])
    return app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--redis", help="the URL of a Redis that other processes use as well")
    options = parser.parse_args()
    hub = Hub(log=None if options.redis is None else RedisLog(options.redis))
    run_app(make_app(hub), port=options.port)


if __name__ == "__main__":
    main()
