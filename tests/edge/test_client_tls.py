"""TLS towards clients: what they get, what a handler sees, and what bad clients and bad files cost."""

import asyncio
import base64
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import ClientSession, TCPConnector, web

import penstock
from penstock.config import Edge
from penstock.testing import Peer, ScriptedOrigin
from penstock.web import TLS, Gateway, Site, run_app
from support.certificates import connect, trust, written
from support.waiting import until

BODY = bytes(range(256)) * 2048


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> tuple[Path, Path]:
    return written(authority, tmp_path, "localhost", "127.0.0.1")


async def describe(request: web.Request) -> web.Response:
    transport = request.transport
    assert transport is not None
    cipher = transport.get_extra_info("cipher")
    certificate = transport.get_extra_info("peercert")
    return web.json_response(
        {
            "scheme": request.scheme,
            "secure": request.secure,
            "url": str(request.url),
            "cipher": cipher,
            "certificate": certificate,
            "name": transport.get_extra_info("ssl_object").server_hostname,
        }
    )


async def upload(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


async def large(_: web.Request) -> web.Response:
    return web.Response(body=BODY)


async def file(_: web.Request) -> web.FileResponse:
    return web.FileResponse(Path(__file__))


@asynccontextmanager
async def serving(tls: TLS, app: web.Application | None = None) -> AsyncIterator[Site]:
    if app is None:
        app = web.Application()
        app.router.add_get("/", describe)
        app.router.add_post("/", upload)
        app.router.add_get("/large", large)
        app.router.add_get("/file", file)
    runner = web.AppRunner(app)
    await runner.setup()
    async with penstock.Engine(memory="16MiB") as engine:
        site = Site(runner, "127.0.0.1", 0, engine=engine, ssl_context=tls)
        try:
            await site.start()
            yield site
        finally:
            await runner.cleanup()


@asynccontextmanager
async def client(context: ssl.SSLContext) -> AsyncIterator[ClientSession]:
    async with ClientSession(connector=TCPConnector(ssl=context)) as session:
        yield session


async def test_a_handler_sees_https_and_the_session(authority: trustme.CA, files: tuple[Path, Path]) -> None:
    async with (
        serving(TLS(*files)) as site,
        client(trust(authority)) as session,
        session.get(f"https://localhost:{site.port}/") as response,
    ):
        seen = await response.json()
    assert site.name.startswith("https://")
    assert seen["scheme"] == "https"
    assert seen["secure"]
    assert seen["url"].startswith("https://localhost")
    assert seen["cipher"][1] == "TLSv1.3"
    assert seen["certificate"] is None
    assert seen["name"] == "localhost"


async def test_bodies_pass_whole_both_ways(authority: trustme.CA, files: tuple[Path, Path]) -> None:
    async with serving(TLS(*files)) as site, client(trust(authority)) as session:
        url = f"https://localhost:{site.port}"
        async with session.post(f"{url}/", data=BODY) as response:
            assert await response.read() == BODY
        async with session.get(f"{url}/large") as response:
            assert await response.read() == BODY
        async with session.get(f"{url}/file") as response:
            assert await response.read() == Path(__file__).read_bytes()


async def test_an_origin_is_told_https(authority: trustme.CA, files: tuple[Path, Path]) -> None:
    async def answers(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with ScriptedOrigin(answers) as origin, penstock.Engine(memory="16MiB") as engine:
        app = web.Application()
        gateway = Gateway(origin.url, engine=engine)
        app.router.add_get("/app/{path:.*}", gateway.relay)
        app.add_routes([gateway.native("/native/")])
        async with serving_on(engine, app, TLS(*files)) as site, client(trust(authority)) as session:
            for path in ("app/x", "native/x"):
                async with session.get(f"https://localhost:{site.port}/{path}") as response:
                    assert await response.read() == b"ok"
        assert [request.get("X-Forwarded-Proto") for request in origin.requests] == ["https", "https"]


@asynccontextmanager
async def serving_on(engine: penstock.Engine, app: web.Application, tls: TLS) -> AsyncIterator[Site]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = Site(runner, "127.0.0.1", 0, engine=engine, edge=Edge(tls=tls))
    try:
        await site.start()
        yield site
    finally:
        await runner.cleanup()


async def test_a_client_shows_its_certificate(
    authority: trustme.CA, files: tuple[Path, Path], tmp_path: Path
) -> None:
    clients = trustme.CA()
    ca = tmp_path / "clients.pem"
    clients.cert_pem.write_to_path(str(ca))
    own = trust(authority)
    clients.issue_cert("one@example.org", common_name="one").configure_cert(own)
    async with serving(TLS(*files, clients="required", client_ca=ca)) as site:
        url = f"https://localhost:{site.port}/"
        async with client(own) as session, session.get(url) as response:
            certificate = (await response.json())["certificate"]
        assert [["commonName", "one"]] in certificate["subject"]
        assert ["email", "one@example.org"] in certificate["subjectAltName"]
        async with client(trust(authority)) as session:
            # Whether the alert or the reset is seen first is the client's.
            with pytest.raises((OSError, ConnectionError)):
                await session.get(url)


async def test_each_name_of_a_directory_gets_its_certificate(authority: trustme.CA, tmp_path: Path) -> None:
    written(authority, tmp_path, "one.example")
    written(authority, tmp_path, "two.example")
    async with serving(TLS(directory=tmp_path)) as site:
        for name in ("one.example", "two.example"):
            assert name in await asyncio.to_thread(names_of, trust(authority), site.port, name)


def names_of(context: ssl.SSLContext, port: int, name: str) -> list[str]:
    with connect(context, port, name) as secure:
        certificate = secure.getpeercert()
    assert certificate is not None
    return [value for _, value in certificate["subjectAltName"]]  # type: ignore[misc, str-unpack]


async def test_a_host_that_the_certificate_does_not_name_is_misdirected(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    async with serving(TLS(*files)) as site, client(trust(authority)) as session:
        url = f"https://localhost:{site.port}/"
        async with session.get(url, headers={"Host": "other.example"}) as response:
            assert response.status == 421
            assert (await response.json())["name"] == "MISDIRECTED_REQUEST"
        async with session.get(f"https://127.0.0.1:{site.port}/") as response:
            assert response.status == 200


async def test_plain_http_is_told_of_tls(files: tuple[Path, Path]) -> None:
    async with serving(TLS(*files)) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"PLAIN_HTTP" in answer


async def test_a_handshake_that_does_not_come_is_cut(files: tuple[Path, Path]) -> None:
    async with serving(TLS(*files, handshake_timeout=0.2)) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"\x16\x03\x01")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_the_longest_handshake_is_cut_for_an_honest_client(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    async with serving(TLS(*files, handshakes=2, handshake_timeout=60)) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(4)]
        for _, writer in held:
            writer.write(b"\x16\x03\x01\x02")
        for reader, _ in held[:2]:
            # A reset, if the server had not read the bytes yet.
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
        async with (
            client(trust(authority)) as session,
            session.get(f"https://localhost:{site.port}/") as response,
        ):
            assert response.status == 200
        for _, writer in held:
            writer.close()


async def test_a_body_that_is_cut_off_does_not_look_whole(
    authority: trustme.CA, files: tuple[Path, Path]
) -> None:
    begun = asyncio.Event()

    async def truncates(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1000)
        # The kernel forgets what a reset finds unread.
        await begun.wait()
        peer.reset()

    async with ScriptedOrigin(truncates) as origin, penstock.Engine(memory="16MiB") as engine:
        app = web.Application()
        app.add_routes([Gateway(origin.url, engine=engine).native("/")])
        async with serving_on(engine, app, TLS(*files)) as site:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", site.port, ssl=trust(authority), server_hostname="localhost"
            )
            # HTTP/1.0 has no chunks: the end of the connection is the end of the body.
            writer.write(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert await asyncio.wait_for(reader.readline(), 10) == b"HTTP/1.1 200 OK\r\n"
            begun.set()
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await asyncio.wait_for(reader.read(), 10)
            writer.transport.abort()


async def test_a_renewed_certificate_is_served_and_a_bad_one_is_not(
    authority: trustme.CA, files: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = tmp_path / "renewed"
    renewed.mkdir()
    cert, key = written(authority, renewed, "localhost", "renewed.example")
    async with serving(TLS(*files)) as site:

        async def served() -> list[str]:
            return await asyncio.to_thread(names_of, trust(authority), site.port, "localhost")

        assert "renewed.example" not in await served()
        files[0].write_bytes(b"no certificate")
        site.reload_tls()
        await until(lambda: str(files[0]) in caplog.text, "the bad file is logged")
        assert "127.0.0.1" in await served()
        for source, target in ((key, files[1]), (cert, files[0])):
            shutil.copy(source, f"{target}.new")
            os.replace(f"{target}.new", target)
        site.reload_tls()
        async with asyncio.timeout(10):
            while "renewed.example" not in await served():
                pass


async def test_a_context_of_ssl_is_refused_with_what_to_write(files: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with pytest.raises(penstock.ConfigurationError, match="load_cert_chain took is `cert` and `key`"):
        run_app(web.Application(), ssl_context=context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, "cert"),
        ({"key": "k.pem"}, "cert"),
        ({"cert": "c.pem", "clients": "required"}, "client_ca"),
        ({"cert": "c.pem", "client_ca": "ca.pem"}, "client_ca"),
        ({"cert": "c.pem", "crl": "crl.pem"}, "crl"),
        ({"cert": "c.pem", "min_version": "1.1"}, "min_version"),
        ({"cert": "c.pem", "handshakes": 0}, "handshakes"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], rule: str) -> None:
    with pytest.raises(penstock.ConfigurationError, match=rf"TLS\.{rule}"):
        TLS(**settings)  # type: ignore[arg-type]


async def test_a_missing_file_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"nowhere\.pem"):
        async with serving(TLS(tmp_path / "nowhere.pem")):
            pass


def asked(
    context: ssl.SSLContext, port: int, session: ssl.SSLSession | None
) -> tuple[bool, ssl.SSLSession | None]:
    """Send a request. Whether the handshake resumed `session`, and the session of this connection."""
    with connect(context, port, "localhost", session) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert secure.recv(65536).startswith(b"HTTP/1.1 200 ")
        # A ticket of TLS 1.3 comes after the handshake.
        return bool(secure.session_reused), secure.session


POLICIES = ("off", "optional", "required")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_is_resumed_only_under_the_policy_that_it_was_made_under(
    authority: trustme.CA, files: tuple[Path, Path], tmp_path: Path, version: ssl.TLSVersion
) -> None:
    # CVE-2025-23419: a session that was made without a certificate was resumed where one is required.
    keys, ca = tmp_path / "keys", tmp_path / "ca.pem"
    keys.touch(0o600)
    keys.write_bytes(base64.b64encode(os.urandom(80)) + b"\n")
    authority.cert_pem.write_to_path(str(ca))
    context = trust(authority)
    context.minimum_version = context.maximum_version = version
    authority.issue_cert("client@example.org").configure_cert(context)
    async with AsyncExitStack() as stack:
        ports = {}
        for policy in POLICIES:
            tls = TLS(*files, clients=policy, client_ca=None if policy == "off" else ca, ticket_keys=keys)
            ports[policy] = (await stack.enter_async_context(serving(tls))).port
        for made in POLICIES:
            _, session = await asyncio.to_thread(asked, context, ports[made], None)
            for used in POLICIES:
                reused, _ = await asyncio.to_thread(asked, context, ports[used], session)
                assert reused == (made == used), f"made under {made}, used under {used}"
