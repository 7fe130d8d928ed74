"""The scripts of contrib/bpftrace attach and count what happens. They need root, and a kernel that allows it."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest

import penstock
from penstock.testing import ScriptedOrigin
from support.documents import ROOT
from support.origins import Recorder
from support.programs import require
from support.waiting import DEADLINE, in_time

SCRIPTS = ROOT / "contrib" / "bpftrace"
# Debian's bpftrace looks in the older of the two places. The mounts are those of this process alone.
MOUNTED = (
    "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null;"
    "mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null;"
    'exec "$@"'
)


@pytest.fixture(scope="module")
def command() -> tuple[str, ...]:
    """What runs bpftrace; a kernel that forbids it skips the test, also in CI."""
    if os.geteuid() != 0:
        pytest.skip("bpftrace needs root")
    program = require("bpftrace", package="bpftrace")
    unshare = shutil.which("unshare")
    assert unshare
    command = (unshare, "-m", "sh", "-c", MOUNTED, "sh", program)
    probe = "tracepoint:sched:sched_switch { exit(); }"
    try:
        tried = subprocess.run(
            [*command, "-e", probe], capture_output=True, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("bpftrace traces nothing on this kernel")
    if tried.returncode != 0:
        pytest.skip(f"this kernel does not let bpftrace trace: {tried.stderr.strip()[-200:]}")
    return command


class Tracing:
    """A script that has attached."""

    def __init__(self, process: asyncio.subprocess.Process, output: str) -> None:
        self._process = process
        self.output = output

    async def counts(self, pattern: str, provoke: Callable[[], Awaitable[object]]) -> None:
        """Provoke events until the script has counted one of them."""

        async def look() -> None:
            while not re.search(pattern, self.output):
                await provoke()
                # It prints its maps.
                self._process.send_signal(signal.SIGUSR1)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.3):
                        while not re.search(pattern, self.output):
                            await self.read()

        await in_time(look(), f"{pattern} in {self.output}")

    async def read(self) -> None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"bpftrace has ended: {self.output}"
        self.output += line.decode()


async def interrupted(process: asyncio.subprocess.Process) -> None:
    """As by CTRL+C, and again: bpftrace does not hear one that comes while it prints its maps."""
    ended = asyncio.ensure_future(process.communicate())
    while not ended.done():
        process.send_signal(signal.SIGINT)
        await asyncio.wait([ended], timeout=1)


@asynccontextmanager
async def tracing(command: tuple[str, ...], script: str) -> AsyncIterator[Tracing]:
    process = await asyncio.create_subprocess_exec(
        *(*command, str(SCRIPTS / script)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    found = Tracing(process, "")
    try:

        async def begin() -> None:
            while "CTRL+C" not in found.output:
                await found.read()

        await in_time(begin(), "the script begins")
        yield found
        await in_time(interrupted(process), "the script ends")
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def full_listener(stack: ExitStack) -> tuple[str, int]:
    """The address of a listener whose queue is full with one connection, which is in it."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address: tuple[str, int] = listener.getsockname()
    stack.enter_context(socket.create_connection(address))
    return address


async def test_full_accept_queues_are_counted_by_port(command: tuple[str, ...]) -> None:
    ports = []
    with ExitStack() as stack:

        async def provoke() -> None:
            ports.append(full_listener(stack)[1])

        async with tracing(command, "accept-queue.bt") as script:
            await script.counts(r"@full\[\d+\]: [1-9]", provoke)
            counted = re.findall(r"@full\[(\d+)\]", script.output)
    assert {int(port) for port in counted} & set(ports)


async def test_attempts_to_connect_that_are_repeated_are_counted_by_port(command: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        address = full_listener(stack)

        async def provoke() -> None:
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
            # The kernel repeats it after a second. tcpi_retransmits is the third byte.
            while not client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[2]:
                await asyncio.sleep(0.02)

        async with tracing(command, "retransmits.bt") as script:
            await script.counts(rf"@connecting\[{address[1]}\]: [1-9]", provoke)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("off-cpu.bt", r"@asleep_us\[\d+\]: *\n\["),
        ("write-latency.bt", r"@write_us\[penstock-engine\]: *\n\["),
    ],
)
async def test_engine_threads_are_found_by_their_names(
    command: tuple[str, ...], name: str, pattern: str
) -> None:
    async with ScriptedOrigin(Recorder()) as origin, penstock.Engine(memory="4MiB", threads=1) as engine:

        async def provoke() -> None:
            async with engine.get(origin.url) as response:
                assert b"".join([bytes(frame) async for frame in response]) == b"ok"

        async with tracing(command, name) as script:
            await script.counts(pattern, provoke)


def test_the_scripts_need_no_kprobes() -> None:
    scripts = list(SCRIPTS.glob("*.bt"))
    assert len(scripts) == 4
    readme = (SCRIPTS / "README.md").read_text()
    for script in scripts:
        probes = re.findall(r"^(\w+):\w+:\w+", script.read_text(), re.MULTILINE)
        assert probes
        assert set(probes) == {"tracepoint"}, script.name
        assert f"`{script.name}`" in readme
