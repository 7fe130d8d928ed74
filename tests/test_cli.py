"""The `penstock` command as a process of its own: what it serves, how it ends, and what it says of wrong arguments."""

import asyncio
import re
import signal
import socket
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.testing import Peer, ScriptedOrigin, respond
from support.client import RawClient, answer
from support.command import Running, refused, run, serve
from support.origins import refusing

OK = answer("Content-Length: 2", body=b"ok")


class Held:
    """An origin that sends half of a body, and the rest when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 8", body=b"half"))
        await self.go_on.wait()
        await peer.send(b"half")
        await peer.request()


async def asked(running: Running) -> RawClient:
    """A client that has the first half."""
    client = await RawClient.connect(running.port)
    await client.get("/held")
    assert (await client.head()).status == 200
    assert await client.reader.readexactly(4) == b"half"
    return client


@pytest.mark.parametrize("lane", ["native", "app"])
async def test_what_is_stored_is_served_without_the_origin(lane: str) -> None:
    requests = 0

    async def once(peer: Peer) -> None:
        nonlocal requests
        while True:
            await peer.request()
            requests += 1
            await peer.send(answer("Cache-Control: max-age=60", "Content-Length: 2", body=b"ok"))

    async with (
        ScriptedOrigin(once) as origin,
        serve("--origin", origin.url, "--cache", "8MiB", "--lane", lane) as running,
    ):
        client = await RawClient.connect(running.port)
        assert [(await client.ask("/a")).body for _ in range(2)] == [b"ok", b"ok"]
        assert requests == 1
        client.abort()


@pytest.mark.parametrize("options", [("--uvloop",), ("--no-uvloop",), ("--lane", "app")], ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_request_finish_and_ends_with_0(
    number: signal.Signals, options: tuple[str, ...]
) -> None:
    held = Held()
    async with ScriptedOrigin(held) as origin, serve("--origin", origin.url, *options) as running:
        client = await asked(running)
        running.process.send_signal(number)
        await running.wait_for(re.compile(rf"{number.name}: stopping, requests have 30 s to finish"))
        await refused(running)
        held.go_on.set()
        assert await client.reader.readexactly(4) == b"half"
        assert await client.rest() == b"", "the connection is closed after it"
        assert await running.ended() == 0
        client.abort()
    assert re.search(r'"GET /held HTTP/1.1" 200 \d+ [\d.]+( route=/)?$', running.log(), re.MULTILINE)
    assert "Traceback" not in running.log()


@pytest.mark.parametrize("lane", ["native", "app"])
async def test_what_has_not_finished_by_the_deadline_is_cut_off(lane: str) -> None:
    async with (
        ScriptedOrigin(Held()) as origin,
        serve("--origin", origin.url, "--drain", "0.2", "--lane", lane) as running,
    ):
        client = await asked(running)
        running.process.terminate()
        with pytest.raises(ConnectionResetError):
            await client.rest()
        assert await running.ended() == 0
        client.abort()
    assert "the time to finish is over: cutting off 1 responses" in running.log()
    assert "Traceback" not in running.log()


async def test_a_second_signal_ends_at_once() -> None:
    async with ScriptedOrigin(Held()) as origin, serve("--origin", origin.url) as running:
        client = await asked(running)
        running.process.terminate()
        await running.wait_for(re.compile("stopping"))
        running.process.terminate()
        assert await running.ended() == 128 + signal.SIGTERM
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.reader.readexactly(4)
        client.abort()


async def test_an_idle_process_ends_without_waiting() -> None:
    async with ScriptedOrigin(respond(OK)) as origin, serve("--origin", origin.url) as running:
        client = await RawClient.connect(running.port)
        assert (await client.ask()).body == b"ok"
        running.process.terminate()
        assert await client.rest() == b""
        assert await running.ended() == 0
        client.abort()


@pytest.mark.parametrize("head", ["GET /a/../b HTTP/1.1", "GET /%2e%2e HTTP/1.1", "OPTIONS * HTTP/1.1"])
async def test_what_no_route_takes_is_refused_without_an_application(head: str) -> None:
    async with ScriptedOrigin(respond(OK)) as origin, serve("--origin", origin.url) as running:
        client = await RawClient.connect(running.port)
        await client.send(f"{head}\r\nHost: a\r\n\r\n".encode())
        answered = await client.head()
        assert answered.status == 404
        assert b'"NO_ROUTE"' in await client.body(answered)
        client.abort()
        assert origin.connections == []


async def test_several_origins_stand_in_for_one_another() -> None:
    async with ScriptedOrigin(respond(OK)) as one:
        with refusing() as two:
            async with serve("--origin", one.url, "--origin", two) as running:
                client = await RawClient.connect(running.port)
                for _ in range(4):
                    assert (await client.ask()).body == b"ok"
                running.process.terminate()
                assert await running.ended() == 0
                client.abort()
        assert len(one.requests) == 4


async def test_a_unix_socket_is_served(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    async with (
        ScriptedOrigin(respond(OK)) as origin,
        serve("--origin", origin.url, "--listen", f"unix:{path}") as running,
    ):
        assert running.url == f"unix:{path}"
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
            session.get("http://gateway/") as response,
        ):
            assert await response.read() == b"ok"


@pytest.mark.parametrize("made", ["app", "make", "make_later"])
async def test_an_application_is_served(tmp_path: Path, made: str) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        (tmp_path / "mine.py").write_text(
            f"""
from aiohttp import web
import penstock.web

def make():
    app = web.Application()
    app.router.add_get("/only", penstock.web.Gateway({origin.url!r}).relay)
    return app

async def make_later():
    return make()

app = make()
"""
        )
        async with serve(f"mine:{made}", "--no-access-log", directory=tmp_path) as running:
            client = await RawClient.connect(running.port)
            assert (await client.ask("/only")).body == b"ok"
            assert (await client.ask("/other")).head.status == 404
            running.process.terminate()
            assert await running.ended() == 0
            client.abort()
    assert "HTTP/1.1" not in running.log()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give either --origin URL or MODULE:APP"),
        (("mine:app", "--origin", "http://o"), "give either --origin URL or MODULE:APP"),
        (("--origin", "o:80"), "Invalid value for '--origin': 'o:80' is no origin: write 'http://o:80'"),
        (("--origin", "http://o/?q"), "it can have a host, a port and a path"),
        (("--origin", "http://o", "--origin", "http://o"), "Invalid value for '--origin':"),
        *(
            (
                ("--origin", "http://o", "--listen", listen),
                f"Invalid value for '--listen': {listen!r} must be HOST:PORT, [ADDRESS]:PORT, a PORT up to 65535",
            )
            for listen in (
                "h:65536",
                "unix:",
                "localhost",
                "::1",
                "::1:80",
                "http://h:80",
                ":",
                "-1",
                "1.5",
                "",
            )
        ),
        (
            ("--origin", "http://o", "--memory", "much"),
            "Invalid value for '--memory': 'much': is no size: write bytes, or text such as '64KiB'",
        ),
        (
            ("--origin", "http://o", "--memory", "1KiB"),
            "Invalid value for '--memory': '1KiB': must be from 256KiB to 256TiB",
        ),
        (("--origin", "http://o", "--cache", "1"), "Invalid value for '--cache': '1': must be from 256KiB"),
        (
            ("--origin", "http://o", "--cache", "1MiB", "--cache-disk", "/tmp", "--cache-disk-size", "x"),
            "Invalid value for '--cache-disk-size': 'x': is no size",
        ),
        (("--origin", "http://o", "--connect-timeout", "soon"), "neither a number of seconds nor 'none'"),
        (
            ("--origin", "http://o", "--total-timeout", "-1"),
            "Invalid value for '--total-timeout': -1.0: must be seconds above 0",
        ),
        (
            ("--origin", "http://o", "--first-byte-timeout", "nan"),
            "Invalid value for '--first-byte-timeout':",
        ),
        (("--origin", "http://o", "--connections", "9" * 30), "Invalid value for '--connections':"),
        (
            ("--origin", "http://o", "--status-listen", "host:80"),
            "Invalid value for '--status-listen': 'host:80': must have an address",
        ),
        (("--origin", "http://o", "--ca", "/no/such/file"), "Invalid value for '--ca': File '/no/such/file'"),
        (("mine:app", "--ca", "/dev/null"), "--ca: only with --origin or --workers"),
        (("--origin", "http://o", "--threads", "0"), "0 is not in the range"),
        (("mine", "--drain", "1"), "'mine' is not MODULE:APP: write mine:app"),
        (("http://o:80",), "'http://o:80' is not MODULE:APP: write --origin http://o:80"),
        (("mine.py",), "'mine.py' is not MODULE:APP: write mine:app"),
        (("./a/mine.py:web",), "is not MODULE:APP: write a.mine:web"),
        (("mine:app-1",), "'app-1' is no name, and no call with literals"),
        (("mine:make(x)",), "'make(x)' is no name, and no call with literals"),
        (("mine:app", "--memory", "1MiB", "--threads", "2"), "--memory, --threads: only with --origin"),
        (("no_such_module:app",), "there is no module 'no_such_module' here or on the path"),
        (("json:app",), "module 'json' has no 'app'"),
        (("json:decoder.nothing",), "'json:decoder.nothing' has no 'nothing'"),
        (("--verbose",), "No such option '--verbose'"),
        (
            ("--origin", "http://o", "--memory", "1MiB", "--cache", "768KiB"),
            "--cache: at most half of --memory",
        ),
        (
            ("--origin", "http://o", "--cache", "1MiB", "--cache-disk", "/tmp"),
            "--cache-disk and --cache-disk-size go together",
        ),
        (
            ("--origin", "http://o", "--cache-disk", "/tmp", "--cache-disk-size", "1GiB"),
            "--cache-disk: only with --cache",
        ),
        (("--origin", "http://o", "--cache", "1MiB", "--control", "/s"), "'/s' is not unix:PATH"),
        (("--origin", "http://o", "--workers", "2"), "--workers: only with MODULE:APP"),
        (("mine:app", "--workers", "0"), "0 is not in the range"),
        (("mine:app", "--workers", "2", "--forwarded"), "--forwarded: only with --origin"),
        (("mine:app", "--workers", "2", "--memory", "much"), "'--memory': 'much': is no size"),
        (
            ("mine:app", "--workers", "2", "--worker-memory", "1KiB"),
            "Invalid value for '--worker-memory': '1KiB': must be",
        ),
        (
            ("mine:app", "--workers", "2", "--worker-hang", "0"),
            "Invalid value for '--worker-hang': 0.0: must be seconds",
        ),
        (("mine:app", "--worker-hang", "5"), "--worker-hang: only with --workers"),
    ],
)
def test_wrong_arguments_end_with_2_and_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    # In this process: nothing is started, and most of the time would be Python's own start.
    result = CliRunner().invoke(main, ["serve", *arguments], prog_name="penstock")
    assert result.exit_code == 2
    assert says in result.output
    assert isinstance(result.exception, SystemExit)


def test_wrong_arguments_end_a_process_with_2_and_one_sentence() -> None:
    result = run("serve", "--origin", "http://o", "--memory", "much")
    assert result.returncode == 2
    assert "Error: Invalid value for '--memory': 'much': is no size" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_that_is_taken_ends_with_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("serve", "--origin", "http://127.0.0.1:1", "--listen", listen)
    assert result.returncode == 1
    assert "LISTEN_FAILED" in result.stderr
    assert "Address already in use" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [(), ("serve",), ("demo",)])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_each_command_has_help(arguments: tuple[str, ...], flag: str) -> None:
    result = run(*arguments, flag)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: ")
    for word in {(): ("serve", "demo", "--version"), ("serve",): ("--origin", "unix:PATH", "--drain")}.get(
        arguments, ("--listen",)
    ):
        assert word in result.stdout


def test_help_offers_only_what_is_accepted() -> None:
    """A browser cannot open a Unix socket, so the demo has none to offer."""
    assert "unix:PATH" not in run("demo", "--help").stdout
    result = run("demo", "--listen", "unix:/tmp/demo.sock")
    assert result.returncode == 2
    assert "'unix:/tmp/demo.sock' must be HOST:PORT: a browser opens no Unix socket" in result.stderr


def test_the_version_is_that_of_the_package() -> None:
    import penstock

    assert run("--version").stdout == f"penstock, version {penstock.__version__}\n"
