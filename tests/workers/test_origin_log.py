"""Who logs that an origin fails, by `penstock serve --workers`: the parent, or for its relays a worker."""

import re
from pathlib import Path

from penstock.testing import ScriptedOrigin
from support.origins import says

from .serving import workers

APP = """
import logging, os
from pathlib import Path
from aiohttp import web
from penstock.web import Gateway

Path(f"imported-{os.getpid()}").touch()

class Marks(logging.Handler):
    # What this process says.
    def emit(self, record):
        Path(f"{record.name}-{os.getpid()}").touch()

for name in ("penstock.origins", "penstock.web"):
    logging.getLogger(name).addHandler(Marks())
app = web.Application()
app.router.add_get("/relay/{path:.*}", Gateway("HANDLER").relay)
app.add_routes([Gateway("ROUTE").native("/native/")])
"""


async def test_origins_that_fail_have_one_line_from_the_process_that_knows(directory: Path) -> None:
    async with ScriptedOrigin(says(b"")) as route, ScriptedOrigin(says(b"")) as handler:
        app = APP.replace("HANDLER", handler.url).replace("ROUTE", route.url)
        async with workers(directory, app=app) as serving:
            for target in ("/native/a", "/relay/a"):
                for _ in range(4):
                    assert await serving.status(target) == 502
            await serving.logged(re.escape(f"(origin {handler.url})"))
            assert serving.pids("penstock.origins") == set(), "it is the parent's to say"
            relayed = serving.pids("penstock.web")
            assert relayed <= serving.alive()
    # The others are counted, in a line that comes later.
    lines = [line for line in serving.running.lines if "more since" not in line]
    assert sum("WARNING penstock.origins: " in line and route.url in line for line in lines) == 1
    assert sum("WARNING penstock.web: GET /relay/a" in line for line in lines) == len(relayed)
    assert sum(handler.url in line and "penstock.origins" in line for line in lines) == 0
