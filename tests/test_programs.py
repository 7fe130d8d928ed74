"""The programs of the documents and of examples/, each as a process of its own, as a reader would start it."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from penstock.testing import ScriptedOrigin, respond
from support.client import answer
from support.command import free_port
from support.documents import ROOT, blocks
from support.waiting import in_time, until

OK = answer("Content-Length: 2", "Content-Type: text/plain", body=b"ok")
TOKEN = {"Authorization": "Bearer let-me-in"}


@asynccontextmanager
async def running(*command: str, directory: Path, port: int) -> AsyncIterator[str]:
    """A program that serves on `port` until SIGTERM, after which it ends well; the block begins when it accepts."""
    log = directory / "program.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, cwd=directory, stdout=out, stderr=out)
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    await writer.wait_closed()
                    break
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert "Traceback" not in log.read_text()


async def ask(url: str, **options: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, **options) as response:
        return response.status, await response.text()


def written(directory: Path, document: str, lines: tuple[str, ...], origin: str, **said: str) -> None:
    """Write the blocks of `document` that have one of `lines` as a program, main.py, with this origin."""
    found = [block.code for block in blocks(ROOT / document) if any(line in block.code for line in lines)]
    assert len(found) == len(lines), f"{document}: {lines}"
    code = re.sub(r"https?://(origin\.example|10\.0\.0\.5:8080)\b", origin, "\n".join(found))
    for before, after in said.items():
        assert before in code, f"{document} has no {before}"
        code = code.replace(before, after)
    (directory / "main.py").write_text(code)


async def test_the_gateway_of_the_readme(tmp_path: Path) -> None:
    port = free_port()
    async with ScriptedOrigin(respond(OK)) as origin:
        written(tmp_path, "README.md", ("run_app(app)",), origin.url)
        text = (
            (tmp_path / "main.py")
            .read_text()
            .replace("run_app(app)", f"run_app(app, host='127.0.0.1', port={port})")
        )
        (tmp_path / "main.py").write_text(text)
        async with running(sys.executable, "main.py", directory=tmp_path, port=port) as url:
            assert (await ask(f"{url}/live/a"))[0] == 401
            assert await ask(f"{url}/live/a", headers=TOKEN) == (200, "ok")
            assert await ask(f"{url}/other") == (200, "ok")
    (request,) = (request for request in origin.requests if request.target == "/live/a")
    assert request.get("Authorization") is None


async def test_the_application_of_the_server_guide(tmp_path: Path) -> None:
    port = free_port()
    async with ScriptedOrigin(respond(OK)) as origin:
        written(
            tmp_path, "docs/guide/server.md", ("run_app(app, port=8080)",), origin.url, **{"8080": str(port)}
        )
        async with running(sys.executable, "main.py", directory=tmp_path, port=port) as url:
            assert (await ask(f"{url}/live/a"))[0] == 401
            assert await ask(f"{url}/live/a?token=1") == (200, "ok")
            assert await ask(f"{url}/vod/a") == (200, "ok")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_the_gateway_of_the_gateway_guide_on_aiohttps_own_server(tmp_path: Path, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    port = free_port()
    async with ScriptedOrigin(respond(OK)) as origin:
        lines = ("async def watch", 'web.run_app(app, host="0.0.0.0", port=8080)')
        written(tmp_path, "docs/guide/gateway.md", lines, origin.url, **{"8080": str(port)})
        if loop == "uvloop":
            text = "import uvloop\n" + (tmp_path / "main.py").read_text()
            (tmp_path / "main.py").write_text(
                text.replace(f"port={port}", f"port={port}, loop=uvloop.new_event_loop()")
            )
        async with running(sys.executable, "main.py", directory=tmp_path, port=port) as url:
            assert (await ask(f"{url}/live/a"))[0] == 401
            assert await ask(f"{url}/live/a", headers=TOKEN) == (200, "ok")


async def test_the_application_of_the_guide_to_workers(tmp_path: Path) -> None:
    port = free_port()
    async with ScriptedOrigin(respond(OK)) as origin:
        written(tmp_path, "docs/guide/workers.md", ("gateway.native",), origin.url)
        (tmp_path / "main.py").rename(tmp_path / "media.py")
        command = (
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "media:app",
            "--workers",
            "2",
            "--listen",
            f"127.0.0.1:{port}",
        )
        options = ("--memory", "32MiB", "--cache", "8MiB")
        async with running(*command, *options, directory=tmp_path, port=port) as url:
            assert await ask(f"{url}/live/a") == (200, "ok")
            assert await ask(f"{url}/b") == (200, "ok")


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ("docs/guide/origins.md", "origins = Origins("),
        ("docs/guide/access.md", "async def authorise"),
        ("docs/guide/live-events.md", "hub = "),
        ("docs/guide/metering.md", "under_way"),
    ],
)
async def test_applications_of_other_guides_are_served_by_the_command(
    tmp_path: Path, document: str, line: str
) -> None:
    port = free_port()
    found = next(block.code for block in blocks(ROOT / document) if line in block.code)
    async with ScriptedOrigin(respond(OK)) as origin:
        code = re.sub(r"https?://(origin\.example|origin|10\.0\.0\.5:8080)\b", origin.url, found)
        (tmp_path / "main.py").write_text(code)
        (name,) = re.findall(r"^(\w+) = web\.Application\(", code, re.MULTILINE)
        command = (sys.executable, "-m", "penstock", "serve", f"main:{name}", "--listen", f"127.0.0.1:{port}")
        async with running(*command, directory=tmp_path, port=port) as url:
            status, _ = await ask(f"{url}/live/a", headers=TOKEN)
            assert status in {200, 401, 404, 405}


def example(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(ROOT / "examples" / name), *arguments)


async def done(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(50):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert b"Traceback" not in out, out.decode()
    return out.decode()


@pytest.mark.skipif(shutil.which("ffmpeg") is None and not os.environ.get("CI"), reason="needs ffmpeg")
async def test_the_example_of_numpy_frames() -> None:
    out = await done(*example("numpy_frames.py", "--seconds", "1"))
    assert "frame   25: red" in out
    assert "25 frames, 156 MB" in out
    assert "'frame_join': 0" in out


async def test_the_example_of_a_token_stream() -> None:
    out = await done(*example("token_stream.py"))
    assert re.search(r"first byte|ms", out), out


async def test_the_example_of_a_token_gateway() -> None:
    out = await done(*example("token_gateway.py"))
    assert "blue" in out, out


async def test_the_example_of_an_hls_gateway(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *example("relay_hls.py", "--port", str(port)), stdout=out
        )
    try:
        await until(lambda: "relays from" in log.read_text(), "it serves")
        url = f"http://127.0.0.1:{port}/live/video.m3u8"
        assert (await ask(url))[0] == 401
        status, text = await ask(url, headers={"Authorization": "Bearer blue-token"})
        assert (status, text.splitlines()[0]) == (200, "#EXTM3U")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await in_time(process.wait(), "the process has ended")


async def test_the_example_of_live_events(tmp_path: Path) -> None:
    port = free_port()
    async with running(*example("live_events.py", "--port", str(port)), directory=tmp_path, port=port) as url:
        async with (
            asyncio.timeout(20),
            aiohttp.ClientSession() as session,
            session.get(f"{url}/events/scores") as events,
        ):
            assert events.status == 200
            async with session.post(f"{url}/goals", data="1:0") as posted:
                assert posted.status == 200
            lines = [await events.content.readline() for _ in range(3)]
        assert b"event: goal\n" in lines
        assert b"data: 1:0\n" in lines


def test_every_example_is_run() -> None:
    here = Path(__file__).read_text()
    for path in (ROOT / "examples").glob("*.py"):
        assert f'"{path.name}"' in here, f"no test runs {path.name}"
