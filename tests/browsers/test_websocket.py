"""A page that came by HTTP/2 opens WebSockets: they go over HTTP/1.1 beside it."""

import aiohttp
import pytest
from aiohttp import web

import penstock
from penstock.web import Gateway
from support.browser import Page

from .conftest import Serve, page

_SECONDS = 30
_PAGE = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>sockets</title><script>
const talk = (path) => new Promise((done, failed) => {
  const heard = [], socket = new WebSocket(`wss://${location.host}${path}`)
  socket.onopen = () => ['one', 'two', 'end'].forEach((text) => socket.send(text))
  socket.onmessage = (event) => heard.push(event.data)
  socket.onerror = () => failed(new Error(path))
  socket.onclose = (event) => done([heard, event.code])
})
</script>"""


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type == aiohttp.WSMsgType.TEXT:
            await socket.send_str(f"{request.version.major}.{request.version.minor} {message.data}")
            if message.data == "end":
                await socket.close(code=4000)
    return socket


@pytest.mark.timeout(120)
async def test_websockets_open_beside_a_page_of_http2(
    engine: penstock.Engine, serve: Serve, any_tab: Page
) -> None:
    inner = web.AppRunner(web.Application(), access_log=None)
    inner.app.router.add_get("/{path:.*}", echo)
    await inner.setup()
    origin = web.TCPSite(inner, "127.0.0.1", 0)
    await origin.start()
    port = inner.addresses[0][1]
    gateway = Gateway(f"http://127.0.0.1:{port}", engine=engine)
    app = web.Application()
    app.add_routes(
        [
            page(_PAGE),
            web.get("/handler", echo),
            gateway.native("/native/"),
            web.get("/relay", gateway.relay),
        ]
    )
    front = await serve(app, engine)
    await any_tab.open(front.url)
    await any_tab.until("document.readyState === 'complete'", seconds=_SECONDS)
    protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
    assert await any_tab.evaluate(protocol) == "h2"
    for path in ("/handler", "/native/", "/relay"):
        assert await any_tab.evaluate(f"talk('{path}')") == [["1.1 one", "1.1 two", "1.1 end"], 4000], path
    assert any_tab.complaints == []
    await inner.cleanup()
