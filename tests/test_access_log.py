"""The access log of `penstock serve`: the same lines from either lane, with and without workers."""

import re
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.command import serve

APP = """
import os
from aiohttp import web
from penstock.web import Gateway

def app():
    gateway, away = Gateway(os.environ["ORIGIN"]), Gateway("http://127.0.0.1:1")
    app = web.Application()

    async def film(request):
        return await gateway.relay(request, tenant="acme")

    async def lost(request):
        return await away.relay(request, tenant="acme")

    app.router.add_get("/film", film)
    app.router.add_get("/lost", lost)
    app.add_routes([gateway.native("/vod/", name="films")])
    return app
"""
LINE = re.compile(r'[-0-9]{10}T[:.0-9]{12}Z 127\.0\.0\.1 ("GET .*" \d+ \d+) \d+\.\d{6}(.*)')


async def origin(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
async def test_either_lane_has_lines_of_one_form_with_tenant_and_failure(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(APP)
    async with ScriptedOrigin(origin) as scripted:
        monkeypatch.setenv("ORIGIN", scripted.url)
        async with serve("mine:app", *options, directory=tmp_path) as running:
            client = await RawClient.connect(running.port)
            sizes = [len((await client.ask(target)).body) for target in ("/vod/a", "/film", "/lost")]
            client.abort()
            # At once: what was logged last is written all the same.
            running.process.terminate()
            assert await running.ended() == 0
    found = [LINE.search(line) for line in running.lines]
    assert sizes[:2] == [5, 5]
    assert [line[1] + line[2] for line in found if line] == [
        '"GET /vod/a HTTP/1.1" 200 5 route=films',
        '"GET /film HTTP/1.1" 200 5 tenant="acme"',
        f'"GET /lost HTTP/1.1" 502 {sizes[2]} tenant="acme" failed=0x104/CONNECT_FAILED',
    ]
    assert running.log().count("GET /film") == 1
