"""Tokens in targets: no log of `penstock serve` shows one, whichever lane answers and however it ends."""

import asyncio
import re
import signal
import sys
import time
from pathlib import Path

import jwt
import pytest

from penstock.testing import ScriptedOrigin
from penstock.tokens import SignedUrl
from support.client import RawClient, answer
from support.command import Running, serve
from support.origins import Recorder, says

SECRET = "0123456789abcdef0123456789abcdef"
APP = """
import os
from aiohttp import web
import penstock
from penstock.tokens import Jwt, Key, SignedUrl
from penstock.web import Gateway

def fails(request):
    raise RuntimeError("a hook fails")

def app():
    gateway, away = Gateway(os.environ["ORIGIN"]), Gateway("http://127.0.0.1:1")
    urls = SignedUrl(os.environ["SECRET"], name="st")
    tokens = Jwt(keys=(Key("HS256", os.environ["SECRET"]),), name="token", places=("query",))
    app = web.Application()

    async def film(request):
        return await away.relay(request)

    app.router.add_get("/film/{path:.*}", film)
    app.add_routes([
        gateway.native("/vod/", authorise=urls),
        away.native("/away/", authorise=urls),
        gateway.native("/jwt/", authorise=tokens),
        gateway.native("/hook/", authorise=fails, decision_key="query:st"),
    ])
    return app
"""


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
async def test_no_log_shows_a_token(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(APP)
    urls = SignedUrl(SECRET, name="st")
    forged = SignedUrl("another secret of the same kind.", name="st")
    bearer = jwt.encode({"sub": "a", "exp": time.time() + 60}, SECRET, algorithm="HS256")
    async with ScriptedOrigin(Recorder()) as origin:
        monkeypatch.setenv("ORIGIN", origin.url)
        monkeypatch.setenv("SECRET", SECRET)
        targets = [
            (urls.sign("/vod/a?b=1", lifetime=60), 200),
            (urls.sign("/vod/a", prefix="/vod/", lifetime=60), 200),
            (forged.sign("/vod/b", lifetime=60), 403),
            (urls.sign("/vod/c", lifetime=-1), 403),
            (urls.sign("/away/d", lifetime=60), 502),
            (urls.sign("/film/e", lifetime=60), 502),
            (urls.sign("/nowhere/f", lifetime=60), 404),
            (f"/jwt/g?token={bearer}", 200),
            (f"/jwt/h?token={bearer[:-3]}", 401),
            (f"/film/{bearer}/i?access_token=SECRET&next=%2Fvod%3Fst%3DSECRET", 502),
            ("/hook/token=SECRET/j?st=SECRET", 500),
            ("/nowhere?ACCESS_TOKEN=SECRET", 404),
        ]
        async with serve("mine:app", *options, directory=tmp_path) as running:
            bodies = []
            for target, status in targets:
                client = await RawClient.connect(running.port)
                reply = await client.ask(target, f"Referer: http://host{target}")
                assert reply.head.status == status, target
                bodies.append(reply.body)
                client.abort()
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
    said = running.log() + str(bodies)
    hidden = [
        bearer[:20],
        "SECRET",
        *(target.partition("st=")[2].partition("/")[0] for target, _ in targets[:7]),
    ]
    assert [secret for secret in hidden if secret in said] == []
    assert said.count("st=***") >= 7
    assert "/film/***/i?access_token=***&next=***" in said
    assert "/vod/a?b=1&st=***" in said


RUN = """
import logging, os, sys
from aiohttp import web
from penstock.web import Gateway, run_app

logging.basicConfig(stream=sys.stderr, level="INFO", format="%(name)s %(message)s")
app = web.Application()
app.router.add_get("/relay", Gateway(os.environ["ORIGIN"]).relay)
run_app(app, host="127.0.0.1", port=0, print=lambda text: print(text, file=sys.stderr))
"""


async def test_run_app_logs_a_response_at_its_end_and_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.py").write_text(RUN)
    async with ScriptedOrigin(says(answer("Content-Length: 9", body=b"half"))) as origin:
        monkeypatch.setenv("ORIGIN", origin.url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "run.py"), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        running = Running(process)
        running.url = (await running.wait_for(re.compile(r"Running on (\S+)")))[1]
        client = await RawClient.connect(running.port)
        await client.get("/relay?token=SECRET", "Referer: http://host/?token=SECRET")
        line = await running.wait_for(re.compile("aiohttp.access (.*)"))
        client.abort()
        process.terminate()
        await running.ended()
    assert '"GET /relay?token=*** HTTP/1.1" ' in line[1]
    assert "/BODY_TRUNCATED" in line[1]
    assert "SECRET" not in running.log()
