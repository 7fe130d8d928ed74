"""What origins see of this side's TLS: certificates that they ask for, and sessions that are resumed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

import penstock
from penstock.config import ClientCertificate, OriginTls
from support.certificates import written
from support.client import RawClient
from support.command import serve


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def clients() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def roots(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


class Origin:
    """An origin that closes each connection after one response, and notes what it saw of its TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.seen: list[tuple[str | None, bool]] = []
        """The name in the client's certificate, and whether the session was resumed."""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        session = writer.get_extra_info("ssl_object")
        names = (session.getpeercert() or {}).get("subjectAltName", [])
        self.seen.append((next((name for _, name in names), None), session.session_reused))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self._context)
        async with server:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def asking(
    authority: trustme.CA, clients: trustme.CA, mode: ssl.VerifyMode = ssl.CERT_OPTIONAL
) -> ssl.SSLContext:
    """What an origin has that asks clients for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = mode
    return context


async def fetched(engine: penstock.Engine, url: str) -> None:
    async with engine.get(url) as response:
        assert await response.bytes() == b"ok"


async def test_a_certificate_is_shown_to_its_origin_alone(
    authority: trustme.CA, clients: trustme.CA, roots: Path, tmp_path: Path
) -> None:
    cert, key = written(clients, tmp_path, "gateway.example")
    one, other = Origin(asking(authority, clients, ssl.CERT_REQUIRED)), Origin(asking(authority, clients))
    async with one.listening() as first, other.listening() as second:
        tls = OriginTls(roots=roots, certificates={first: ClientCertificate(cert, key)})
        async with penstock.Engine(memory="16MiB", tls=tls) as engine:
            await fetched(engine, first)
            await fetched(engine, second)
    assert one.seen == [("gateway.example", False)]
    assert other.seen == [(None, False)]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_are_resumed_with_a_certificate_and_without(
    authority: trustme.CA, clients: trustme.CA, roots: Path, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    pem = tmp_path / "both.pem"
    pem.write_bytes(b"".join(path.read_bytes() for path in written(clients, tmp_path, "gateway.example")))
    contexts = [asking(authority, clients) for _ in range(2)]
    for context in contexts:
        context.minimum_version = context.maximum_version = version
    one, other = (Origin(context) for context in contexts)
    async with one.listening() as first, other.listening() as second:
        tls = OriginTls(roots=roots, certificates={first: ClientCertificate(pem)})
        async with penstock.Engine(memory="16MiB", threads=2, tls=tls) as engine:
            for _ in range(4):
                await fetched(engine, first)
                await fetched(engine, second)
    assert one.seen == [("gateway.example", False)] + [("gateway.example", True)] * 3
    assert other.seen == [(None, False)] + [(None, True)] * 3


async def test_the_command_shows_a_certificate_to_its_origin(
    authority: trustme.CA, clients: trustme.CA, roots: Path, tmp_path: Path
) -> None:
    cert, key = written(clients, tmp_path, "gateway.example")
    origin = Origin(asking(authority, clients, ssl.CERT_REQUIRED))
    async with origin.listening() as url:
        options = ["--origin", url, "--ca", str(roots), "--origin-cert", str(cert), "--origin-key", str(key)]
        async with serve(*options) as running:
            client = await RawClient.connect(running.port)
            assert (await client.ask("/")).body == b"ok"
            client.abort()
    assert origin.seen == [("gateway.example", False)]


def test_what_is_wrong_with_certificates_is_said(clients: trustme.CA, tmp_path: Path) -> None:
    cert, _ = written(clients, tmp_path, "one.example")
    _, key = written(clients, tmp_path, "two.example")
    good = ClientCertificate(cert, key)
    for certificates, rule in (
        ({"http://a.example": good}, "must be like 'https://host:port'"),
        ({"a.example": good}, "must be like 'https://host:port'"),
        ({"https://a.example/path": good}, "must be like 'https://host:port'"),
        ({"https://a.example:port": good}, "is no URL"),
        ({"https://a.example": cert}, "ClientCertificate"),
        ([good], "must be a mapping"),
    ):
        with pytest.raises(penstock.ConfigurationError, match=rule):
            OriginTls(certificates=certificates)  # type: ignore[arg-type]
    tls = OriginTls(certificates={"https://a.example": good})
    with pytest.raises(penstock.ConfigurationError, match=r"one\.example\.pem is not that of the key"):
        penstock.Engine(memory="1MiB", tls=tls)
