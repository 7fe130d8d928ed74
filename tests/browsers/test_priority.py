"""What a page asks for urgently arrives before what it asked for earlier."""

import asyncio

import pytest
from aiohttp import web

import penstock
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.browser import Page
from support.client import answer

from .conftest import Serve, page

_SECONDS = 60
_BODY = bytes(8 << 20)
_BEGINNING = 1 << 20
_SLOW = 4
_PAGE = f"""<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>order</title><script>
const ended = []
const get = async (name, priority) => {{
  const response = await fetch(`/native/${{name}}`, {{priority}})
  const body = await response.arrayBuffer()
  ended.push([name, body.byteLength])
}}
const getAll = async () => {{
  const slow = Array.from({{length: {_SLOW}}}, (_, number) => get(`slow${{number}}`, 'low'))
  await fetch('/asked')
  await Promise.all([...slow, get('urgent', 'high')])
  return ended
}}
</script>"""


class Origin:
    """Answers once all requests are there, the urgent one first.

    On a busy machine a slow response could else be over before there is a byte of the urgent one to overtake it.
    """

    def __init__(self) -> None:
        self.priorities: dict[str, str | None] = {}
        self.slow = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            name = request.target.rpartition("/")[2]
            self.priorities[name] = request.get("Priority")
            if len(self.priorities) == _SLOW:
                self.slow.set()
            if name != "urgent":
                await self.has_begun.wait()
            await peer.send(answer(f"Content-Length: {len(_BODY)}"))
            await peer.send(_BODY[:_BEGINNING])
            if name == "urgent":
                self.has_begun.set()
            await peer.send(_BODY[_BEGINNING:])


@pytest.mark.timeout(180)
async def test_an_urgent_response_overtakes(engine: penstock.Engine, serve: Serve, tab: Page) -> None:
    script = Origin()

    async def asked(_request: web.Request) -> web.Response:
        """Return once the origin has all of the slow requests."""
        await script.slow.wait()
        return web.Response()

    async with ScriptedOrigin(script) as origin:
        gateway = Gateway(origin.url, engine=engine)
        app = web.Application()
        app.add_routes([page(_PAGE), web.get("/asked", asked), gateway.native("/native/")])
        front = await serve(app, engine)
        await tab.open(front.url)
        await tab.until("document.readyState === 'complete'", seconds=_SECONDS)
        ended = await tab.evaluate("getAll()")
    # The browser's own words for it, and what they did.
    urgencies = {name: _urgency(said) for name, said in script.priorities.items()}
    assert urgencies.pop("urgent") < min(urgencies.values())
    assert ended[0] == ["urgent", len(_BODY)]
    assert sorted(ended) == [*([f"slow{number}", len(_BODY)] for number in range(_SLOW)), ended[0]]


def _urgency(said: str | None) -> int:
    """RFC 9218, section 4.1: u=3 if the field says nothing of it."""
    parts = [part.strip() for part in (said or "").split(",")]
    return next((int(part.removeprefix("u=")) for part in parts if part.startswith("u=")), 3)
