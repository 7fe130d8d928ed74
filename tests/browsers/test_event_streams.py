"""Fifty event streams of one page share one connection, where HTTP/1.1 has room for six."""

import asyncio

import pytest
from aiohttp import web

import penstock
import penstock.metrics
from penstock.config import Http2
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway
from support.browser import Page
from support.client import answer
from support.waiting import until
from support.ways import NEVER

from .conftest import Serve, page

_COUNT = 50
_SECONDS = 60
_PAGE = f"""<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>events</title><script>
const heard = Array.from({{length: {_COUNT}}}, () => [])
const follow = (lane) => heard.map((list, number) => {{
  const source = new EventSource(`/${{lane}}/${{number}}`)
  source.onmessage = (event) => list.push(event.data)
  return source
}})
</script>"""
_HEAD = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream")


class Origin:
    """Says an event on every stream, and another once it is told to."""

    def __init__(self) -> None:
        self.streams = self.left = 0
        self.goes_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        number = request.target.rpartition("/")[2]
        await peer.send(_HEAD + _event(f"first of {number}"))
        self.streams += 1
        await self.goes_on.wait()
        await peer.send(_event(f"second of {number}"))
        await peer.wait_left()
        self.left += 1


def _event(text: str) -> bytes:
    event = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


def connections(engine: penstock.Engine) -> int:
    """How many connections of clients have a request. A browser opens a spare one for a server that it does not know."""
    name = 'penstock_client_connections{state="active"} '
    (line,) = (each for each in penstock.metrics.text(engine).splitlines() if each.startswith(name))
    return int(line.removeprefix(name))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("lane", ["native", "app"])
async def test_fifty_streams_share_a_connection(
    engine: penstock.Engine, serve: Serve, any_tab: Page, lane: str
) -> None:
    assert Http2().streams > _COUNT
    script = Origin()
    async with ScriptedOrigin(script) as origin:
        gateway = Gateway(origin.url, engine=engine, timeouts=NEVER)
        app = web.Application()
        app.add_routes(
            [
                page(_PAGE),
                gateway.native("/native/", timeouts=NEVER),
                web.get("/app/{number}", gateway.relay),
            ]
        )
        front = await serve(app, engine)
        await any_tab.open(front.url)
        await any_tab.until("document.readyState === 'complete'", seconds=_SECONDS)
        await any_tab.evaluate(f"{{ window.sources = follow('{lane}'); }}")
        await any_tab.until("heard.every((list) => list.length === 1)", seconds=_SECONDS)
        # A request beside them is answered: none waits for a connection.
        assert await any_tab.evaluate("fetch('/').then((response) => response.status)") == 200
        script.goes_on.set()
        await any_tab.until("heard.every((list) => list.length === 2)", seconds=_SECONDS)
        heard = await any_tab.evaluate("heard")
        assert heard == [[f"first of {number}", f"second of {number}"] for number in range(_COUNT)]
        assert script.streams == _COUNT
        # A browser whose handshake takes long opens a second connection, and closes the one that it does not need.
        await until(lambda: connections(engine) == 1, "all streams are on one connection")
        # Each stream ends for the origin when the page closes it.
        await any_tab.evaluate("{ sources.forEach((source) => source.close()) }")
        await until(lambda: script.left == _COUNT, "the origin hears that each stream was closed")
