"""What leads clients to https: redirects, Strict-Transport-Security, and files for authorities of certificates."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import ClientSession, TCPConnector, web

import penstock
from penstock.config import HSTS, TLS, Cache, Caching, Edge
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import Gateway, Site
from support.certificates import trust, written
from support.client import RawClient
from support.command import run, serve
from support.waiting import until

YEAR = 365 * 24 * 3600
FIELD = "Strict-Transport-Security"
CHALLENGE = Path(".well-known", "acme-challenge")
REDIRECTS = re.compile(r"http://127\.0\.0\.1:(\d+) redirects to https")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> tuple[Path, Path]:
    return written(authority, tmp_path, "localhost", "127.0.0.1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A web root with an answer to a challenge, and files beside it that no client may have."""
    directory = tmp_path / "root" / CHALLENGE
    directory.mkdir(parents=True)
    (directory / "to-ken_1").write_text("to-ken_1.thumbprint\n")
    (directory / "file.txt").write_text("secret")
    (directory / "directory").mkdir()
    (tmp_path / "root" / "secret").write_text("secret")
    return tmp_path / "root"


@asynccontextmanager
async def serving(
    edge: Edge, app: web.Application | None = None, engine: penstock.Engine | None = None
) -> AsyncIterator[Site]:
    runner = web.AppRunner(app or web.Application())
    await runner.setup()
    async with AsyncExitStack() as stack:
        engine = engine or await stack.enter_async_context(penstock.Engine(memory="16MiB"))
        site = Site(runner, "127.0.0.1", 0, edge=edge, engine=engine)
        try:
            await site.start()
            yield site
        finally:
            await runner.cleanup()


def port_of(url: str | None) -> int:
    assert url is not None
    return int(url.rpartition(":")[2])


@asynccontextmanager
async def plain(port: int) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(port)
    try:
        yield client
    finally:
        client.abort()


async def test_plain_http_is_sent_to_https(files: tuple[Path, Path]) -> None:
    edge = Edge(tls=TLS(*files, http_redirect="127.0.0.1:0"))
    async with serving(edge) as site, plain(port_of(site.redirect_url)) as client:
        https = f"https://gateway.test:{site.port}"
        for method, status in (("GET", 301), ("HEAD", 301), ("POST", 308), ("DELETE", 308)):
            reply = await client.ask("/a/b?c=d", method=method)
            assert (reply.head.status, reply.head.one("Location")) == (status, f"{https}/a/b?c=d"), method
            assert reply.head.one(FIELD) is None
        reply = await client.ask("http://gateway.test:80/a")
        assert reply.head.one("Location") == f"{https}/a"
        # A body is not read: the connection ends after the answer.
        await client.send(b"POST /a HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 5\r\n\r\nbytes")
        head = await client.head()
        assert (head.status, head.one("Connection")) == (308, "close")
        await client.body(head)
        assert await client.rest() == b""
    async with serving(edge) as site, plain(port_of(site.redirect_url)) as client:
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert b"BAD_HOST" in await client.rest()


async def test_clients_are_sent_to_the_port_that_is_named(files: tuple[Path, Path]) -> None:
    edge = Edge(tls=TLS(*files, http_redirect="127.0.0.1:0", redirect_port=443))
    async with serving(edge) as site, plain(port_of(site.redirect_url)) as client:
        assert (await client.ask("/a")).head.one("Location") == "https://gateway.test/a"


async def test_a_redirect_ends_with_its_site(files: tuple[Path, Path]) -> None:
    async with serving(Edge(tls=TLS(*files, http_redirect="127.0.0.1:0"))) as site:
        port = port_of(site.redirect_url)
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(port)


async def test_an_answer_to_a_challenge_is_served_beside_redirects_and_over_tls(
    authority: trustme.CA, files: tuple[Path, Path], root: Path
) -> None:
    async with serving(Edge(tls=TLS(*files, http_redirect="127.0.0.1:0"), acme_dir=root)) as site:
        async with plain(port_of(site.redirect_url)) as client:
            reply = await client.ask("/.well-known/acme-challenge/to-ken_1")
            assert (reply.head.status, reply.body) == (200, b"to-ken_1.thumbprint\n")
            assert (await client.ask("/.well-known/other")).head.status == 301
        url = f"https://localhost:{site.port}/.well-known/acme-challenge/to-ken_1"
        async with (
            ClientSession(connector=TCPConnector(ssl=trust(authority))) as session,
            session.get(url) as got,
        ):
            assert await got.read() == b"to-ken_1.thumbprint\n"


async def test_nothing_but_answers_to_challenges_is_served(root: Path) -> None:
    async with serving(Edge(acme_dir=root)) as site:
        for path in (
            "missing",
            "",
            "file.txt",
            "directory",
            "../../secret",
            "%2e%2e/%2e%2e/secret",
            "..%2f..%2fsecret",
            "to-ken_1/",
            "to-ken_1%00",
            "a" * 200,
        ):
            async with plain(site.port) as client:
                reply = await client.ask(f"/.well-known/acme-challenge/{path}")
                assert reply.head.status == 404, path
                assert b"secret" not in reply.body
        async with plain(site.port) as client:
            reply = await client.ask("/.well-known/acme-challenge/to-ken_1?x")
            assert reply.body == b"to-ken_1.thumbprint\n"
            assert reply.head.one("X-Content-Type-Options") == "nosniff"
            assert (
                await client.ask("/.well-known/acme-challenge/to-ken_1", method="POST")
            ).head.status == 405
            (root / CHALLENGE / "later").write_text("later.thumbprint")
            assert (await client.ask("/.well-known/acme-challenge/later")).body == b"later.thumbprint"


async def origin(peer: Peer) -> None:
    while True:
        request = await peer.request()
        own = f"{FIELD}: max-age=1\r\n".encode() if "own" in request.target else b""
        stored = b"Cache-Control: max-age=60\r\n"
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + stored + own + b"\r\nok")


def application(engine: penstock.Engine, url: str) -> tuple[web.Application, penstock.Hub]:
    """Something on each way that a response can take."""
    gateway, hub = Gateway(url, engine=engine), penstock.Hub(engine=engine)

    async def own(_: web.Request) -> web.Response:
        return web.Response(text="ok", headers={FIELD: "max-age=1"})

    async def small(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def streamed(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"o")
        await response.write(b"k")
        return response

    async def fails(_: web.Request) -> web.Response:
        raise ValueError

    app = web.Application()
    app.add_routes(
        [
            web.get("/app", small),
            web.get("/app/own", own),
            web.get("/app/streamed", streamed),
            web.get("/app/fails", fails),
            web.get("/relayed/{path:.*}", gateway.relay),
            gateway.native("/native/"),
            gateway.native("/cached/", caching=Caching()),
            Gateway("http://127.0.0.1:1", engine=engine).native("/down/"),
            hub.native("/events/"),
        ]
    )
    return app, hub


async def test_every_response_over_tls_tells_of_https_once(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    hsts = HSTS(max_age=YEAR, subdomains=True, preload=True)
    said = f"max-age={YEAR}; includeSubDomains; preload"
    async with (
        ScriptedOrigin(origin) as scripted,
        penstock.Engine(memory="16MiB", cache=Cache(memory="2MiB")) as engine,
    ):
        app, hub = application(engine, scripted.url)
        async with (
            serving(Edge(tls=TLS(*files, hsts=hsts)), app, engine) as site,
            ClientSession(connector=TCPConnector(ssl=trust(authority))) as session,
        ):
            for path, status, body in (
                ("app", 200, b"ok"),
                ("app/streamed", 200, b"ok"),
                ("app/fails", 500, None),
                ("app/nothing", 404, None),
                ("relayed/a", 200, b"ok"),
                ("native/a", 200, b"ok"),
                ("cached/a", 200, b"ok"),
                ("cached/a", 200, b"ok"),
                ("down/a", 502, None),
            ):
                async with session.get(f"https://localhost:{site.port}/{path}") as response:
                    assert (response.status, response.headers.getall(FIELD, [])) == (status, [said]), path
                    assert body is None or await response.read() == body, path
                async with session.head(f"https://localhost:{site.port}/{path}") as response:
                    assert (response.status, response.headers.getall(FIELD, [])) == (status, [said]), path
            for path in ("app/own", "native/own", "relayed/own", "cached/own"):
                async with session.get(f"https://localhost:{site.port}/{path}") as response:
                    assert response.headers.getall(FIELD, []) == ["max-age=1"], path
            async with session.get(f"https://localhost:{site.port}/events/news") as response:
                assert response.headers.getall(FIELD, []) == [said]
            async with session.get(f"https://localhost:{site.port}/", headers={"Host": "other"}) as response:
                assert (response.status, response.headers.getall(FIELD, [])) == (421, [said])
        hub.close()


class Pieces(web.StreamResponse):
    """A response that is written in two pieces, with an interim one before it."""

    BYTES = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nServer: pieces\r\n\r\nbody"
    )

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    async def prepare(self, request):  # type: ignore[no-untyped-def]
        self._req = request
        self._payload_writer = request._payload_writer
        request.transport.write(self.BYTES[: self._at])
        request.transport.write(self.BYTES[self._at :])
        self._keep_alive = True
        return self._payload_writer

    async def write_eof(self, _data: bytes = b"") -> None:
        self._eof_sent = True


async def test_the_field_is_put_in_wherever_a_head_is_cut(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return Pieces(int(request.query["at"]))

    app = web.Application()
    app.router.add_get("/", handler)
    async with serving(Edge(tls=TLS(*files, hsts=HSTS(max_age=1))), app) as site:
        reader, writer = await asyncio.open_connection(
            "localhost", site.port, ssl=trust(authority), server_hostname="localhost"
        )
        hints, head = Pieces.BYTES.split(b"\r\n\r\n")[:2]
        whole = hints + b"\r\n\r\n" + head + b"\r\nStrict-Transport-Security: max-age=1\r\n\r\nbody"
        for at in range(1, len(Pieces.BYTES)):
            writer.write(f"GET /?at={at} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert await asyncio.wait_for(reader.readexactly(len(whole)), 10) == whole, at
        writer.close()
        await writer.wait_closed()


async def test_nothing_is_said_of_https_where_it_is_not_asked_for(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    async with (
        serving(Edge(tls=TLS(*files))) as site,
        ClientSession(connector=TCPConnector(ssl=trust(authority))) as session,
        session.get(f"https://localhost:{site.port}/") as response,
    ):
        assert FIELD not in response.headers


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: HSTS(preload=True), "HSTS.preload"),
        (lambda: HSTS(preload=True, subdomains=True, max_age=YEAR - 1), "HSTS.preload"),
        (lambda: HSTS(max_age=-1), "HSTS.max_age"),
        (lambda: TLS("c.pem", hsts="max-age=1"), "TLS.hsts"),
        (lambda: TLS("c.pem", http_redirect="unix:/x"), "TLS.http_redirect"),
        (lambda: TLS("c.pem", http_redirect="name.example:80"), "TLS.http_redirect"),
        (lambda: TLS("c.pem", redirect_port=443), "TLS.redirect_port"),
        (lambda: Edge(acme_dir=1), "Edge.acme_dir"),
    ],
)
def test_bad_settings_are_named(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(penstock.ConfigurationError, match=re.escape(rule)):
        make()


@pytest.mark.parametrize("what", ["origin", "app", "workers"])
async def test_the_command_does_all_of_it(
    what: str, authority: trustme.CA, files: tuple[Path, Path], root: Path, tmp_path: Path
) -> None:
    (tmp_path / "media.py").write_text("from aiohttp import web\napp = web.Application()\n")
    cert, key = files
    options = ["--tls-cert", str(cert), "--tls-key", str(key), "--hsts", "60", "--acme-dir", str(root)]
    options += ["--http-redirect", "127.0.0.1:0", "--http-redirect-port", "443"]
    async with ScriptedOrigin(origin) as scripted:
        if what == "origin":
            options += ["--origin", scripted.url]
        else:
            options += ["media:app"] + ["--workers", "1"] * (what == "workers")
        async with serve(*options, directory=tmp_path) as running:
            port = next(int(found[1]) for line in running.lines if (found := REDIRECTS.search(line)))
            async with plain(port) as client:
                assert (await client.ask("/a")).head.one("Location") == "https://gateway.test/a"
                reply = await client.ask("/.well-known/acme-challenge/to-ken_1")
                assert reply.body == b"to-ken_1.thumbprint\n"
            async with ClientSession(connector=TCPConnector(ssl=trust(authority))) as session:
                async with session.get(f"https://localhost:{running.port}/") as response:
                    assert response.headers.getall(FIELD) == ["max-age=60"]
                url = f"https://localhost:{running.port}/.well-known/acme-challenge/to-ken_1"
                async with session.get(url) as response:
                    assert await response.read() == b"to-ken_1.thumbprint\n"


def test_a_port_of_redirects_that_is_taken_is_named(files: tuple[Path, Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        options = ["--tls-cert", str(files[0]), "--tls-key", str(files[1]), "--http-redirect", place]
        failed = run("serve", "--listen", "127.0.0.1:0", "--origin", "http://127.0.0.1:1", *options)
    assert failed.returncode == 1
    assert "--http-redirect: " in failed.stderr
    assert place in failed.stderr


async def test_redirects_are_counted_and_logged_as_a_route(files: tuple[Path, Path], tmp_path: Path) -> None:
    edge, log = Edge(tls=TLS(*files, http_redirect="127.0.0.1:0")), tmp_path / "log"
    runner = web.AppRunner(web.Application())
    await runner.setup()
    async with penstock.Engine(memory="16MiB") as engine:
        site = Site(runner, "127.0.0.1", 0, edge=edge, engine=engine, access_log=log)
        await site.start()
        async with plain(port_of(site.redirect_url)) as client:
            assert (await client.ask("/a")).head.status == 301
        name = 'penstock_requests_total{lane="native",route="https_redirect",status="301"} 1'
        await until(lambda: name in penstock.metrics.text(engine), "it is counted")
        await runner.cleanup()
    assert '"GET /a HTTP/1.1" 301' in log.read_text()


def test_the_command_refuses_what_goes_with_tls() -> None:
    for options in (["--http-redirect"], ["--hsts", "60"]):
        refused = run("serve", "--origin", "http://127.0.0.1:1", *options)
        assert refused.returncode == 2
        assert f"{options[0]}: only with --tls-cert or --tls-dir" in refused.stderr
