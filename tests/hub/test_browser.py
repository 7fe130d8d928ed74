"""A topic in a real browser: EventSource needs nothing of penstock's own to hear it, and to stop when it has ended."""

from pathlib import Path

import pytest

from support.browser import open_browser
from support.programs import require
from support.subscribers import PATH, Topics
from support.waiting import until

_SECONDS = 30.0


@pytest.mark.timeout(120)
async def test_a_browser_hears_a_topic_to_its_end_and_stays_away(topics: Topics, tmp_path: Path) -> None:
    hub = topics.hub()
    # The page has no origin that a server could know: any may read.
    options = {"response_headers": {"Access-Control-Allow-Origin": "*"}}
    served = await topics.serve(hub, retry=0.02, options=options)
    program = require("chromium", package="chromium")
    async with open_browser(program, tmp_path / "profile") as page:
        await page.evaluate(f"""{{
            window.heard = []
            window.source = new EventSource('http://127.0.0.1:{served.port}{PATH}')
            const hear = (event) => heard.push([event.type, event.data, event.lastEventId])
            for (const type of ['message', 'score', 'penstock-end']) source.addEventListener(type, hear)
        }}""")
        await until(lambda: hub.stats().subscribers == 1, "the browser has subscribed")
        first = await hub.publish("news", "one\r\ntwo")
        second = await hub.publish("news", "€", event="score")
        await page.until("heard.length === 2", seconds=_SECONDS)
        assert await page.evaluate("heard") == [["message", "one\ntwo", first], ["score", "€", second]]
        await hub.finish("news")
        # It comes back with its last id, as it does after any end, and is told that there is no more.
        await page.until("source.readyState === 2", seconds=_SECONDS)
        kinds = [kind for kind, _, _ in await page.evaluate("heard")]
        assert kinds == ["message", "score", "penstock-end"]
    assert hub.stats().counts.gaps == 0
