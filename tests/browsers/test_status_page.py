"""The page of what flows, in Chromium: rows appear and change, no request becomes markup, and nothing is fetched."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from aiohttp import web

import penstock
from penstock.config import Status
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, Site
from support.browser import Page
from support.client import RawClient, answer
from support.waiting import until

_SECONDS = 60
# What would run if a path, or the name of a topic, were taken for markup.
_MARKUP = "<img src=x onerror=document.title='gone'>"
# As a client has to send it, and a path that would show another one.
_ENCODED = quote(_MARKUP)
_ENTITIES = "&lt;img&gt;"
_CELLS = "[...document.querySelectorAll('#{} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"


@pytest.fixture
def engine_options() -> dict[str, int]:
    return {"threads": 1}


class Origin:
    """Answers what ends with `film` by half of it, and no other request, until it is released."""

    def __init__(self) -> None:
        self.asked = 0
        self.release = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        request = await peer.request()
        if "film" in request.target:
            await peer.send(answer("Content-Length: 10", body=b"hello"))
        self.asked += 1
        await self.release.wait()
        await peer.send(b"world" if "film" in request.target else answer("Content-Length: 0"))


class Served:
    """A site with pages, and clients of it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.clients: list[RawClient] = []

    @property
    def page(self) -> str:
        return f"{self.site.status_url}/penstock/"

    async def get(self, target: str) -> RawClient:
        client = await RawClient.connect(self.site.port)
        self.clients.append(client)
        await client.get(target)
        return client


@pytest.fixture
async def origin() -> AsyncIterator[tuple[Origin, str]]:
    script = Origin()
    async with ScriptedOrigin(script) as origin:
        yield script, origin.url


@pytest.fixture
async def served(engine: penstock.Engine, origin: tuple[Origin, str]) -> AsyncIterator[Served]:
    gateway, hub = Gateway(origin[1], engine=engine), penstock.Hub(engine=engine)
    app = web.Application()
    app.add_routes([gateway.native("/vod/", name="vod"), hub.native("/live/", name="live")])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = Site(runner, "127.0.0.1", 0, engine=engine, status=Status(listen="127.0.0.1:0", viewers=2))
    await site.start()
    served = Served(site)
    yield served
    for client in served.clients:
        client.abort()
    hub.close()
    await runner.cleanup()


@pytest.mark.timeout(180)
async def test_rows_appear_and_change_and_leave(
    served: Served, origin: tuple[Origin, str], tab: Page
) -> None:
    script = origin[0]
    await tab.open(served.page)
    await tab.until("document.getElementById('state')?.textContent === 'Ready'", seconds=_SECONDS)
    await served.get("/vod/film?token=secret")
    await served.get(f"/vod/{_ENCODED}")
    await served.get(f"/vod/{_ENTITIES}")
    await served.get(f"/live/{_ENCODED}")
    await until(lambda: script.asked == 3, "the origin is asked")
    await tab.until("document.querySelectorAll('#slowest tbody tr').length === 2", seconds=_SECONDS)
    await tab.until("document.querySelectorAll('#topics tbody tr').length === 1", seconds=_SECONDS)
    await tab.until("document.querySelectorAll('#longest tbody tr').length === 2", seconds=_SECONDS)
    slowest = {row[0] for row in await tab.evaluate(_CELLS.format("slowest"))}
    assert slowest == {f"GET /vod/{_ENCODED}", f"GET /vod/{_ENTITIES}"}
    ((film, _, waits, status, sent, route, client, _), _) = await tab.evaluate(_CELLS.format("longest"))
    assert (film, waits, status, sent) == ("GET /vod/film", "origin", "200", "5 B")
    assert (route, client) == ("vod", "127.0.0.1")
    ((topic, *_),) = await tab.evaluate(_CELLS.format("topics"))
    assert topic == _MARKUP
    assert "secret" not in await tab.evaluate("document.documentElement.outerHTML")
    assert await tab.evaluate("[document.title, document.images.length]") == ["penstock", 0]
    # A sparkline has points once there are two events.
    await tab.until(
        "document.querySelector('#routes path.line').getAttribute('d').length > 0", seconds=_SECONDS
    )
    await tab.evaluate("{ document.getElementById('pause').click() }")
    paused = await tab.evaluate("document.getElementById('active').textContent")
    script.release.set()
    for client in served.clients[:3]:
        await client.body(await client.head())
    await tab.evaluate("{ window.before = last }")
    await tab.until("last > before + 1000", seconds=_SECONDS)
    assert await tab.evaluate("document.getElementById('active').textContent") == paused
    await tab.evaluate("{ document.getElementById('pause').click() }")
    await tab.until("document.querySelectorAll('#slowest tbody tr').length === 0", seconds=_SECONDS)
    fetched = await tab.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith(f"{served.site.status_url}/penstock/") for name in fetched), fetched
    assert tab.complaints == []


@pytest.mark.timeout(180)
async def test_both_schemes_have_contrast_and_a_narrow_screen_does_not_scroll(
    served: Served, tab: Page
) -> None:
    await tab.open(served.page)
    await tab.until("document.getElementById('live')?.hidden === false", seconds=_SECONDS)
    grounds = set()
    for scheme in ("light", "dark"):
        await tab.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        seen = await tab.evaluate(
            """(() => {
              const channel = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
              const light = (colour) => {
                const [r, g, b] = colour.match(/[0-9.]+/g).map((part) => channel(part / 255))
                return 0.2126 * r + 0.7152 * g + 0.0722 * b
              }
              const ratio = (one, other) => {
                const [low, high] = [light(one), light(other)].sort((a, b) => a - b)
                return (high + 0.05) / (low + 0.05)
              }
              const root = getComputedStyle(document.documentElement)
              const probe = document.body.appendChild(document.createElement('i'))
              const colour = (name) => {
                probe.style.color = root.getPropertyValue(`--${name}`)
                return getComputedStyle(probe).color
              }
              const ratios = ['text', 'quiet', 'flow', 'good', 'bad', 'warn'].flatMap(
                (name) => ['ground', 'card'].map((under) => ratio(colour(name), colour(under))))
              return [colour('ground'), Math.min(...ratios)]
            })()"""
        )
        grounds.add(seen[0])
        # WCAG 2.2, success criterion 1.4.3.
        assert seen[1] >= 4.5, seen
    assert len(grounds) == 2
    await tab.command(
        "Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=False
    )
    assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.complaints == []


@pytest.mark.timeout(180)
async def test_the_page_says_when_it_has_no_news_and_goes_on_later(served: Served, tab: Page) -> None:
    viewers = []
    for _ in range(2):
        viewer = await RawClient.connect(int(str(served.site.status_url).rpartition(":")[2]))
        await viewer.get("/events")
        assert (await viewer.head()).status == 200
        viewers.append(viewer)
    await tab.open(served.page)
    await tab.until(
        "document.getElementById('state')?.textContent?.startsWith('No events')", seconds=_SECONDS
    )
    for viewer in viewers:
        viewer.abort()
    await tab.until("document.getElementById('state')?.textContent === 'Ready'", seconds=_SECONDS)
