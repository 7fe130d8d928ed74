"""hls.js plays what ffmpeg packaged and nginx serves, over HTTP/2."""

from pathlib import Path

import pytest
from aiohttp import web

import penstock
from penstock.config import Caching
from penstock.web import Gateway
from support.browser import Page
from support.packaging import CONTAINERS, PICTURES_PER_SECOND, on_demand
from support.programs import output_of, require
from support.servers import running_nginx

from .conftest import Serve, page

_SECONDS = 10
_PAGE = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>film</title>
<script src=/packages/hls.js/dist/hls.min.js></script><video muted></video><script>
const video = document.querySelector('video'), loaded = [], failed = []
const play = (source) => {
  const hls = new Hls({ enableWorker: false })
  hls.on(Hls.Events.FRAG_LOADED, (_, data) => loaded.push(new URL(data.frag.url).pathname))
  hls.on(Hls.Events.ERROR, (_, data) => { if (data.fatal || data.type === 'networkError') failed.push(data.details) })
  hls.on(Hls.Events.MANIFEST_PARSED, () => { video.playbackRate = 4; video.play() })
  hls.loadSource(source)
  hls.attachMedia(video)
}
const protocols = () => [...new Set(performance.getEntriesByType('resource').map((each) => each.nextHopProtocol))]
</script>"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", ["native", "cached", "app"])
@pytest.mark.parametrize("container", CONTAINERS)
async def test_hls_js_plays_a_film_to_its_end(
    engine: penstock.Engine,
    serve: Serve,
    tab: Page,
    packages: Path,
    tmp_path: Path,
    container: str,
    lane: str,
) -> None:
    root, run = tmp_path / "root" / lane, tmp_path / "nginx"
    root.mkdir(parents=True)
    run.mkdir()
    await output_of(*on_demand(require("ffmpeg", package="ffmpeg"), container, _SECONDS), directory=root)
    segments = sorted(path.name for path in root.glob("segment*"))

    async with running_nginx(require("nginx", package="nginx"), root.parent, run) as origin:
        gateway = Gateway(origin, engine=engine)
        app = web.Application()
        app.add_routes(
            [
                page(_PAGE),
                web.static("/packages", packages),
                gateway.native("/native/"),
                gateway.native("/cached/", caching=Caching(lifetime=60)),
                web.get("/app/{path:.*}", gateway.relay),
            ]
        )
        front = await serve(app, engine)
        await tab.open(front.url)
        await tab.until("document.readyState === 'complete'", seconds=30)
        await tab.evaluate(f"play('/{lane}/main.m3u8')")
        await tab.until("video.ended || failed.length", seconds=90)
        assert await tab.evaluate("failed") == []
        assert sorted(set(await tab.evaluate("loaded"))) >= [f"/{lane}/{name}" for name in segments]
        assert await tab.evaluate("protocols()") == ["h2"]
        pictures = await tab.evaluate("video.getVideoPlaybackQuality().totalVideoFrames")
        assert pictures >= _SECONDS * PICTURES_PER_SECOND * 0.9
        assert tab.complaints == []
