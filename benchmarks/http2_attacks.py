"""What clients of HTTP/2 that send what costs them nothing do to another client.

    http2_attacks.py                    60 s of each flood, 15 s for nginx, about 20 minutes
    http2_attacks.py --seconds 10 --flood "rapid reset"

Four connections at a time flood the gateway, each in the way of one known attack, and are opened anew when they are cut
off. A bystander asks for 16 KiB of an origin 100 times a second on a connection of its own. Reported are how long a
connection could flood until it was cut off, memory before and after, and the bystander's latency, which runs from when
each request was due, beside its latency without the flood. The gateway is pinned to one core; origin, bystander and
flooders share the other, the flooders at the lowest priority. Needs nginx (`sudo apt-get install nginx`). A full run is
kept in results/http2_attacks.json. Exit status: 0, or 1 if the bystander was cut off.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from harness import cpu, results
from harness.fan_out import resident
from harness.gateways import Gateway, Launch
from harness.http2_floods import FLOODS, PATH, SIZE
from harness.processes import HOST, Process, free_port
from harness.secured import write_certificate
from harness.secured_gateways import BY_NAME
from harness.segments import origin_command
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "http2_attacks.json"
GATEWAYS = ("penstock", "nginx")
QUIET_SECONDS = 10.0


@dataclass(frozen=True)
class Row:
    """Latencies and lives in milliseconds, memory in KiB."""

    gateway: str
    flood: str
    seconds: float
    cut_off: int
    life_p50: float | None
    life_worst: float | None
    memory_before: int
    memory_after: int
    cores: float
    quiet_p50: float
    quiet_p99: float
    p50: float
    p99: float


def _milliseconds(seconds: list[float]) -> tuple[float, float]:
    return median(seconds) * 1000, quantiles(seconds, n=100)[98] * 1000


def _process(runtime: Path, name: str, port: int, seconds: float) -> Process:
    command = [sys.executable, "-m", "harness.http2_floods", name, str(port), str(seconds)]
    runtime.mkdir(exist_ok=True)
    return Process(command, core=FULL.load_core, runtime=runtime, interactive=True, together=True)


def _result(process: Process) -> list[float]:
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"it did not end well: {process.diagnosis()}")
    values: list[float] = json.loads(line)
    return values


def measure(gateway: Gateway, flood: str, origin: str, root: Path, seconds: float) -> Row:
    runtime = root / f"{gateway.name}-{flood.replace(' ', '-')}"
    runtime.mkdir()
    port = free_port()
    launch = Launch("secured", f"{HOST}:{port}", origin, runtime)
    with Process(gateway.command(launch), core=FULL.gateway_core, runtime=runtime) as running:
        running.wait_until_listening(port)
        with _process(runtime / "quiet", "bystander", port, QUIET_SECONDS) as bystander:
            quiet = _milliseconds(_result(bystander))
        before, cpu_before = resident(running.pid), cpu.read_tree(running.pid)
        with (
            _process(runtime / "flood", flood, port, seconds) as flooding,
            _process(runtime / "bystander", "bystander", port, seconds) as bystander,
        ):
            attacked = _milliseconds(_result(bystander))
            lives = _result(flooding)
        # What had come by then is dealt with.
        time.sleep(1)
        spent = cpu.elapsed(cpu_before, cpu.read_tree(running.pid))
        after = resident(running.pid)
    return Row(
        gateway=gateway.name,
        flood=flood,
        seconds=seconds,
        cut_off=len(lives),
        life_p50=round(median(lives) * 1000, 1) if lives else None,
        life_worst=round(max(lives) * 1000, 1) if lives else None,
        memory_before=before // 1024,
        memory_after=after // 1024,
        cores=round(spent / seconds, 3),
        quiet_p50=round(quiet[0], 2),
        quiet_p99=round(quiet[1], 2),
        p50=round(attacked[0], 2),
        p99=round(attacked[1], 2),
    )


def show(row: Row) -> None:
    life = "never" if row.life_p50 is None else f"{row.life_p50:.0f} ms, at worst {row.life_worst:.0f}"
    print(
        f"{row.gateway:9} {row.flood:15} cut off {row.cut_off} times, after {life}; memory {row.memory_before} to "
        f"{row.memory_after} KiB; {row.cores:.2f} cores; bystander p50 {row.quiet_p50} to {row.p50} ms, p99 "
        f"{row.quiet_p99} to {row.p99} ms",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of each flood; of nginx's a quarter")
    parser.add_argument("--flood", action="append", choices=FLOODS, help="only these; may be repeated")
    parser.add_argument("--gateway", action="append", choices=GATEWAYS, help="only these; may be repeated")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    rows = []
    with tempfile.TemporaryDirectory(prefix="penstock-floods-") as directory:
        root = Path(directory)
        certificates = root / "origin"
        (certificates / "root").mkdir(parents=True)
        (certificates / "root" / PATH.removeprefix("/")).write_bytes(os.urandom(SIZE))
        write_certificate(certificates)
        port = free_port()
        command = origin_command(certificates, port, certificates / "root", expires="off")
        with Process(command, core=FULL.load_core, runtime=certificates) as origin:
            origin.wait_until_listening(port)
            for flood in arguments.flood or FLOODS:
                for name in arguments.gateway or GATEWAYS:
                    seconds = arguments.seconds if BY_NAME[name].own else arguments.seconds / 4
                    row = measure(BY_NAME[name], flood, f"{HOST}:{port}", root, seconds)
                    show(row)
                    rows.append(row)
    if not (arguments.flood or arguments.gateway):
        results.publish(OUTPUT, rows, seconds=arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
