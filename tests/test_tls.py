"""TLS to origins through Python: whom it trusts, what it says of whom it does not, and what the end of a body means."""

import datetime as dt
import gc
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

import penstock
from penstock.config import OriginTls
from penstock.testing import Peer, Script, ScriptedOrigin
from support.waiting import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def roots(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "roots.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@asynccontextmanager
async def trusting(roots: str | Path) -> AsyncIterator[penstock.Engine]:
    async with penstock.Engine(memory="16MiB", tls=OriginTls(roots=roots)) as engine:
        yield engine
        # The traceback of a body that failed holds the frames of its last batch.
        gc.collect()
        await until(lambda: engine.stats().pool.live_bytes == 0, "every slab is back")
        assert engine.stats().streams == 0


async def answers(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(OK)


async def failure(engine: penstock.Engine, url: str) -> penstock.PenstockError:
    with pytest.raises(penstock.PenstockError) as caught:
        async with engine.get(url) as response:
            await response.bytes()
    caught.value.__traceback__ = None
    return caught.value


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_private_root_that_is_named_is_trusted(authority: trustme.CA, roots: Path, name: str) -> None:
    tls = context(authority.issue_cert("localhost", "127.0.0.1"))
    async with trusting(roots) as engine, ScriptedOrigin(answers, tls=tls) as origin:
        url = f"https://{name}:{origin.port}"
        for reused in (False, True):
            async with engine.get(url) as response:
                assert (response.status, await response.bytes()) == (200, b"ok")
                assert response.timings.reused is reused
                assert (response.timings.tls > 0) is not reused
        assert len(origin.connections) == 1


async def test_what_is_decrypted_is_counted_as_copied(authority: trustme.CA, roots: Path) -> None:
    content = os.urandom(3_000_000)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
        await peer.send(content)
        await peer.request()

    tls = context(authority.issue_cert("127.0.0.1"))
    async with trusting(roots) as engine, ScriptedOrigin(script, tls=tls) as origin:
        received = bytearray()
        async with engine.get(origin.url) as response:
            async for frame in response:
                received += memoryview(frame)
        del frame
        assert received == content
        copied = engine.stats().pool.bytes_copied
        assert copied.pop("tls") >= len(content)
        assert not any(copied.values()), copied


REFUSED: dict[str, Callable[[trustme.CA], trustme.LeafCert]] = {
    "another host's": lambda authority: authority.issue_cert("other.example"),
    "another address's": lambda authority: authority.issue_cert("127.0.0.2"),
    "an unknown root's": lambda _authority: trustme.CA().issue_cert("127.0.0.1"),
    "an expired": lambda authority: authority.issue_cert(
        "127.0.0.1", not_after=dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    ),
}


@pytest.mark.parametrize("whose", REFUSED)
async def test_a_certificate_that_proves_nothing_is_refused(
    authority: trustme.CA, roots: Path, whose: str
) -> None:
    tls = context(REFUSED[whose](authority))
    async with trusting(roots) as engine, ScriptedOrigin(answers, tls=tls) as origin:
        error = await failure(engine, origin.url)
        assert (error.code, error.name, error.retryable) == (0x106, "TLS_FAILED", False)
        assert isinstance(error, ConnectionError)
        assert error.origin == origin.url
        assert not origin.requests, "nothing is asked of who is not trusted"


@pytest.mark.parametrize("kind", ["system", "webpki"])
async def test_the_public_roots_do_not_trust_a_private_one(
    authority: trustme.CA, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = context(authority.issue_cert("127.0.0.1"))
    async with trusting(kind) as engine, ScriptedOrigin(answers, tls=tls) as origin:
        assert (await failure(engine, origin.url)).name == "TLS_FAILED"
        assert not origin.requests


async def test_what_speaks_no_tls_is_a_failure_of_tls(roots: Path) -> None:
    async def plain(peer: Peer) -> None:
        await peer.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with trusting(roots) as engine, ScriptedOrigin(plain) as origin:
        assert (await failure(engine, origin.url.replace("http:", "https:"))).name == "TLS_FAILED"


def ends(data: bytes, how: Callable[[Peer], None]) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        how(peer)
        await peer.stall()

    return script


async def test_only_tls_own_end_ends_a_body_without_framing(authority: trustme.CA, roots: Path) -> None:
    """Any machine on the way can close a TCP connection; the alert that ends TLS is the origin's (RFC 8446, 6.1)."""
    tls = context(authority.issue_cert("127.0.0.1"))
    body = b"HTTP/1.1 200 OK\r\n\r\nhalf"
    async with trusting(roots) as engine:
        async with (
            ScriptedOrigin(ends(body, Peer.close), tls=tls) as origin,
            engine.get(origin.url) as response,
        ):
            assert await response.bytes() == b"half"
        async with ScriptedOrigin(ends(body, Peer.abort), tls=tls) as origin:
            error = await failure(engine, origin.url)
            assert error.name in {"BODY_TRUNCATED", "ORIGIN_RESET"}


def test_roots_that_do_not_exist_are_refused_at_once() -> None:
    with pytest.raises(penstock.ConfigurationError, match=r"OriginTls\.roots"):
        OriginTls(roots="/no/such/file.pem")


async def test_roots_without_a_certificate_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.pem"
    path.write_text("no certificate\n")
    with pytest.raises(penstock.PenstockError) as caught:
        penstock.Engine(memory="1MiB", tls=OriginTls(roots=path))
    assert caught.value.name == "BAD_CONFIGURATION"
