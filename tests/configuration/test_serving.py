"""`penstock serve --config FILE`: what a file says is served, with nothing but the package."""

import asyncio
import re
import socket
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from penstock.cli import main
from penstock.testing import Peer, ScriptedOrigin, respond
from support.certificates import trust, written
from support.client import RawClient, answer, client_of
from support.command import run, serve
from support.documents import tables

from .serving import SECRET, URLS

OK = answer("Content-Length: 2", body=b"ok")
STORED = answer("Cache-Control: max-age=60", "Content-Length: 5", body=b"media")


async def stored(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(STORED)


async def status_of(port: int, target: str, *fields: str) -> int:
    async with client_of(port) as client:
        return (await client.ask(target, *fields)).head.status


async def test_ten_lines_serve_hls_that_is_cached_and_protected_by_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tables()[0]
    assert len(text.strip().splitlines()) <= 12
    assert len([line for line in text.splitlines() if line]) <= 10
    (tmp_path / "hls.key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    async with ScriptedOrigin(stored) as origin:
        (tmp_path / "penstock.toml").write_text(text.replace("http://10.0.0.5:8080", origin.url))
        async with serve("--config", str(tmp_path / "penstock.toml")) as running:
            async with client_of(running.port) as client:
                for _ in range(3):
                    reply = await client.ask(URLS.sign("/hls/7/main.m3u8", prefix="/hls/", lifetime=60))
                    assert (reply.head.status, reply.body) == (200, b"media")
            other = URLS.sign("/hls/8/main.m3u8", prefix="/hls/", lifetime=60).replace("/8/", "/7/")
            assert await status_of(running.port, "/hls/7/main.m3u8") == 403
            assert await status_of(running.port, other) == 403
            assert await status_of(running.port, "/") == 404
            assert len(origin.requests) == 1, "the rest came from the cache"
            assert origin.requests[0].target == "/hls/7/main.m3u8"
            running.process.terminate()
            assert await running.ended() == 0
    imported = set(re.findall(r"import time: +\d+ \| +\d+ \| +(\S+)", running.log()))
    assert "penstock.tokens.signed" in imported
    assert not {"aiohttp", "_ssl", "_hashlib", "uvloop.loop", "penstock.web"} & imported
    assert SECRET not in running.log()


@pytest.mark.parametrize("number", range(len(tables())))
def test_the_files_of_the_guide_have_no_faults(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTNER_KEY", SECRET)
    (tmp_path / "hls.key").write_text(SECRET)
    (tmp_path / "certificates").mkdir()
    cert, key = written(trustme.CA(), tmp_path, "client")
    assert (cert.name, key.name) == ("client.pem", "client.key")
    text = tables()[number].replace("/etc/penstock/certificates", "certificates")
    if "app =" not in text and not re.search('^origin = "http', text, re.MULTILINE):
        text = 'origin = "http://o:1"\n' + text
    if '"live"' in text and "[origins.live]" not in text:
        text += '\n[origins.live]\nurls = "http://o:1"\n'
    path = tmp_path / "penstock.toml"
    path.write_text(text)
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 0, done.output


async def test_routes_go_to_their_origins_with_their_edits(tmp_path: Path) -> None:
    async with ScriptedOrigin(respond(OK)) as one, ScriptedOrigin(respond(OK)) as two:
        (tmp_path / "p.toml").write_text(
            f"""
            [origins.one]
            urls = "{one.url}/base"
            [[routes]]
            prefix = "/a/"
            origin = "one"
            rewrite = "/b/"
            headers = {{ Cookie = false, X-Tenant = "blue" }}
            response_headers = {{ Server = "none" }}
            [[routes]]
            prefix = "/a/"
            host = "two.example"
            origin = "{two.url}"
            limits = {{ body = 1 }}
            """
        )
        async with serve("--config", str(tmp_path / "p.toml")) as running:
            async with client_of(running.port) as client:
                reply = await client.ask("/a/x?q", "Cookie: a=b")
                assert (reply.head.status, reply.head.one("Server")) == (200, "none")
                (request,) = one.requests
                assert request.target == "/base/b/x?q"
                assert (request.get("X-Tenant"), request.get("Cookie")) == ("blue", None)
                await client.send(b"GET /a/y HTTP/1.1\r\nHost: two.example\r\n\r\n")
                assert (await client.body(await client.head())) == b"ok"
                assert two.requests[0].target == "/a/y"
                await client.send(b"POST /a/y HTTP/1.1\r\nHost: two.example\r\nContent-Length: 2\r\n\r\nab")
                assert (await client.head()).status == 413
            running.process.terminate()
            assert await running.ended() == 0


async def test_each_site_has_routes_and_tls_of_its_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    cert, key = written(authority, tmp_path, "127.0.0.1", "gateway.test")
    async with ScriptedOrigin(respond(OK)) as origin:
        (tmp_path / "p.toml").write_text(
            f"""
            origin = "{origin.url}"
            [status]
            listen = "127.0.0.1:0"
            [[sites]]
            listen = "127.0.0.1:0"
            tls = {{ cert = "{cert.name}", key = "{key.name}" }}
            [[sites.routes]]
            prefix = "/only/"
            [[sites]]
            listen = "unix:p.sock"
            """
        )
        async with serve("--config", str(tmp_path / "p.toml")) as running:
            pages = (await running.wait_for(re.compile(r"status on http://\S+:(\d+)/")))[1]
            secure = (await running.wait_for(re.compile(r"listening on https://127.0.0.1:(\d+)")))[1]
            path = (await running.wait_for(re.compile(r"listening on unix:(\S+)")))[1]
            assert path == str(tmp_path / "p.sock")
            assert await status_of(running.port, "/any") == 200
            assert await status_of(running.port, "/only/") == 200
            client = await _secure(int(secure), authority)
            assert (await client.ask("/only/")).head.status == 200
            assert (await client.ask("/any")).head.status == 404
            client.abort()
            assert await status_of(int(pages), "/penstock/ready") == 200
            running.process.terminate()
            assert await running.ended() == 0


async def _secure(port: int, authority: trustme.CA) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=trust(authority)))


async def test_an_application_is_served_in_workers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from aiohttp import web\n\nasync def hello(request):\n    return web.Response(text='hello')\n\n"
        "app = web.Application()\napp.router.add_get('/', hello)\n"
    )
    (tmp_path / "p.toml").write_text('app = "mine:app"\nmemory = "32MiB"\n[workers]\ncount = 1\n')
    async with serve("--config", "p.toml", directory=tmp_path) as running:
        async with client_of(running.port) as client:
            assert (await client.ask("/")).body == b"hello"
        running.process.terminate()
        assert await running.ended() == 0


def test_an_address_that_cannot_be_listened_on_is_named_where_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('origin = "http://127.0.0.1:1"\nlisten = "unix:no/such/p.sock"\n')
    done = run("serve", "--config", str(path))
    assert done.returncode == 1
    assert f"{path}:2:10: listen: " in done.stderr


def test_check_opens_no_socket_and_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path.write_text(
            f'origin = "http://127.0.0.1:{port}"\nlisten = "127.0.0.1:{port}"\nmemory = "200TiB"\n'
            f'[cache]\nmemory = "1TiB"\ndisk = "made"\ndisk_budget = "1GiB"\n[access_log]\npath = "log"\n'
        )
        done = run("check", str(path))
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):
            taken.accept()
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.toml"]


def test_check_prints_what_would_be_served(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        f'origin = ["http://a:1", "http://b:1"]\nlisten = ":8443"\n[cache]\n[gates.g]\nkind = "signed-url"\n'
        f'keys = "{SECRET}"\n[[routes]]\ngate = "g"\nhost = "h.example"\nheaders.Authorization = "hunter2"\n'
    )
    done = run("check", str(path))
    assert done.stdout == (
        f"{path}: no faults\n:8443\n  h.example/ to http://a:1, http://b:1, gate g, cached\n"
        "memory 256MiB, of it 64MiB for the cache\n"
    )
    as_json = run("check", "--json", str(path)).stdout
    assert '"gate": "g"' in as_json
    for text in (done.stdout, as_json):
        assert SECRET not in text
        assert "hunter2" not in text
    path.write_text("[cache\n")
    done = run("check", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{path}:1:7: ")
