"""`penstock demo` as a process: it says where it is, relays what it shows, and ends when it is told to."""

import asyncio
import signal
import ssl
from pathlib import Path

import aiohttp
import pytest

from penstock.demo.origin import MEDIA

from .process import running_demo


async def test_the_video_that_comes_through_the_gateway_is_the_recorded_one(demo: str) -> None:
    async with aiohttp.ClientSession(demo) as session:
        async with session.get("live/init.mp4") as response:
            assert await response.read() == (MEDIA / "init.mp4").read_bytes()
        async with session.get("demo/figures") as response:
            figures = await response.json()
    assert figures["bytes_received"] >= (MEDIA / "init.mp4").stat().st_size
    assert figures["pool"]["budget"] == 64 * 1024 * 1024
    assert figures["pool"]["state"] == "open"


async def test_nothing_on_the_page_comes_from_elsewhere(demo: str) -> None:
    async with aiohttp.ClientSession(demo) as session, session.get("") as response:
        assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
        page = await response.text()
    assert "//" not in page


async def test_it_runs_over_tls_with_a_certificate_of_its_own() -> None:
    async with running_demo("--tls") as (process, url):
        assert process.stdout is not None
        async with asyncio.timeout(10):
            while not (line := await process.stdout.readline()).strip().startswith(b"trust"):
                pass
        cert = Path(line.split()[1].decode())
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=cert))
        async with aiohttp.ClientSession(url, connector=connector) as session:
            async with session.get("live/init.mp4") as response:
                assert await response.read() == (MEDIA / "init.mp4").read_bytes()
            async with asyncio.timeout(20):
                while not (await (await session.get("demo/figures")).json())["latency"]["pairs"]:
                    await asyncio.sleep(0.2)
    assert url.startswith("https://")
    assert not cert.parent.exists(), "the key is gone"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
async def test_a_signal_ends_it_cleanly_while_an_answer_is_being_told(number: signal.Signals) -> None:
    async with (
        running_demo() as (process, url),
        aiohttp.ClientSession(url) as session,
        session.get("v1/chat/completions") as response,
    ):
        assert await response.content.readline()
        process.send_signal(number)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
