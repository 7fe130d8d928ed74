"""EventSource of a real browser, through `penstock serve`: it comes back where it was, and hears no heartbeats."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import penstock
from penstock.testing import Peer, ScriptedOrigin
from support.browser import Page, open_browser
from support.client import answer
from support.origins import ChunkSteps
from support.programs import require
from support.servers import running_gateway
from support.waiting import until
from support.ways import NEVER, SOON, Way

_PAGE = b"""<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>events</title><script>
const heard = [], states = []
let opened = 0
const source = new EventSource('/events')
const hear = (event) => heard.push([event.type, event.data, event.lastEventId])
source.onopen = () => { opened += 1 }
source.onmessage = hear
source.onerror = () => states.push(source.readyState)
source.addEventListener('named', hear)
</script>"""
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
# By what is said of the last event. The first ends within an event, the second well; the third never does.
_STREAMS = {
    None: [
        b": a heartbeat\n\n",
        b"retry: 20\nid: 1\ndata: one\n\n:\n\n",
        b"id: 2\ndata: two\ndata: lines\n\n: another\n\nevent: named\nid: 3\ndata: three\n\n",
        b"id: 4\ndata: a half",
    ],
    "3": [b":\n\n:\n\n", b"id: 4\r\ndata: vier \xe2", b"\x82\xac\r\n\r\n", b":\n\nid: 5\rdata: five\r\r"],
    "5": [b": the last\n\n"],
}
_HEARD = [
    ["message", "one", "1"],
    ["message", "two\nlines", "2"],
    ["named", "three", "3"],
    ["message", "vier €", "4"],
    ["message", "five", "5"],
]
_SECONDS = 30.0


class Origin:
    """Answers with the page, with events from where the client is, and with the end of what has ended."""

    def __init__(self) -> None:
        self.resumed: list[str | None] = []
        self.heard = asyncio.Event()
        self.left = asyncio.Event()
        self.finished = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.target == "/events":
                await self._stream(peer, request.get("Last-Event-ID"))
                return
            if request.target == "/finished":
                self.finished += 1
                await peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
                continue
            length = f"Content-Length: {len(_PAGE)}\r\n\r\n".encode()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + length + _PAGE)

    async def _stream(self, peer: Peer, last: str | None) -> None:
        self.resumed.append(last)
        await peer.send(_HEAD)
        for piece in _STREAMS[last]:
            await peer.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        if last is None:
            # What has not been read by then is lost with the connection.
            await self.heard.wait()
            peer.reset()
        elif last == "3":
            await peer.send(b"0\r\n\r\n")
        else:
            await peer.wait_left()
            self.left.set()


@pytest.fixture(params=["native", "app"])
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Page, Origin]]:
    """The page, opened through a gateway, and its origin."""
    chromium = require("chromium", package="chromium")
    script = Origin()
    async with (
        ScriptedOrigin(script) as origin,
        running_gateway(origin.url, "--lane", request.param) as url,
        open_browser(chromium, tmp_path / "profile") as page,
    ):
        await page.open(url)
        await page.until("document.readyState === 'complete' && heard.length === 3", seconds=_SECONDS)
        script.heard.set()
        yield page, script


@pytest.mark.timeout(180)
async def test_a_browser_hears_each_event_once_and_comes_back_for_the_next(
    page: tuple[Page, Origin],
) -> None:
    tab, origin = page
    await tab.until("heard.length >= 5 && opened === 3", seconds=_SECONDS)
    assert await tab.evaluate("heard") == _HEARD
    # It was connecting again both times: neither end was one that stops a client.
    assert await tab.evaluate("states") == [0, 0]
    assert origin.resumed == [None, "3", "5"]


@pytest.mark.timeout(180)
async def test_a_browser_that_closes_its_stream_is_gone_for_the_origin(page: tuple[Page, Origin]) -> None:
    tab, origin = page
    await tab.until("opened === 3", seconds=_SECONDS)
    await tab.evaluate("source.close()")
    # The origin has nothing to send, and hears of it all the same.
    async with asyncio.timeout(_SECONDS):
        await origin.left.wait()
    assert origin.resumed == [None, "3", "5"]


@pytest.mark.timeout(180)
async def test_a_browser_does_not_come_back_for_what_has_ended(page: tuple[Page, Origin]) -> None:
    tab, origin = page
    await tab.until("opened === 3", seconds=_SECONDS)
    ended = "new Promise((done) => { window.over = new EventSource('/finished'); over.onerror = done })"
    await tab.evaluate(f"{ended}.then(() => undefined)")
    assert await tab.evaluate("over.readyState") == 2
    assert origin.finished == 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize("lane", ["native", "app"])
async def test_a_browser_hears_nothing_of_heartbeats(
    engine: penstock.Engine, lane: str, tmp_path: Path
) -> None:
    chromium = require("chromium", package="chromium")
    # The page has no origin that a server could know: any may read.
    anyone = "Access-Control-Allow-Origin: *"
    head = answer("Transfer-Encoding: chunked", "Content-Type: text/event-stream", anyone)
    origin = ChunkSteps(b"id: 1\ndata: one\n\n", head=head)
    way = Way(engine, lane)
    async with ScriptedOrigin(origin) as served, open_browser(chromium, tmp_path / "profile") as page:
        relay = await way.relay(served.url, events=SOON, timeouts=NEVER)
        await page.evaluate(f"""{{
            window.heard = []
            window.source = new EventSource('http://127.0.0.1:{relay.port}/')
            source.onmessage = ({{data, lastEventId}}) => heard.push([data, lastEventId])
            source.onerror = () => heard.push('an error')
        }}""")
        await page.until("heard.length === 1", seconds=_SECONDS)
        before = way.counts().heartbeats
        await until(lambda: way.counts().heartbeats > before + 2, "heartbeats are sent")
        origin.put(b"id: 2\ndata: two\n\n")
        await page.until("heard.length > 1", seconds=_SECONDS)
        assert await page.evaluate("heard") == [["one", "1"], ["two", "2"]]
        assert await page.evaluate("source.readyState") == 1
        await page.evaluate("source.close()")
        await (await served.connection()).wait_left()
    await way.close()
