"""What is counted of TLS towards clients: handshakes by their ends, certificates, and reloads."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import web

import penstock
from penstock.config import TLS, Edge
from support.certificates import connect, trust, written
from support.scraping import Metrics

from .conftest import Serve, Served


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def asked(context: ssl.SSLContext, port: int, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    with connect(context, port, "localhost", session) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert secure.recv(65536).startswith(b"HTTP/1.1 404 ")
        return secure.session


def sent(port: int, data: bytes) -> None:
    """Send `data` in place of a handshake, and read to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw, suppress(ConnectionResetError):
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass


def refused(context: ssl.SSLContext, port: int, name: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        connect(context, port, name)


def ends(metrics: Metrics) -> dict[str, float]:
    family = metrics.families["penstock_tls_handshakes"]
    return {sample.labels["end"]: sample.value for sample in family.samples if sample.value}


def states(metrics: Metrics) -> dict[str, float]:
    family = metrics.families["penstock_tls_certificates"]
    return {sample.labels["state"]: sample.value for sample in family.samples}


async def counted(served: Served, **expected: float) -> None:
    await served.pages.until(lambda metrics: ends(metrics) == expected, f"the ends are {expected}")


async def test_handshakes_are_counted_by_their_ends(
    engine: penstock.Engine, serve: Serve, authority: trustme.CA, tmp_path: Path
) -> None:
    tls = TLS(*written(authority, tmp_path, "localhost"), unknown_names="refuse", handshake_timeout=0.5)
    served = await serve(engine, web.Application(), edge=Edge(tls=tls))
    port, trusting = served.site.port, trust(authority)
    session = await asyncio.to_thread(asked, trusting, port, None)
    await counted(served, full=1)
    await asyncio.to_thread(asked, trusting, port, session)
    await counted(served, full=1, resumed=1)
    await asyncio.to_thread(sent, port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.to_thread(sent, port, b"\x16\x03\x01")
    await asyncio.to_thread(sent, port, b"\x00" * 64)
    await asyncio.to_thread(refused, trusting, port, "other.example")
    await asyncio.to_thread(refused, ssl.create_default_context(), port, "localhost")
    seen = {"full": 1.0, "resumed": 1.0, "plain_http": 1.0, "closed": 1.0, "malformed": 1.0}
    seen |= {"unknown_name": 1.0, "refused": 1.0}
    await counted(served, **seen)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await served.pages.until(lambda metrics: metrics.get("tls_handshakes_active") == 1, "one is under way")
    await counted(served, **seen, timeout=1)
    assert (await served.pages.metrics()).get("tls_handshakes_active") == 0
    writer.close()


async def test_certificates_show_when_they_expire_and_whether_their_files_are_good(
    engine: penstock.Engine, serve: Serve, authority: trustme.CA, tmp_path: Path
) -> None:
    files = {name: written(authority, tmp_path, name) for name in ("one.example", "two.example")}
    served = await serve(engine, web.Application(), edge=Edge(tls=TLS(directory=tmp_path)))
    metrics = await served.pages.metrics()
    assert states(metrics) == {"current": 2, "stale": 0, "unusable": 0}
    assert metrics.values("certificate") == {"one.example", "two.example"}
    with await asyncio.to_thread(connect, trust(authority), served.site.port, "one.example") as secure:
        shown = secure.getpeercert()
    assert shown is not None
    expires = ssl.cert_time_to_seconds(str(shown["notAfter"]))
    assert metrics.get("tls_certificate_expiry_timestamp_seconds", certificate="one.example") == expires
    assert metrics.get("tls_reloads_total", result="failed") == 0
    files["one.example"][0].write_text("no certificate")
    (tmp_path / "new.pem").write_text("no certificate")
    served.site.reload_tls()
    metrics = await served.pages.until(
        lambda metrics: metrics.get("tls_reloads_total", result="failed") == 1, "files are bad"
    )
    assert states(metrics) == {"current": 1, "stale": 1, "unusable": 1}
    assert metrics.get("tls_certificate_expiry_timestamp_seconds", certificate="one.example") == expires


async def test_only_the_first_hundred_certificates_to_expire_are_named(
    engine: penstock.Engine, serve: Serve, tmp_path: Path
) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    for number in range(103):
        written(authority, tmp_path, f"{number}.example")
    served = await serve(engine, web.Application(), edge=Edge(tls=TLS(directory=tmp_path)))
    metrics = await served.pages.metrics()
    assert metrics.get("tls_certificates", state="current") == 103
    assert len(metrics.values("certificate")) == 100
