"""What a started, idle gateway takes of memory: `memory.py [--starts 5]`.

Each gateway is started, answers one request to an origin, and is left alone until its memory is the same for a second.
Reported are resident, proportional and private memory of its processes, as medians of the starts. Resident memory counts
what programs share, such as libpython, in each of them; proportional memory counts it in parts; private memory does not
count it. Pages of files that nothing else maps are private. Results are in results/memory.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from harness import command, results
from harness.builds import AbsentError
from harness.cpu import descendants
from harness.gateways import BY_NAME, PEERS, Launch, package_versions
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "memory.json"
STARTS = 5
# A relay of these bytes is what each gateway has done.
BODY = bytes(16 * 1024)
# Memory is looked at every so often, and is the same for so long.
LOOK_SECONDS, STILL_SECONDS = 0.25, 1.0
MOST_SECONDS = 20.0
KIB = 1024


@dataclass(frozen=True)
class Memory:
    """Bytes of the processes of one gateway."""

    resident: int
    proportional: int
    private: int


@dataclass(frozen=True)
class Row:
    """One gateway: medians of its starts."""

    gateway: str
    title: str
    processes: int
    resident_mb: float
    proportional_mb: float
    private_mb: float
    starts: tuple[Memory, ...]


def penstock(*arguments: str) -> Callable[[Launch], list[str]]:
    """What starts `penstock serve`, with one engine thread, as the peers have one worker."""

    def start(launch: Launch) -> list[str]:
        package_versions("penstock", "aiohttp", "uvloop")()
        given = [argument.replace("ORIGIN", f"http://{launch.origin}") for argument in arguments]
        serve = [sys.executable, "-m", "penstock", "serve", "--listen", launch.listen, "--no-access-log"]
        return [*serve, *given]

    return start


APP = "memory_app:app"
CASES: dict[str, tuple[str, Callable[[Launch], list[str]]]] = {
    "penstock-native": ("penstock serve --origin", penstock("--origin", "ORIGIN", "--threads", "1")),
    "penstock": ("penstock serve module:app", penstock(APP)),
    "penstock-workers": ("the same, --workers 2", penstock(APP, "--workers", "2", "--threads", "1")),
    # The least that a gateway takes which is an application of aiohttp.
    "aiohttp": ("aiohttp + uvloop, by hand", BY_NAME["aiohttp"].command),
    "nginx": ("nginx", BY_NAME["nginx"].command),
    "haproxy": ("HAProxy", BY_NAME["haproxy"].command),
}


def memory(pids: list[int]) -> Memory:
    """What the kernel counts for these processes."""
    sums = dict.fromkeys(("Rss", "Pss", "Private_Clean", "Private_Dirty"), 0)
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sums:
                sums[name] += int(value.split()[0]) * KIB
    return Memory(sums["Rss"], sums["Pss"], sums["Private_Clean"] + sums["Private_Dirty"])


def settled(pid: int) -> tuple[int, Memory]:
    """How many processes there are, and their memory once it stays as it is.

    Raises:
        TimeoutError: it does not.
    """
    until, last, since = time.monotonic() + MOST_SECONDS, None, 0.0
    while time.monotonic() < until:
        pids = descendants(pid)
        now = memory(pids)
        if last is None or now.resident != last.resident:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= STILL_SECONDS:
            return len(pids), now
        time.sleep(LOOK_SECONDS)
    raise TimeoutError(f"the memory of {pid} has not settled within {MOST_SECONDS:g} s")


def start(command_of: Callable[[Launch], list[str]], origin: int, runtime: Path) -> tuple[int, Memory]:
    """One start, one request, and the memory after it."""
    runtime.mkdir()
    port = free_port()
    launch = Launch("segments", f"{HOST}:{port}", f"{HOST}:{origin}", runtime)
    with Process(command_of(launch), core=FULL.gateway_core, runtime=runtime) as process:
        process.wait_until_listening(port)
        with urlopen(f"http://{HOST}:{port}/segment", timeout=10) as answer:
            if answer.read() != BODY:
                raise RuntimeError("the gateway has sent something else than the origin")
        return settled(process.pid)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The origin."""
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY))
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        # The last is the end of the run, which asyncio would log for each connection.
        writer.close()


async def run(names: list[str], starts: int, runtime: Path) -> tuple[list[Row], dict[str, str]]:
    origin = await asyncio.start_server(answer, HOST, 0)
    rows, absent = [], {}
    async with origin:
        port = origin.sockets[0].getsockname()[1]
        os.environ |= {"ORIGIN": f"http://{HOST}:{port}", "PYTHONPATH": str(PEERS)}
        for name in names:
            title, command_of = CASES[name]
            try:
                found = [
                    await asyncio.to_thread(start, command_of, port, runtime / f"{name}-{number}")
                    for number in range(starts)
                ]
            except AbsentError as error:
                absent[name] = str(error)
                continue
            taken = tuple(each for _, each in found)
            middle = (
                round(median(getattr(each, of) for each in taken) / 1e6, 1)
                for of in ("resident", "proportional", "private")
            )
            rows.append(Row(name, title, found[0][0], *middle, taken))
            command.say(f"{name}: {rows[-1].resident_mb} MB")
    return rows, absent


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=STARTS, help="default: %(default)s")
    parser.add_argument("--case", action="append", choices=CASES, help="only these; may be repeated")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    with tempfile.TemporaryDirectory(prefix="penstock-memory-") as name:
        rows, absent = asyncio.run(run(arguments.case or list(CASES), arguments.starts, Path(name)))
    print(f"{'MB':28}{'processes':>10}{'resident':>10}{'PSS':>8}{'private':>9}")
    for row in rows:
        figures = f"{row.resident_mb:10.1f}{row.proportional_mb:8.1f}{row.private_mb:9.1f}"
        print(f"{row.title:28}{row.processes:10}{figures}")
    for name, why in absent.items():
        print(f"absent: {name}: {why}")
    if not arguments.case:
        gateways = [BY_NAME[name] for name in CASES if name in BY_NAME]
        results.publish(OUTPUT, rows, versions=results.versions(gateways, absent), absent=absent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
