"""Honest latencies: they count from when requests were due, also while a server stalls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .runs import load

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
# A stall of a second in every ten.
EVERY, FROM, TO = 10.0, 4.0, 5.0
CYCLES = 2


class Stalling(asyncio.Protocol):
    """Answers each request at once, and none during a stall. Remembers what was asked for."""

    begun: float | None = None
    asked: bytearray = bytearray()
    stalls: bool = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.left = b""

    def data_received(self, data: bytes) -> None:
        loop, kind = asyncio.get_running_loop(), type(self)
        kind.asked += data
        *heads, self.left = (self.left + data).split(b"\r\n\r\n")
        for _ in heads:
            now = loop.time()
            if kind.begun is None:
                kind.begun = now
            at = (now - kind.begun) % EVERY
            if kind.stalls and FROM <= at < TO:
                loop.call_later(TO - at, self.transport.write, ANSWER)
            else:
                self.transport.write(ANSWER)


@asynccontextmanager
async def serving(*, stalls: bool) -> AsyncIterator[tuple[str, type[Stalling]]]:
    kind = type("Served", (Stalling,), {"begun": None, "asked": bytearray(), "stalls": stalls})
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", kind


def requests(times: list[float], connections: int, more: str = "") -> str:
    return f"""
[requests.plain]
path = "/{{title}}"
titles = 100
arrivals = {{ curve = "trace", times = {times} }}
connections = {connections}
{more}
[run]
threads = 1
"""


async def test_a_stall_of_a_second_in_ten_is_half_a_second_at_p95_and_nine_tenths_at_p99(
    tmp_path: Path,
) -> None:
    """A hundred requests a second that do not wait for one another: a tenth of them comes in the stall, and their waits
    are as likely to be any time up to a second. A column that begins when requests are sent hides that.

    A slow machine makes waits longer and never shorter: that they are not too long is judged when the generator was in
    time.
    """
    times = [round(at / 100 + 0.005, 3) for at in range(int(100 * EVERY * CYCLES))]
    async with serving(stalls=True) as (url, _):
        ended = await load(
            tmp_path,
            requests(times, 3),
            "--target",
            url,
            "--fail-if",
            "errors > 0",
            duration=5 * EVERY * CYCLES,
        )
    assert ended.status == 0, ended.output
    (found,) = ended.summary["requests"].values()
    due, sent = found["due"], found["sent"]
    assert found["count"] == len(times)
    assert due["p95"] >= 0.5 * 0.97
    assert due["p99"] >= 0.9 * 0.97
    assert sent["max"] >= 0.9, "what was under way has waited"
    if ended.summary["generator"]["lateness"]["p99"] <= 0.005:
        assert due["p95"] <= 0.5 * 1.03
        assert due["p99"] <= 0.9 * 1.03
        assert sent["p99"] < 0.05, "from sent the stall does not show"


@pytest.mark.parametrize("more", ["", "range = { within = 1_000_000, length = 1000 }"])
async def test_the_same_seed_makes_the_same_requests_byte_for_byte(tmp_path: Path, more: str) -> None:
    times = [round(at / 500, 3) for at in range(200)]
    asked = []
    for at, seed in enumerate((7, 7, 8)):
        async with serving(stalls=False) as (url, served):
            ended = await load(
                tmp_path / str(at), requests(times, 1, more), "--target", url, seed=seed, duration=10
            )
            assert ended.summary["sessions"]["started"] == 200, ended.errors
            # The server's name has its port.
            lines = bytes(served.asked).split(b"\r\n")
            asked.append([line for line in lines if not line.startswith(b"host:")])
    assert sum(line.startswith(b"GET ") for line in asked[0]) == 200
    assert asked[0] == asked[1] != asked[2]
