"""`penstock serve MODULE:APP --workers N` as a process of its own: what it serves, what it survives, how it ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from support.command import LISTENING, Running, run
from support.waiting import in_time, until

from .serving import APP, Serving, workers


async def answered(serving: Serving, pids: set[int]) -> None:
    """Ask until one of these workers has answered."""
    while int((await serving.ask("/who")).split()[0]) not in pids:
        pass


async def test_handlers_answer_in_workers_and_know_their_clients(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        client = await serving.connect()
        reply = await client.ask("/about?a=b", "Content-Length: 0", method="PUT")
        port = client.writer.get_extra_info("sockname")[1]
        assert json.loads(reply.body) == ["127.0.0.1", port, "PUT", "/about?a=b", 0]
        held = await serving.hold()
        # The one that holds nothing, unless the edge takes it for slow: a busy machine may keep it from its core.
        await in_time(answered(serving, serving.alive() - serving.holding()), "the idle worker answers")
        assert serving.running.process.pid not in serving.pids(), (
            "the parent imports nothing of the application"
        )
        serving.release()
        assert await held == (200, f"{serving.holding().pop()} one")


PICKLE = b"\x80\x05\x8c\x19penstock.workers.messages\x94\x8c\x05_made\x93N}\x8c\x08__name__\x8c\x01xs\x86b."
"""Sets the name that a pickle's reader would compare with, so that no later message could be read."""


@pytest.mark.parametrize("on", ["link", "calls"])
@pytest.mark.parametrize(
    "data",
    [
        len(PICKLE).to_bytes(4) + PICKLE,
        b"\xff\xff\xff\xff",
        (100_000).to_bytes(4) + b"[" * 100_000,
        (4).to_bytes(4) + b"9999",
        (58).to_bytes(4) + b'["call",1,"register",[{"penstock.workers.supervisor":{}}]]',
    ],
    ids=["pickle", "too long", "too deep", "a number", "a name"],
)
async def test_a_worker_that_sends_no_message_is_replaced_and_the_parent_serves(
    directory: Path, data: bytes, on: str
) -> None:
    async with workers(directory, app=APP) as serving:
        held = await serving.hold()
        (directory / "crafted").write_bytes(data)
        # The edge does not repeat a POST: one worker sends this. A GET would go to three, one after the other.
        attack = await serving.begin(f"/crafted?on={on}", "Content-Length: 0", method="POST")
        assert (await attack)[0] == 502
        await serving.logged("does not speak as a worker does: killing it")
        await serving.logged("was killed by SIGKILL")
        broken = serving.pids("crafted")
        await until(lambda: len(serving.alive()) == 2 and not serving.alive() & broken, "another serves")
        # The worker that holds it, or another if the edge took that one for slow and chose it for the attack.
        await until(lambda: serving.holding() - broken, "a worker that lives holds the request")
        serving.release()
        status, text = await held
        assert status == 200
        assert {int(text.split()[0])} == serving.holding() - broken, "the other worker has not noticed"
        assert serving.running.log().count("was killed by SIGKILL") == len(broken) == 1
        assert int((await serving.ask("/who")).split()[0]) in serving.alive()
        serving.running.process.send_signal(signal.SIGHUP)
        await serving.logged("generation 2 serves")
        assert (await serving.ask("/who")).endswith("one")
    assert "Traceback" not in serving.running.log()


@pytest.mark.parametrize("options", [("--uvloop",), ("--no-uvloop",)], ids=" ".join)
async def test_sigterm_lets_requests_finish_and_ends_with_0(
    directory: Path, options: tuple[str, ...]
) -> None:
    async with workers(directory, *options, app=APP) as serving:
        client = await serving.connect()
        await client.get("/half")
        head = await client.head()
        assert await client.chunk() == b"half"
        serving.running.process.send_signal(signal.SIGTERM)
        await serving.logged("SIGTERM: stopping, requests have 30 s to finish")
        await serving.logged("shut down")
        serving.release()
        assert (head.status, await client.chunk(), await client.chunk()) == (200, b"rest", b"")
        assert await serving.running.ended() == 0
        assert not serving.alive()
    log = serving.running.log()
    assert log.count("cleaned up") == 2
    assert log.count("ended with status 0") == 2
    assert log.count(' 127.0.0.1 "GET /half HTTP/1.1" 200 23 ') == 1, (
        "with the framing of two chunks and the last"
    )
    assert "Traceback" not in log


async def test_what_has_not_finished_by_the_deadline_is_cut_off(directory: Path) -> None:
    async with workers(directory, "--drain", "0.3", app=APP) as serving:
        client = await serving.connect()
        await client.get("/half")
        await client.head()
        assert await client.chunk() == b"half"
        serving.running.process.terminate()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.chunk()
        assert await serving.running.ended() == 0
    log = serving.running.log()
    assert log.count("cleaned up") == 2
    assert log.count("cancelled") == 1
    assert "Traceback" not in log


async def test_a_second_signal_ends_all_at_once(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        held = await serving.hold()
        serving.running.process.terminate()
        await serving.logged("stopping")
        serving.running.process.terminate()
        assert await serving.running.ended() == 128 + signal.SIGTERM
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            assert (await held)[0] == 503, "it had no head"
        await until(lambda: not serving.alive(), "the workers are gone")


async def test_workers_end_with_their_parent(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        assert len(serving.alive()) == 2
        serving.running.process.kill()
        await in_time(serving.running.process.wait(), "the server has ended")
        await until(lambda: not serving.alive(), "the workers are gone")


async def test_a_request_that_a_killed_worker_was_deciding_is_answered_by_another(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        asked = [await serving.hold() for _ in range(4)]
        killed = min(serving.holding())
        # Two, unless the edge took a worker for slow.
        count = len(list(directory.glob(f"held-*-{killed}")))
        os.kill(killed, signal.SIGKILL)
        await until(
            lambda: len(serving.held()) == 4 + count, "the requests of the killed worker are with others"
        )
        await serving.logged("was killed by SIGKILL")
        serving.release()
        for answer in asked:
            status, text = await answer
            assert status == 200, text
            assert int(text.split()[0]) != killed


async def test_a_request_that_may_have_been_carried_out_is_not_repeated(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        asked = await serving.hold("Content-Length: 0", method="POST")
        os.kill(serving.holding().pop(), signal.SIGKILL)
        status, text = await asked
        assert (status, json.loads(text)["name"]) == (502, "WORKER_GONE")
        assert len(serving.holding()) == 1


async def test_each_worker_is_replaced_when_it_is_killed(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        for _ in range(3):
            for pid in serving.alive():
                os.kill(pid, signal.SIGKILL)
                answers = [await serving.ask("/who") for _ in range(3)]
                assert not [answer for answer in answers if answer.startswith(f"{pid} ")]
                await until(lambda pid=pid: len(serving.alive() - {pid}) == 2, "another one is started")


async def test_sighup_replaces_the_code_and_what_runs_goes_on(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        held = await serving.hold()
        old = serving.alive()
        (directory / "mine.py").write_text(APP.replace('"one"', '"two"'))
        serving.running.process.send_signal(signal.SIGHUP)
        await serving.logged("generation 2 serves")
        assert {(await serving.ask("/who")).split()[1] for _ in range(8)} == {"two"}
        assert not held.done()
        assert serving.holding() <= serving.alive(), "it finishes what it has"
        serving.release()
        assert await held == (200, f"{serving.holding().pop()} one")
        await until(lambda: not old & serving.alive(), "the old ones end")


@pytest.mark.parametrize("fault", ["1 / 0", "app = None", "raise SystemExit(1)"])
async def test_code_that_fails_is_not_taken(directory: Path, fault: str) -> None:
    async with workers(directory, app=APP) as serving:
        before = serving.alive()
        (directory / "mine.py").write_text(fault)
        serving.running.process.send_signal(signal.SIGHUP)
        await serving.logged("the code was not replaced: .* ended with status 1 before it was ready")
        assert (await serving.ask("/who")).split()[1] == "one"
        assert serving.alive() == before


async def test_reloads_cost_no_request(directory: Path) -> None:
    async with workers(directory, app=APP) as serving:
        over = asyncio.Event()

        async def post() -> int:
            count = 0
            client = await serving.connect()
            while not over.is_set():
                await client.get("/about", "Content-Length: 3", method="POST")
                await client.send(b"abc")
                head = await client.head()
                assert head.status == 200, await client.body(head)
                assert json.loads(await client.body(head))[4] == 3
                count += 1
            return count

        asking = [asyncio.create_task(each()) for each in (post, post, post, post)]
        for number in range(2, 6):
            serving.running.process.send_signal(signal.SIGHUP)
            await serving.logged(f"generation {number} serves")
        over.set()
        assert all(await asyncio.gather(*asking))


async def test_a_worker_whose_loop_is_blocked_is_killed(directory: Path) -> None:
    async with workers(directory, "--worker-hang", "1", app=APP) as serving:
        blocked = await serving.begin("/blocks")
        await until(lambda: (directory / "blocked").exists(), "a worker is blocked")
        assert (await serving.ask("/who")).endswith("one"), "the other one answers"
        found = await serving.logged(
            r"process (\d+)\) hangs: its event loop has given no sign for 1\.\d s: killing it"
        )
        assert await blocked == (200, "not again"), "it was repeated"
        await until(lambda: len(serving.alive() - {int(found[1])}) == 2, "another one is started")


def accepts(path: Path) -> bool:
    """Whether a Unix socket takes connections: its file is there before it does."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def test_the_pages_say_when_the_first_workers_serve(directory: Path) -> None:
    (directory / "mine.py").write_text(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + APP
    )
    pages = directory / "pages"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "serve", "mine:app", "--workers", "2"),
        *("--listen", "127.0.0.1:0", "--status-listen", f"unix:{pages}"),
        stderr=asyncio.subprocess.PIPE,
        cwd=directory,
    )
    running = Running(process)
    await until(lambda: accepts(pages), "the pages are there")

    async def ready() -> tuple[int, dict[str, object]]:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(pages))) as session,
            session.get("http://pages/penstock/ready") as response,
        ):
            return response.status, await response.json(content_type=None)

    status, page = await ready()
    assert (status, page["ready"]) == (503, False)
    (directory / "go").touch()
    await running.wait_for(LISTENING)
    status, page = await ready()
    assert (status, page["ready"]) == (200, True), page
    process.terminate()
    assert await running.ended() == 0


async def test_a_unix_socket_is_served(directory: Path) -> None:
    path = directory / "edge.sock"
    async with (
        workers(directory, "--listen", f"unix:{path}", app=APP) as serving,
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.get("http://edge/about") as response,
    ):
        assert serving.running.url == f"unix:{path}"
        assert (await response.json())[0] in {None, ""}


def test_an_address_that_is_taken_ends_with_1(directory: Path) -> None:
    (directory / "mine.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("serve", "mine:app", "--workers", "1", "--listen", listen, directory=directory)
    assert result.returncode == 1
    assert "LISTEN_FAILED" in result.stderr
    assert "ended with status 0" in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_signal_before_the_workers_are_ready_ends_the_start(directory: Path) -> None:
    (directory / "mine.py").write_text("import pathlib, time; pathlib.Path('here').touch(); time.sleep(1000)")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "serve", "mine:app", "--workers", "2"),
        *("--listen", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
        cwd=directory,
    )
    running = Running(process)
    await until((directory / "here").exists, "a worker imports the application")
    process.terminate()
    assert await running.ended() == 0
    assert "listening" not in running.log()
    assert "Traceback" not in running.log()


@pytest.mark.parametrize(
    ("app", "status", "says"),
    [
        ("no_such_module:app", 1, "there is no module 'no_such_module' here or on the path"),
        ("json:app", 1, "module 'json' has no 'app'"),
        ("json:decoder", 1, "json:decoder is a module, and no aiohttp.web.Application"),
        ("mine", 2, "'mine' is not MODULE:APP"),
    ],
)
def test_what_cannot_be_served_ends_the_start(directory: Path, app: str, status: int, says: str) -> None:
    result = run("serve", app, "--workers", "1", "--listen", "127.0.0.1:0", directory=directory)
    assert result.returncode == status
    assert says in result.stderr
    assert "Traceback" not in result.stderr


TOLD = """
from aiohttp import web

def app():
    return web.Application(handler_args={ARGS})
"""


@pytest.mark.parametrize(
    "told", ["keepalive_timeout=3", "max_line_size=65536", "max_field_size=131072", "max_headers=4000"]
)
def test_what_an_application_says_of_connections_is_refused_by_name(directory: Path, told: str) -> None:
    """They are the parent's, which has none of the application's settings."""
    (directory / "told.py").write_text(TOLD.replace("{ARGS}", f"dict({told})"))
    result = run("serve", "told:app", "--workers", "1", "--listen", "127.0.0.1:0", directory=directory)
    assert result.returncode == 1
    assert f"Application(handler_args=...) has {told}" in result.stderr
    assert "serve without --workers" in result.stderr
    assert "Traceback" not in result.stderr


async def test_what_an_application_says_of_connections_may_be_what_they_are(directory: Path) -> None:
    told = "dict(max_headers=10, tcp_keepalive=True)"
    async with workers(directory, app=TOLD.replace("{ARGS}", told)) as serving:
        client = await serving.connect()
        assert (await client.ask("/")).head.status == 404
