"""Routes that want a signed URL: who is let in, and what the origin and the cache see of it."""

import time
from urllib.parse import urljoin

import pytest

from penstock import config
from penstock.testing import ScriptedOrigin
from penstock.tokens import SignedUrl
from support.client import answer
from support.edges import Edges
from support.origins import Recorder

from .asking import protect
from .issuer import SECRET

URLS = SignedUrl(SECRET)


async def test_a_signed_url_is_let_in_wherever_its_token_stands(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, URLS)
        token = URLS.token("/vod/7/*", lifetime=60)
        for target, fields in (
            (URLS.sign("/vod/7/a.m4s?b=1", lifetime=60), ()),
            (URLS.sign("/vod/7/a.m4s?b=1", prefix="/vod/", lifetime=60), ()),
            ("/vod/7/a.m4s?b=1", (f"Cookie: a=1; token={token}; c=2",)),
        ):
            assert await way.ask(target, *fields) == (200, b"ok")
        assert [arrival.head.target for arrival in recorder.arrivals] == ["/vod/7/a.m4s?b=1"] * 3
        assert [arrival.head.get("Cookie") for arrival in recorder.arrivals] == [None, None, "a=1; c=2"]


async def test_what_is_not_signed_is_refused(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, URLS)
        forged = SignedUrl(b"another secret of the same kind")
        for target, name in (
            ("/vod/7/a.m4s", "TOKEN_MISSING"),
            ("/vod/7/a.m4s?token=exp", "TOKEN_MALFORMED"),
            (forged.sign("/vod/7/a.m4s", lifetime=60), "TOKEN_WRONG_SIGNATURE"),
            (URLS.sign("/vod/7/a.m4s", lifetime=-1), "TOKEN_EXPIRED"),
            (URLS.sign("/vod/7/a.m4s", lifetime=60, begins=time.time() + 30), "TOKEN_NOT_YET_VALID"),
            (URLS.sign("/vod/7/a.m4s", paths=["/vod/8/*"], lifetime=60), "TOKEN_PATH_NOT_COVERED"),
            (URLS.sign("/vod/7/a.m4s", address="203.0.113.7", lifetime=60), "TOKEN_WRONG_ADDRESS"),
        ):
            status, body = await way.ask(target)
            assert (status, name.encode() in body) == (403, True), (target, body)
        assert recorder.arrivals == []
        assert (await way.ask(URLS.sign("/vod/7/a.m4s", address="127.0.0.1", lifetime=60)))[0] == 200


async def test_a_playlists_address_is_good_for_its_segments(anywhere: Edges) -> None:
    """As players resolve them: the query is gone, the path stays."""
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, URLS)
        playlist = URLS.sign("/vod/7/main.m3u8", prefix="/vod/", lifetime=60)
        for relative in ("720p/index.m3u8", "720p/1.m4s?x=1", "init.mp4"):
            assert (await way.ask(urljoin(playlist, relative)))[0] == 200
        assert [arrival.head.target for arrival in recorder.arrivals] == [
            "/vod/7/720p/index.m3u8",
            "/vod/7/720p/1.m4s?x=1",
            "/vod/7/init.mp4",
        ]
        assert (await way.ask(urljoin(playlist, "../8/1.m4s")))[0] == 403


@pytest.mark.parametrize("forward", [False, True])
async def test_the_origin_gets_the_cookie_if_it_is_to(anywhere: Edges, *, forward: bool) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, SignedUrl(SECRET, forward=forward))
        cookie = f"token={URLS.token('/vod/*', lifetime=60)}"
        assert (await way.ask("/vod/a", f"Cookie: {cookie}"))[0] == 200
        assert recorder.arrivals[0].head.get("Cookie") == (cookie if forward else None)


async def test_viewers_share_what_is_stored(caching: Edges) -> None:
    body = b"x" * 1000
    recorder = Recorder(
        response=answer("Cache-Control: max-age=60", f"Content-Length: {len(body)}", body=body)
    )
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(caching, origin.url, URLS, caching=config.Caching())
        for tenant in ("a", "b", "c"):
            for prefix in (None, "/vod/"):
                target = URLS.sign("/vod/7/a.m4s", prefix=prefix, lifetime=60, tenant=tenant)
                assert await way.ask(target) == (200, body)
        assert len(recorder.arrivals) == 1
