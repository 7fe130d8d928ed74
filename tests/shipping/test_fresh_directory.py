"""What a user has of the wheel in a fresh directory of a machine without Rust: each command of the guide runs."""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

import penstock
from penstock.testing import ScriptedOrigin
from penstock.tokens import SignedUrl
from support.command import listening
from support.documents import tables
from support.programs import output_of, require

from .conftest import Fresh, origin

STATUS_PAGES = re.compile(r"status on (\S+)")
PAGE = re.compile(r"open\s+(https?://\S+)")


def test_the_wheel_is_what_is_installed(fresh: Fresh) -> None:
    assert fresh.run("--version").split()[-1] == penstock.__version__
    code = "import penstock, sys; print(penstock.__file__)"
    python = fresh.folder / "venv" / "bin" / "python"
    where = subprocess.run(
        [python, "-c", code], env=fresh.environment, capture_output=True, text=True, check=True
    )
    assert Path(where.stdout).is_relative_to(fresh.folder)


def test_the_doctor_looks_at_the_machine(fresh: Fresh) -> None:
    # 1: a warning, which is the machine's business. 2 would mean that penstock cannot serve on it.
    assert "descriptors" in fresh.run("doctor", "--origin", "http://127.0.0.1:1", statuses=(0, 1))


async def test_the_demo_answers(fresh: Fresh) -> None:
    process = await asyncio.create_subprocess_exec(
        *(fresh.command, "demo", "--listen", "127.0.0.1:0"),
        cwd=fresh.folder,
        env=fresh.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            async for line in process.stdout:
                if found := PAGE.search(line.decode()):
                    break
            else:
                pytest.fail("penstock demo printed no URL")
        curl = require("curl", package="curl")
        assert "<html" in await output_of(curl, "-sSf", found[1])
    finally:
        process.terminate()
        assert await process.wait() == 0


async def test_a_cached_route_is_served_and_counted(fresh: Fresh) -> None:
    curl = require("curl", package="curl")
    async with (
        ScriptedOrigin(origin) as server,
        fresh.serve("--origin", server.url, "--cache", "8MiB", "--status-listen", "127.0.0.1:0") as running,
    ):
        pages = (await running.wait_for(STATUS_PAGES))[1]
        for _ in range(2):
            assert await output_of(curl, "-sSf", f"{running.url}/segment") == "ok"
        metrics = await output_of(curl, "-sSf", f"{pages}metrics")
    assert re.search(r'^penstock_cache_requests_total\{.*result="hit".*\} 1$', metrics, re.MULTILINE), metrics


async def test_ten_lines_of_a_file_serve_a_cached_route_to_clients_with_a_token(fresh: Fresh) -> None:
    curl = require("curl", package="curl")
    secret = "a secret of 32 bytes, from a safe"
    async with ScriptedOrigin(origin) as server:
        # The first file of the guide.
        text = tables()[0].replace("http://10.0.0.5:8080", server.url).replace("0.0.0.0:8080", "127.0.0.1:0")
        assert len(text.split("\n")) <= 12, "ten lines, and two to part them"
        (fresh.folder / "penstock.toml").write_text('status.listen = "127.0.0.1:0"\n' + text)
        (fresh.folder / "hls.key").write_text(secret)
        fresh.run("check", "penstock.toml")
        command = (fresh.command, "serve", "--config", "penstock.toml")
        async with listening(*command, cwd=fresh.folder, env=fresh.environment) as running:
            pages = (await running.wait_for(STATUS_PAGES))[1]
            for _ in range(2):
                signed = SignedUrl(secret).sign("/hls/7/main.m3u8", expires=2**31)
                assert await output_of(curl, "-sSf", f"{running.url}{signed}") == "ok"
            bare = await output_of(
                curl, "-sS", "-w", "%{http_code}", "-o", "/dev/null", f"{running.url}/hls/7/main.m3u8"
            )
            assert bare in {"401", "403"}
            metrics = await output_of(curl, "-sSf", f"{pages}metrics")
    assert re.search(r'^penstock_cache_requests_total\{.*result="hit".*\} 1$', metrics, re.MULTILINE), metrics


def test_the_profile_of_a_server_that_is_not_there_says_so(fresh: Fresh) -> None:
    # 1: nothing answers. That the command is there is what counts.
    fresh.run("profile", "--status-listen", "unix:nowhere.sock", statuses=(1,))
