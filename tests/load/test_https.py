"""Targets that are asked over TLS."""

import ssl
from pathlib import Path

import pytest
import trustme

from support.certificates import written

from .runs import load, titles, viewers

TIMES = [0.0, 0.1, 0.2]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def context(authority: trustme.CA, directory: Path, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*written(authority, directory, name))
    return made


@pytest.fixture
def roots(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "roots.pem"
    path.write_bytes(authority.cert_pem.bytes())
    return path


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("network", ["", 'network = "cable"'])
async def test_viewers_play_over_tls(
    tmp_path: Path, authority: trustme.CA, roots: Path, version: ssl.TLSVersion, network: str
) -> None:
    tls = context(authority, tmp_path, "127.0.0.1")
    tls.minimum_version = tls.maximum_version = version
    async with titles(tls) as server:
        told = ("--target", server.url, "--roots", str(roots))
        ended = await load(tmp_path, viewers(TIMES, more=network), *told, duration=20)
    assert (ended.status, ended.summary["errors"]) == (0, []), ended.errors
    assert ended.summary["sessions"]["completed"] == 3
    assert ended.summary["requests"]["segment"]["bytes"] == 9 * 2500


@pytest.mark.parametrize("name", ["127.0.0.1", "other.test"])
async def test_a_certificate_that_is_not_the_servers_or_not_trusted_fails_the_sessions(
    tmp_path: Path, authority: trustme.CA, roots: Path, name: str
) -> None:
    if name == "127.0.0.1":
        roots.write_bytes(trustme.CA().cert_pem.bytes())
    async with titles(context(authority, tmp_path, name)) as server:
        scenario = viewers(TIMES).replace("retry_delay", "retries = 0, retry_delay")
        ended = await load(tmp_path, scenario, "--target", server.url, "--roots", str(roots), duration=20)
    assert ended.summary["sessions"]["failed"] == 3
    assert all(error["cause"].startswith("TLS: ") for error in ended.summary["errors"])
    assert not server.asked


async def test_roots_that_are_none_end_the_run(tmp_path: Path, roots: Path) -> None:
    roots.write_text("nothing")
    ended = await load(
        tmp_path, viewers([0.0]), "--target", "https://127.0.0.1:1", "--roots", str(roots), duration=1
    )
    assert ended.status == 1
    assert "no root by which certificates could be verified" in ended.errors
