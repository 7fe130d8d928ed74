"""Calls of grpcio through a relay are, in all four shapes, what they are without it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from support.certificates import written
from support.command import Running, serve
from support.http2 import Http2Client
from support.servers import running_grpc_server
from support.waiting import in_time

HERE = Path(__file__).parent


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Where a server of gRPC listens."""
    async with running_grpc_server() as server:
        yield server


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return authority


async def called(*arguments: str) -> dict[str, Any]:
    """What came of each call of the matrix."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "client.py"), *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await in_time(process.communicate(), "the calls end", within=120)
    outcomes: dict[str, Any] = json.loads(output)
    return outcomes


@pytest.fixture
async def front(server: str, authority: trustme.CA, tmp_path: Path) -> AsyncIterator[Running]:
    cert, key = written(authority, tmp_path, "localhost")
    options = ("--origin-http2", "--grpc-health", "--tls-cert", str(cert), "--tls-key", str(key))
    async with serve("--origin", f"http://{server}", *options) as running:
        yield running


async def test_penstock_says_whether_it_is_ready(front: Running, authority: trustme.CA) -> None:
    client = await Http2Client.connect(front.port, authority)
    head = (("content-type", "application/grpc"), ("te", "trailers"))
    path = "/grpc.health.v1.Health/"
    answer = await client.ask(path + "Check", *head, method="POST", body=b"\0\0\0\0\0")
    assert (answer.status, answer.one("content-type")) == (200, "application/grpc")
    assert (bytes(answer.body), answer.trailers) == (b"\0\0\0\0\2\x08\1", (("grpc-status", "0"),))
    answer = await client.ask(path + "Watch", *head, method="POST", body=b"\0\0\0\0\0")
    assert (answer.one("grpc-status"), answer.one("content-length"), answer.ended) == ("12", None, True)
    await client.close()


async def test_a_call_is_what_it_is_without_a_relay(server: str, front: Running, tmp_path: Path) -> None:
    direct = await called(server)
    through = await called(f"localhost:{front.port}", str(tmp_path / "ca.pem"))
    assert len(direct) > 40
    differ = {name: (outcome, through[name]) for name, outcome in direct.items() if outcome != through[name]}
    assert differ == {}
