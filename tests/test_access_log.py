"""The access log of `penstock serve`: the same lines from either lane, with and without workers."""

import json
import re
import signal
from pathlib import Path

import pytest

import penstock
from penstock.config import AccessLog
from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient
from support.command import run, serve
from support.waiting import until

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


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
async def test_lines_of_json_say_all_that_is_known(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(APP)
    path = tmp_path / "access.log"
    log = ("--access-log-file", str(path), "--access-log-format", "json")
    async with ScriptedOrigin(origin) as scripted:
        monkeypatch.setenv("ORIGIN", scripted.url)
        async with serve("mine:app", *options, *log, directory=tmp_path) as running:
            client = await RawClient.connect(running.port)
            for target in ("/vod/a?token=secret", "/film", "/lost"):
                await client.ask(target, "User-Agent: x/1", "Referer: http://b.example/?token=secret")
            client.abort()
            running.process.terminate()
            assert await running.ended() == 0
    text = path.read_text()
    native, app, lost = (json.loads(line) for line in text.splitlines())
    assert "secret" not in text
    assert {
        "client": "127.0.0.1",
        "scheme": "http",
        "method": "GET",
        "target": "/vod/a?token=***",
        "version": "HTTP/1.1",
        "referer": "http://b.example/?token=***",
        "user_agent": "x/1",
        "status": 200,
        "bytes": 5,
        "received": 0,
        "lane": "native",
        "route": "films",
        "end": "whole",
    }.items() <= native.items()
    assert 0 < native["first_byte_seconds"] <= native["seconds"]
    (attempt,) = native["origins"]
    assert (attempt["origin"], attempt["status"], attempt["reused"]) == (scripted.url, 200, False)
    assert (app["lane"], app["tenant"], app["end"]) == ("app", "acme", "whole")
    assert (lost["status"], lost["end"], lost["failure"]) == (502, "CONNECT_FAILED", "CONNECT_FAILED")
    ((film,), (refused,)) = app["origins"], lost["origins"]
    assert (film["origin"], film["status"]) == (scripted.url, 200)
    assert (refused["origin"], refused["error"]) == ("http://127.0.0.1:1", "CONNECT_FAILED")
    assert "trace" not in native


async def test_lines_have_the_form_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    async with ScriptedOrigin(origin) as scripted:
        options = ("--origin", scripted.url, "--access-log-file", str(path), "--access-log-format")
        for form, expected in (
            ("{status} {cache} {{{origin}}} {origin_status}", rf"200 - \{{{scripted.url}\}} 200"),
            (
                "combined",
                r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:[\d:]{8} \+0000\] "GET /a HTTP/1\.1" 200 5 "-" "x\\x22"',
            ),
        ):
            async with serve(*options, form) as running:
                client = await RawClient.connect(running.port)
                await client.ask("/a", 'User-Agent: x"')
                client.abort()
                running.process.terminate()
                assert await running.ended() == 0
            (line,) = path.read_text().splitlines()
            assert re.fullmatch(expected, line), line
            path.unlink()


async def test_a_signal_opens_the_file_anew(tmp_path: Path) -> None:
    path, old = tmp_path / "access.log", tmp_path / "access.log.1"
    async with (
        ScriptedOrigin(origin) as scripted,
        serve("--origin", scripted.url, "--access-log-file", str(path)) as running,
    ):
        client = await RawClient.connect(running.port)
        await client.ask("/one")
        await until(lambda: path.read_text().count("\n") == 1, "the line is written")
        path.rename(old)
        running.process.send_signal(signal.SIGUSR1)
        await until(path.exists, "the file is made anew, without a line")
        await client.ask("/two")
        await until(lambda: path.read_text().count("\n") == 1, "the line is written")
        client.abort()
    assert "/one" in old.read_text()
    assert "/two" in path.read_text()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("", "not empty"),
        ("jsn", "field in braces"),
        ("{nothing}", "'nothing' is no field; there are time, "),
        ("{status", "write {{ and }} for braces"),
        ("{}", "'' is no field"),
        ("{status!r}", "nothing but a name"),
        ("{status:>5}", "nothing but a name"),
        ("{status.x}", "is no field"),
        ("{status}\n", "one line of printable text"),
    ],
)
def test_what_is_no_form_is_refused(form: str, why: str) -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"AccessLog\.format") as caught:
        AccessLog(format=form)
    assert why in str(caught.value)


def test_options_of_a_log_that_is_off_are_refused() -> None:
    said = run("serve", "--origin", "http://127.0.0.1:1", "--no-access-log", "--access-log-format", "json")
    assert said.returncode == 2
    assert "not with --no-access-log" in said.stderr
    said = run("serve", "--origin", "http://127.0.0.1:1", "--access-log-format", "{nothing}")
    assert said.returncode == 2
    assert "'--access-log-format'" in said.stderr


def test_every_field_is_documented_as_it_is() -> None:
    page = (Path(__file__).parent.parent / "docs" / "operations" / "running.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert {name: rows.get(name) for name in AccessLog.FIELDS} == AccessLog.FIELDS
