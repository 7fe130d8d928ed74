"""What the window of a stream is worth: `windows.py [--quick]`. Rules beside each other, while some clients read slowly.

Relayed are bodies of 2 MiB by a native route without a cache. Of a hundred clients none, 10 or 90 read 64 KiB a second,
and the others as fast as they can. Rules are windows of one size (`[flow]` with floor and ceiling the same), windows
that grow (the default), and these with reads of 4 to 16 KiB, which an article on buffers proposes for streams by their
rate. Reported are, as medians of the rounds, what the fast clients got, processor time of the gateway by MiB, the most
that the pool held, and what TCP held on the machine at the end. In a last part 200 clients read nothing, of bodies of
256 MiB.

Results are in results/windows.json, and docs/concepts/capacity.md says what came of it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from harness import command, results
from harness.builds import BENCHMARKS
from harness.load import Target
from harness.measurement import BY_NAME
from harness.processes import HOST, Process, free_port
from harness.segments import SegmentLoad, segment_load
from harness.settings import FULL, QUICK, Settings

OUTPUT = results.DIRECTORY / "windows.json"
BODY = BY_NAME["segment-2m"]
PATH = f"/{BODY.name}.m4s"
# What the clients that read nothing ask for: more than the kernel holds for a connection.
LARGE, LARGE_BYTES = "large.bin", 256 << 20
CLIENTS, SLOW = 100, (0, 10, 90)
STALLED = 200
SLOW_RATE = 64 << 10
ROUNDS = 3
MIB = 1 << 20
PEAK = re.compile(r"^penstock_pool_peak_bytes (\S+)$", re.MULTILINE)
TCP_PAGES = re.compile(r"^TCP: .* mem (\d+)$", re.MULTILINE)


def fixed(size: str) -> str:
    return f'[flow]\nfloor = "{size}"\nceiling = "{size}"\n'


RULES = {
    "grows, 64 KiB to 1 MiB": "",
    "64 KiB": fixed("64KiB"),
    "256 KiB": fixed("256KiB"),
    "1 MiB": fixed("1MiB"),
    "4 MiB": fixed("4MiB"),
    "grows, reads of 4 to 16 KiB": '[reads]\nleast = "4KiB"\nunknown = "4KiB"\nknown = "4KiB"\nmost = "16KiB"\n',
}


@dataclass(frozen=True)
class Row:
    """One round of a rule."""

    rule: str
    clients: int
    slow: int
    rate: int
    """Bytes a second that each of the slow clients reads."""
    fast_mib_per_s: float | None
    cpu_ms_per_mib: float | None
    pool_mib: float
    """At most, since the gateway began."""
    tcp_mib: float
    """Of the whole machine: both sides of all connections, above what there was before."""
    errors: tuple[str, ...]


def tcp() -> int:
    """Bytes that TCP holds."""
    found = TCP_PAGES.search(Path("/proc/net/sockstat").read_text())
    return int(found[1]) * os.sysconf("SC_PAGESIZE") if found else 0


@contextmanager
def gateway(rule: str, origin: str, settings: Settings, runtime: Path) -> Iterator[tuple[Process, int, int]]:
    """The gateway, its port and that of its status page."""
    port, status = free_port(), free_port()
    file = runtime / "penstock.toml"
    file.write_text(
        f'listen = "{HOST}:{port}"\norigin = "http://{origin}"\nmemory = "1GiB"\nthreads = 1\naccess_log = false\n'
        f'status.listen = "{HOST}:{status}"\n{RULES[rule]}'
    )
    serve = [sys.executable, "-m", "penstock", "serve", "--config", str(file)]
    with Process(serve, core=settings.gateway_core, runtime=runtime) as process:
        process.wait_until_listening(port)
        yield process, port, status


@contextmanager
def readers(port: int, count: int, rate: int, settings: Settings, runtime: Path) -> Iterator[None]:
    """So many clients that have begun to read slowly."""
    if not count:
        yield
        return
    path = PATH if rate else f"/{LARGE}"
    program = [
        sys.executable,
        str(BENCHMARKS / "harness" / "slow_readers.py"),
        str(port),
        path,
        str(count),
        str(rate),
    ]
    with Process(program, core=settings.load_core, runtime=runtime, interactive=True) as running:
        if running.stdout.readline().strip() != "ready":
            raise RuntimeError(running.diagnosis())
        yield


def measure(rule: str, slow: int, origin: int, settings: Settings, runtime: Path) -> Row:
    """One round, in a gateway of its own."""
    runtime.mkdir()
    clients, rate = (STALLED, 0) if slow == STALLED else (CLIENTS, SLOW_RATE)
    load = SegmentLoad(replace(settings, connections=clients - slow), origin, runtime)
    before = tcp()
    with (
        gateway(rule, load.origin, settings, runtime) as (process, port, status),
        readers(port, slow, rate, settings, runtime),
    ):
        fast, cpu, errors = None, None, ()
        if slow < clients:
            found = load.measure(Target(port, process), BODY)
            fast = found.bytes / MIB / found.seconds
            cpu = found.cpu_seconds * 1e3 / (found.bytes / MIB) if found.cpu_seconds else None
            errors = found.errors
        held = tcp() - before
        with urlopen(f"http://{HOST}:{status}/metrics", timeout=10) as answer:
            peak = PEAK.search(answer.read().decode())
        assert peak is not None, "the gateway has no figure of its pool"
    return Row(rule, clients, slow, rate, fast, cpu, float(peak[1]) / MIB, held / MIB, errors)


COLUMNS = {
    "fast_mib_per_s": ("MiB/s", 9),
    "cpu_ms_per_mib": ("ms/MiB", 8),
    "pool_mib": ("pool", 8),
    "tcp_mib": ("TCP", 8),
}


def middle(rows: list[Row], name: str) -> str:
    values = [value for row in rows if (value := getattr(row, name)) is not None]
    return f"{median(values):.2f}" if values else "–"


def show(rows: list[Row]) -> None:
    heads = "".join(f"{head:>{width}}" for head, width in COLUMNS.values())
    print(f"{'rule':30}{'clients':>9}{'slow':>6}{heads}")
    for rule, slow in dict.fromkeys((row.rule, row.slow) for row in rows):
        of_it = [row for row in rows if (row.rule, row.slow) == (rule, slow)]
        cells = "".join(f"{middle(of_it, name):>{width}}" for name, (_, width) in COLUMNS.items())
        print(f"{rule:30}{of_it[0].clients:9}{slow:6}{cells}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round, and no results file")
    quick = parser.parse_args().quick
    settings, rounds = (QUICK, 1) if quick else (FULL, ROUNDS)
    rows: list[Row] = []
    os.sched_setaffinity(0, {settings.load_core})
    with (
        tempfile.TemporaryDirectory(prefix="penstock-windows-") as name,
        segment_load(settings, Path(name)) as load,
    ):
        with (Path(name) / "root" / LARGE).open("wb") as file:
            file.truncate(LARGE_BYTES)
        origin = int(load.origin.rpartition(":")[2])
        for number in range(rounds):
            for slow in (*SLOW, STALLED):
                for at, rule in enumerate(RULES):
                    rows.append(measure(rule, slow, origin, settings, Path(name) / f"{number}-{slow}-{at}"))
            command.say(f"round {number + 1} of {rounds}")
    show(rows)
    for row in rows:
        for error in row.errors:
            print(f"{row.rule}, {row.slow} slow: {error}")
    if not quick:
        results.publish(OUTPUT, rows, method=" ".join((__doc__ or "").split()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
