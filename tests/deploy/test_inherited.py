"""`penstock serve --listen fd:...` accepts on sockets that it was started with."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.checks import parse_address
from penstock.config.listen import Inherited, parse_listen
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.command import COMMAND, free_port
from support.manager import passing, serve_with
from support.origins import Recorder
from support.programs import require
from support.waiting import DEADLINE, in_time

APP = """
import os
from aiohttp import web

async def hello(request):
    return web.Response(text=" ".join(sorted(name for name in os.environ if name.startswith("LISTEN_"))) or "none")

def app():
    app = web.Application()
    app.router.add_get("/", hello)
    return app
"""


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """One of each family, as a .socket unit with two lines has them."""
    opened = [socket.create_server((host, 0), family=family) for host, family in HOSTS]
    yield opened
    for each in opened:
        each.close()


HOSTS = (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6))


async def ask(listener: socket.socket, target: str = "/") -> bytes:
    """The body of an answer to one request at the address of `listener`."""
    address = listener.getsockname()
    if isinstance(address, str):
        client = RawClient(*await asyncio.open_unix_connection(address))
    else:
        client = RawClient(*await asyncio.open_connection(*address[:2]))
    try:
        return bytes((await in_time(client.ask(target))).body)
    finally:
        client.abort()


@given(st.one_of(st.text(), st.text(":/[]fd0123456789x"), st.text().map("fd:{}".format)))
def test_a_place_is_a_socket_that_is_there_or_an_address_or_is_refused(text: str) -> None:
    try:
        found = parse_listen(text)
    except ValueError:
        return
    if isinstance(found, Inherited):
        assert str(found) == text
        assert found.name
        assert ":" not in found.name
    else:
        assert found == parse_address(text)


@pytest.mark.parametrize("text", ["fd:", "fd", "fd:a:b"])
def test_a_socket_takes_a_name_without_a_colon(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be HOST:PORT, .* or unix:PATH; fd:NAME takes a socket"):
        parse_listen(text)


@pytest.mark.parametrize("way", ["origin", "app", "workers"])
async def test_all_sockets_of_a_name_are_accepted_from(
    sockets: list[socket.socket], tmp_path: Path, way: str
) -> None:
    (tmp_path / "mine.py").write_text(APP)
    async with ScriptedOrigin(Recorder()) as origin:
        what = {
            "origin": ("--origin", origin.url),
            "app": ("mine:app",),
            "workers": ("mine:app", "--workers", "1"),
        }[way]
        arguments = (
            (*what, "--listen", "fd:web", "--threads", "2") if way != "app" else (*what, "--listen", "fd:web")
        )
        async with serve_with(sockets, "web:web", *arguments, directory=tmp_path) as running:
            assert running.url == f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
            expected = b"ok" if way == "origin" else b"none"
            assert [await ask(each) for each in sockets] == [expected, expected]
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0


async def test_a_name_chooses_among_sockets_and_the_others_are_named(sockets: list[socket.socket]) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        arguments = ("--origin", origin.url, "--listen", "fd:second")
        async with serve_with(sockets, "first:second", *arguments) as running:
            assert running.url == f"http://[::1]:{sockets[1].getsockname()[1]}"
            assert await ask(sockets[1]) == b"ok"


async def test_sites_of_a_configuration_file_have_a_socket_each(
    sockets: list[socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "penstock.toml"
    async with ScriptedOrigin(Recorder()) as origin:
        path.write_text(
            f"""
            origin = "{origin.url}"
            listen = "fd:first"
            threads = 2
            [[sites]]
            listen = "fd:second"
            [[sites.routes]]
            prefix = "/film/"
            """
        )
        async with serve_with(sockets, "first:second", "--config", str(path)) as running:
            assert running.url == f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
            await running.wait_for(re.compile(rf"listening on http://\[::1\]:{sockets[1].getsockname()[1]}"))
            assert await ask(sockets[0]) == b"ok"
            assert await ask(sockets[1], "/film/1") == b"ok"
            assert b"NO_ROUTE" in await ask(sockets[1])
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
    assert "nothing listens to" not in running.log()


async def test_the_environment_names_a_socket(
    sockets: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_LISTEN", "fd:second")
    async with serve_with(sockets, "first:second", "--origin", "http://127.0.0.1:9") as running:
        assert running.url == f"http://[::1]:{sockets[1].getsockname()[1]}"
    assert "nothing listens to: first. Name one: --listen fd:first" in running.log()


@pytest.mark.parametrize(
    ("first", "second", "status", "says"),
    [
        ("fd:3", "fd:3", 2, "sites[0].listen: 'fd:3': another site listens there"),
        ("fd:0", "fd:0", 2, "sites[0].listen: 'fd:0': another site listens there"),
        ("fd:web", "fd:3", 1, "LISTEN_FAILED: fd:3: two sites listen to this socket"),
        (
            "127.0.0.1:0",
            "fd:none",
            1,
            "penstock.toml:4:10: listen: 0x50A LISTEN_FAILED: fd:none: the service",
        ),
    ],
)
def test_a_socket_is_for_one_site(
    sockets: list[socket.socket], tmp_path: Path, first: str, second: str, status: int, says: str
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(f'origin = "http://o:1"\nlisten = "{first}"\n[[sites]]\nlisten = "{second}"\n')
    ended = subprocess.run(
        passing(sockets[:1], "--config", str(path)),
        pass_fds=[sockets[0].fileno()],
        env={**os.environ, "LISTEN_FDNAMES": "web"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ended.returncode == status
    assert says in ended.stderr


async def test_a_number_needs_no_service_manager(sockets: list[socket.socket]) -> None:
    arguments = ("--origin", "http://127.0.0.1:9", "--listen", "fd:4")
    async with serve_with(sockets, None, *arguments):
        assert b"CONNECT_FAILED" in await ask(sockets[1])


async def test_a_unix_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "web.sock"))
        async with ScriptedOrigin(Recorder()) as origin:
            arguments = ("--origin", origin.url, "--listen", "fd:web")
            async with serve_with([listener], "web", *arguments) as running:
                assert running.url == f"unix:{tmp_path / 'web.sock'}"
                assert await ask(listener) == b"ok"


async def test_clients_wait_while_the_server_is_restarted(sockets: list[socket.socket]) -> None:
    """No connection is refused: the socket is the service manager's, and outlives the process."""
    async with ScriptedOrigin(Recorder()) as origin:
        arguments = ("--origin", origin.url, "--listen", "fd:3")
        async with serve_with(sockets, None, *arguments) as running:
            assert await ask(sockets[0]) == b"ok"
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
        waiting = asyncio.create_task(ask(sockets[0]))
        async with serve_with(sockets, None, *arguments):
            assert await waiting == b"ok"


async def test_sockets_that_nothing_listens_to_are_named(sockets: list[socket.socket]) -> None:
    arguments = ("--origin", "http://127.0.0.1:9", "--listen", "127.0.0.1:0")
    async with serve_with(sockets, "web:status", *arguments) as running:
        assert "nothing listens to: web, status. Name one: --listen fd:web" in running.log()


@pytest.mark.parametrize(
    ("listen", "says"),
    [
        ("fd:web", r"--listen: 0x50A LISTEN_FAILED: fd:web: the service manager has passed no such socket"),
        ("fd:0", r"--listen: 0x50A LISTEN_FAILED: fd:0: descriptor 0 is no socket"),
        ("fd:99999999999999999999", r"fd:9+: descriptor 9+ is no socket"),
        (
            "fd:999",
            r"--listen: 0x50A LISTEN_FAILED: fd:999: descriptor 999 is no socket: Bad file descriptor",
        ),
    ],
)
def test_a_socket_that_is_not_there(listen: str, says: str) -> None:
    command = [*COMMAND, "serve", "--origin", "http://127.0.0.1:9", "--listen", listen]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert ended.returncode == 1
    assert re.search(says, ended.stderr), ended.stderr


def test_a_datagram_socket_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        command = [*COMMAND, "serve", "--origin", "http://127.0.0.1:9", "--listen", f"fd:{found.fileno()}"]
        ended = subprocess.run(
            command,
            pass_fds=[found.fileno()],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    assert ended.returncode == 1
    assert "is not a stream socket" in ended.stderr


async def test_systemd_socket_activate() -> None:
    program = require("systemd-socket-activate", package="systemd")
    port = free_port()
    async with ScriptedOrigin(Recorder()) as origin:
        serving = (sys.executable, "-m", "penstock", "serve", "--origin", origin.url, "--listen", "fd:web")
        process = await asyncio.create_subprocess_exec(
            *(program, "-l", f"127.0.0.1:{port}", "--fdname=web"),
            *serving,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stderr is not None
            await in_time(process.stderr.readuntil(b"Listening on"))
            # The first connection starts the server, and waits for it.
            client = await RawClient.connect(port)
            assert (await in_time(client.ask("/film"))).body == b"ok"
            client.abort()
            process.send_signal(signal.SIGTERM)
            assert await in_time(process.wait(), "the process has ended") == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
