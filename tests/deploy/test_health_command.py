"""`penstock health` asks a running server, and says by its exit status what it has heard."""

import re
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import answer
from support.command import asked, free_port, run, serve
from support.waiting import in_time

STATUS = re.compile(r"status on (\S+)/penstock/")


async def test_a_server_on_a_port_is_healthy_and_ready() -> None:
    async with serve("--origin", "http://127.0.0.1:9", "--status-listen", "127.0.0.1:0") as running:
        url = (await running.wait_for(STATUS))[1]
        assert await asked("health", url) == (0, "healthy\n", "")
        port = url.rpartition(":")[2]
        # All interfaces, as the server may have been told.
        assert await asked("health", "--status-listen", port, "--ready") == (0, "ready\n", "")


async def test_a_server_on_a_unix_socket_is_healthy(tmp_path: Path) -> None:
    place = f"unix:{tmp_path / 'status.sock'}"
    async with serve("--origin", "http://127.0.0.1:9", "--status-listen", place):
        assert await asked("health", "--status-listen", place) == (0, "healthy\n", "")


@pytest.mark.parametrize("place", ["unix:/nowhere/status.sock", None])
def test_nothing_answers(place: str | None) -> None:
    ended = run("health", "--status-listen", place or f"127.0.0.1:{free_port()}")
    assert ended.returncode == 1
    assert "nothing answers at" in ended.stderr
    assert "Traceback" not in ended.stderr


PAGE = b'{"ready": false, "checks": [{"check": "pool", "ok": false, "seen": "the pool is full"}]}'


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (
            answer(f"Content-Length: {len(PAGE)}", body=PAGE, status="503 Service Unavailable"),
            "pool: the pool is full",
        ),
        (
            answer("Content-Length: 2", body=b"no", status="404 Not Found"),
            "status 404, and is no page about an engine",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "nothing answers"),
        (b"", "nothing answers"),
    ],
)
async def test_what_another_server_says_is_not_healthy(response: bytes, says: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)

    async with ScriptedOrigin(script) as server:
        status, _, error = await asked("health", server.url)
    assert status == 1
    assert says in error


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def script(peer: Peer) -> None:
        await peer.stall()

    async with ScriptedOrigin(script) as server:
        status, _, error = await in_time(asked("health", server.url, "--timeout", "0.2"))
    assert status == 1
    assert "timed out" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("https://127.0.0.1:9145",),
        ("127.0.0.1:9145",),
        ("http://127.0.0.1:99999",),
        ("http://127.0.0.1:1", "--status-listen", "1"),
        ("--status-listen", "nowhere"),
        ("--timeout", "0"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    ended = run("health", *arguments)
    assert ended.returncode == 2
    assert "Usage: " in ended.stderr
