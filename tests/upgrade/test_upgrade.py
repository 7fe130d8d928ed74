"""Another process takes the place of `penstock serve`: SIGUSR2, `penstock upgrade`."""

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import stat
from pathlib import Path

import pytest
import trustme

from penstock.testing import Peer, ScriptedOrigin
from support.certificates import written
from support.client import RawClient, answer
from support.command import asked, free_port
from support.feeds import Feed, begin
from support.origins import Recorder
from support.scraping import Pages
from support.upgrading import FAILED, gone, serving
from support.waiting import in_time, until

APP = """
import os
from aiohttp import web

async def process(request):
    return web.Response(text=f"{os.getpid()} first")

def app():
    app = web.Application()
    app.router.add_get("/", process)
    return app
"""


async def half_a_film(peer: Peer) -> None:
    while True:
        request = await peer.request()
        if request.target == "/film":
            await peer.send(answer("Content-Length: 8", body=b"half"))
            await peer.stall()
        await peer.send(answer("Content-Length: 2", body=b"ok"))


async def test_a_new_process_serves_and_the_one_before_ends_what_it_has_begun() -> None:
    async with ScriptedOrigin(half_a_film) as origin, serving("--origin", origin.url) as line:
        watching = await line.connect()
        await watching.get("/film")
        assert (await watching.head()).status == 200
        assert await watching.reader.readexactly(4) == b"half"
        first = line.newest
        assert await line.upgrade() != first
        assert await line.ask() == b"ok"
        await line.first.wait_for(re.compile("waiting for 1 responses"))
        watching.abort()
        await line.ended(first)
        assert line.first.process.returncode == 0
        assert await line.ask() == b"ok"


@pytest.mark.parametrize("way", ["app", "workers"])
async def test_a_connection_stays_open_from_process_to_process(tmp_path: Path, way: str) -> None:
    (tmp_path / "mine.py").write_text(APP)
    more = ("--workers", "1") if way == "workers" else ()
    async with serving("mine:app", *more, directory=tmp_path) as line:
        client = await line.connect()
        answers = {(await client.ask()).body}
        for _ in range(3):
            first = line.newest
            await line.upgrade()
            await line.ended(first)
            answers.add((await in_time(client.ask())).body)
        assert len(answers) == 4, "each process has answered"
        client.abort()


async def test_a_connection_changes_processes_between_two_responses() -> None:
    go = asyncio.Event()

    async def origin(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(answer("Content-Length: 8", body=b"half"))
            if request.target == "/film":
                await go.wait()
            await peer.send(b"rest")

    async with ScriptedOrigin(origin) as server, serving("--origin", server.url) as line:
        client = await line.connect()
        await client.get("/film")
        head = await client.head()
        assert head.one("Connection") is None
        assert await client.reader.readexactly(4) == b"half"
        # Both wait in the kernel, for whichever process reads next.
        await client.get("/next")
        await client.get("/last")
        first = line.newest
        await line.upgrade()
        assert await line.ask() == b"halfrest", "the next process serves"
        os.kill(first, 0)
        go.set()
        assert await client.reader.readexactly(4) == b"rest"
        for _ in range(2):
            head = await client.head()
            body = await client.body(head)
            assert body == b"halfrest", body
        await line.ended(first)
        assert (await in_time(client.ask("/after"))).body == b"halfrest"
        client.abort()


async def test_connections_over_tls_are_closed(tmp_path: Path) -> None:
    authority = trustme.CA()
    cert, key = map(str, written(authority, tmp_path, "gateway.test"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with (
        ScriptedOrigin(Recorder()) as origin,
        serving("--origin", origin.url, "--tls-cert", cert, "--tls-key", key) as line,
    ):
        client = RawClient(
            *await asyncio.open_connection(
                "127.0.0.1", line.port, ssl=context, server_hostname="gateway.test"
            )
        )
        assert (await client.ask("/one")).body == b"ok"
        first = line.newest
        await line.upgrade()
        assert await in_time(client.rest()) == b"", "a clean end between two responses"
        client.abort()
        await line.ended(first)


async def test_hundreds_of_idle_connections_stay(tmp_path: Path) -> None:
    async with ScriptedOrigin(Recorder()) as origin, serving("--origin", origin.url) as line:
        clients = [await line.connect() for _ in range(300)]
        # Some have had no response yet.
        for client in clients[::2]:
            assert (await client.ask("/one")).body == b"ok"
        for _ in range(2):
            first = line.newest
            await line.upgrade()
            await line.ended(first)
        for client in clients:
            assert (await in_time(client.ask("/two"))).body == b"ok"
            client.abort()


@pytest.mark.parametrize("way", ["app", "workers"])
async def test_newer_code_of_an_application_serves(tmp_path: Path, way: str) -> None:
    module = tmp_path / "mine.py"
    module.write_text(APP)
    more = ("--workers", "1") if way == "workers" else ()
    async with serving("mine:app", *more, directory=tmp_path) as line:
        before = (await line.ask()).split()
        assert before[1] == b"first"
        module.write_text(APP.replace("first", "second"))
        first = line.newest
        await line.upgrade()
        after = (await line.ask()).split()
        assert after[1] == b"second"
        assert before[0] != after[0]
        await line.ended(first)


async def test_a_process_that_cannot_serve_changes_nothing(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serving("mine:app", directory=tmp_path) as line:
        module.write_text("this is no Python")
        kept = await line.connect()
        assert (await kept.ask()).body.endswith(b"first")
        os.kill(line.newest, signal.SIGUSR2)
        await line.first.wait_for(FAILED)
        assert "ended with status 1 before it was ready" in line.first.log()
        assert (await kept.ask()).body.endswith(b"first"), "the connection has stayed"
        assert (await line.ask()).endswith(b"first")
        kept.abort()
        module.write_text(APP.replace("first", "mended"))
        await line.upgrade()
        assert (await line.ask()).endswith(b"mended")


async def test_no_connection_is_refused_and_no_request_fails() -> None:
    async with ScriptedOrigin(Recorder()) as origin, serving("--origin", origin.url) as line:
        over = asyncio.Event()

        async def ask() -> int:
            asked = 0
            while not over.is_set():
                assert await line.ask("/segment") == b"ok"
                asked += 1
            return asked

        clients = [asyncio.create_task(ask()) for _ in range(4)]
        for _ in range(5):
            await line.upgrade()
        over.set()
        assert all(await in_time(asyncio.gather(*clients)))
        for process in line.processes[:-1]:
            await line.ended(process)


async def test_sites_status_pages_and_the_redirect_stay_where_they_are(tmp_path: Path) -> None:
    cert, key = map(str, written(trustme.CA(), tmp_path, "localhost"))
    port, status = free_port(), free_port()
    path = tmp_path / "penstock.toml"
    text = f"""
        origin = "ORIGIN"
        listen = "127.0.0.1:0"
        status.listen = "127.0.0.1:{status}"
        [[sites]]
        listen = "127.0.0.1:{port}"
        tls = {{ cert = "{cert}", key = "{key}" }}
        [[sites]]
        listen = "unix:{tmp_path}/web.sock"
        """
    async with ScriptedOrigin(Recorder()) as origin:
        path.write_text(text.replace("ORIGIN", origin.url))
        async with serving("--config", str(path)) as line:
            first = line.newest
            await line.upgrade()
            await line.ended(first)
            assert await line.ask() == b"ok"
            other = RawClient(*await asyncio.open_unix_connection(f"{tmp_path}/web.sock"))
            assert (await other.ask()).body == b"ok"
            other.abort()
            assert (await Pages(f"http://127.0.0.1:{status}").check("ready"))[0] == 200
            (await RawClient.connect(port)).abort()


async def test_what_the_newer_configuration_does_not_listen_to_is_closed(tmp_path: Path) -> None:
    old, new = free_port(), free_port()
    path = tmp_path / "penstock.toml"
    async with ScriptedOrigin(Recorder()) as origin:
        text = f'origin = "{origin.url}"\nlisten = "127.0.0.1:0"\n[[sites]]\nlisten = "127.0.0.1:{old}"\n'
        path.write_text(text)
        async with serving("--config", str(path)) as line:
            path.write_text(text.replace(str(old), str(new)))
            first = line.newest
            await line.upgrade()
            await line.ended(first)
            (await RawClient.connect(new)).abort()
            with pytest.raises(ConnectionRefusedError):
                await RawClient.connect(old)


async def test_an_address_that_is_taken_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    async with ScriptedOrigin(Recorder()) as origin:
        text = f'origin = "{origin.url}"\nlisten = "127.0.0.1:0"\n'
        path.write_text(text)
        async with serving("--config", str(path)) as line:
            path.write_text(f'{text}[[sites]]\nlisten = "127.0.0.1:{origin.port}"\n')
            os.kill(line.newest, signal.SIGUSR2)
            await line.first.wait_for(FAILED)
            assert "LISTEN_FAILED" in line.first.log()
            assert await line.ask() == b"ok"


async def test_the_command_upgrades_and_the_control_socket_goes_on(tmp_path: Path) -> None:
    control = f"unix:{tmp_path}/control"
    async with (
        ScriptedOrigin(Recorder()) as origin,
        serving("--origin", origin.url, "--control", control, "--cache", "8MiB") as line,
    ):
        for _ in range(2):
            first = line.newest
            (status, out, err), number = await asyncio.gather(
                asked("upgrade", "--control", control), line.upgraded()
            )
            assert (status, out, err) == (0, f"process {number} serves\n", "")
            await line.ended(first)
            assert stat.S_ISSOCK((tmp_path / "control").stat().st_mode)
            assert json.loads((await asked("cache", "stats", "--json", "--control", control))[1])["keys"] == 0
        os.kill(line.newest, signal.SIGTERM)
        await gone(line.newest)
        assert not (tmp_path / "control").exists()


async def test_the_command_says_why_there_was_no_upgrade(tmp_path: Path) -> None:
    control = f"unix:{tmp_path}/control"
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serving("mine:app", "--control", control, directory=tmp_path) as line:
        module.write_text("this is no Python")
        status, out, err = await asked("upgrade", "--control", control)
        assert (status, out) == (1, "")
        assert "the upgrade has failed, and this process serves on: process" in err
        assert (await line.ask()).endswith(b"first")


async def test_there_is_one_upgrade_at_a_time(tmp_path: Path) -> None:
    control = f"unix:{tmp_path}/control"
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serving("mine:app", "--control", control, directory=tmp_path) as line:
        # It waits until it is let go.
        os.mkfifo(tmp_path / "gate")
        module.write_text(f"open({str(tmp_path / 'gate')!r}).read()\n{APP}")
        first = asyncio.create_task(asked("upgrade", "--control", control))
        await line.first.wait_for(re.compile("starting the next process"))
        status, _, err = await asked("upgrade", "--control", control)
        assert status == 1
        assert "an upgrade is under way already" in err
        (tmp_path / "gate").write_text("go")
        await line.upgraded()
        assert (await first)[0] == 0


async def test_a_stop_gives_up_the_upgrade_that_is_under_way(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serving("mine:app", directory=tmp_path) as line:
        os.mkfifo(tmp_path / "gate")
        module.write_text(f"open({str(tmp_path / 'gate')!r}).read()\n{APP}")
        os.kill(line.newest, signal.SIGUSR2)
        await line.first.wait_for(re.compile("starting the next process"))
        # It has begun to wait, and is to be seen in the list of processes.
        gate = await asyncio.to_thread(open, tmp_path / "gate", "w")
        next_process = await child_of(line.newest)
        os.kill(line.newest, signal.SIGTERM)
        await line.ended(line.newest)
        await gone(next_process)
        gate.close()


async def child_of(process: int) -> int:
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and f"\nPPid:\t{process}\n" in (each / "status").read_text():
            return int(each.name)
    raise AssertionError(f"process {process} has no child")


async def test_a_process_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(APP)
    async with serving("mine:app", "--upgrade-timeout", "0.5", directory=tmp_path) as line:
        os.mkfifo(tmp_path / "gate")
        module.write_text(f"open({str(tmp_path / 'gate')!r}).read()\n{APP}")
        os.kill(line.newest, signal.SIGUSR2)
        await line.first.wait_for(FAILED)
        assert "not ready within 0.5 s (--upgrade-timeout)" in line.first.log()
        assert (await line.ask()).endswith(b"first")


async def test_what_is_cached_on_disk_is_there_afterwards(tmp_path: Path) -> None:
    requests = 0

    async def origin(peer: Peer) -> None:
        nonlocal requests
        while True:
            await peer.request()
            requests += 1
            await peer.send(answer("Cache-Control: max-age=600", "Content-Length: 5", body=b"body!"))

    disk = ("--cache", "8MiB", "--cache-disk", str(tmp_path / "cache"), "--cache-disk-size", "64MiB")
    control = f"unix:{tmp_path}/control"
    async with (
        ScriptedOrigin(origin) as server,
        serving("--origin", server.url, *disk, "--control", control) as line,
    ):
        for number in range(8):
            assert await line.ask(f"/{number}") == b"body!"
        for _ in range(2):
            first = line.newest
            await line.upgrade()
            await line.ended(first)
            await listed(control, 8)
            for number in range(8):
                assert await line.ask(f"/{number}") == b"body!"
        assert requests == 8, "nothing was fetched again"


async def listed(control: str, count: int) -> None:
    """Wait until the cache has read its directory."""
    async with asyncio.timeout(30):
        while True:
            _, out, _ = await asked("cache", "stats", "--json", "--control", control)
            if json.loads(out)["disk_objects"] == count:
                return


async def test_a_signal_while_it_stops_does_nothing(tmp_path: Path) -> None:
    async with ScriptedOrigin(half_a_film) as origin, serving("--origin", origin.url) as line:
        watching = await line.connect()
        await watching.get("/film")
        await watching.head()
        first = line.newest
        await line.upgrade()
        os.kill(first, signal.SIGUSR2)
        await line.first.wait_for(re.compile("this process is stopping already"))
        # What stops a service stops all of its processes, and ends nothing at once.
        os.kill(first, signal.SIGTERM)
        await line.first.wait_for(re.compile("SIGTERM: already stopping"))
        watching.abort()
        await line.ended(first)
        assert line.first.process.returncode == 0


async def test_the_variable_that_is_set_by_mistake_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_UPGRADE_SOCKET", "77")
    status, _, err = await asked("serve", "--origin", "http://127.0.0.1:9", "--listen", "127.0.0.1:0")
    assert status == 1
    assert "PENSTOCK_UPGRADE_SOCKET is '77', which is no socket" in err


async def test_what_the_cache_has_in_memory_is_there_in_the_next_process() -> None:
    origin_asked: list[str] = []

    async def script(peer: Peer) -> None:
        while True:
            origin_asked.append((await peer.request()).target)
            await peer.send(answer("Cache-Control: max-age=3600", "Content-Length: 20000") + bytes(20_000))

    async with (
        ScriptedOrigin(script) as origin,
        serving("--origin", origin.url, "--cache", "16MiB") as line,
    ):
        targets = [f"/{number}" for number in range(50)]
        for target in targets:
            await line.ask(target)
        for _ in range(2):
            first = line.newest
            await line.upgrade()
            # At once: it has moved by then.
            for target in targets:
                assert len(await line.ask(target)) == 20_000
            await line.ended(first)
        assert origin_asked == targets
        assert "upgrade: 50 stored responses have moved" in line.first.log()


async def test_a_process_that_drains_gives_the_memory_of_its_cache_back() -> None:
    """A stream that stays there keeps the process, for hours if need be."""
    feed, size = Feed(), 1 << 20

    async def script(peer: Peer) -> None:
        request = await peer.request()
        if request.target == "/live":
            await feed.begin(peer)
            return
        await peer.send(answer("Cache-Control: max-age=3600", f"Content-Length: {size}") + bytes(size))

    def pages(process: int) -> int:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async with (
        ScriptedOrigin(script) as origin,
        serving("--origin", origin.url, "--memory", "256MiB", "--cache", "96MiB") as line,
    ):
        client = await begin(line.port, feed, "POST")
        for number in range(64):
            await line.ask(f"/{number}")
        first, resident = line.newest, pages(line.newest)
        # Half an event: it stays.
        await feed.put(0, b"data: 2")
        await line.upgrade()
        await until(lambda: pages(first) < resident - 48 * size, "its memory is the system's")
        await feed.put(0, b"\n\n")
        assert await in_time(client.chunk()) == b"data: 2\n\n"
        await feed.end(0)
        client.abort()
        await line.ended(first)


async def test_clients_of_tls_resume_their_sessions_in_the_next_process(tmp_path: Path) -> None:
    authority = trustme.CA()
    cert, key = map(str, written(authority, tmp_path, "localhost"))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def ask(port: int, session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession | None]:
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while secure.recv(65536):
                pass
            return bool(secure.session_reused), secure.session

    async with (
        ScriptedOrigin(Recorder()) as origin,
        serving("--origin", origin.url, "--tls-cert", cert, "--tls-key", key) as line,
    ):
        is_resumed, session = await asyncio.to_thread(ask, line.port, None)
        assert not is_resumed
        for _ in range(2):
            first = line.newest
            await line.upgrade()
            await line.ended(first)
            is_resumed, session = await asyncio.to_thread(ask, line.port, session)
            assert is_resumed
