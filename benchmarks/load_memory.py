"""What a session of `penstock load` takes of memory: `load_memory.py [--sessions 19500]`.

A scenario of thin sessions, whose segments of 4 s have 10 kB, is run with a few of them and with many against the
embedded origin in a process of its own. Reported is the resident memory of the generator's process when most sessions
were active, as the kernel counts it, and by how much it grows for each session more. What the kernel keeps for a socket
is not in it, nor what the report takes after the run. The limit on open files has to allow one for each session.

Results are in results/load_memory.json.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import results
from harness.process_group import resident
from harness.processes import HOST, Process
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "load_memory.json"
FEW = 500
# Open files besides the connections.
SPARE = 200
# Sessions that begin in a second, and seconds after the last one for buffers to fill and connections to become idle.
RATE, REST = 1000, 15
ORIGIN = """
import json, sys
from dataclasses import asdict
from penstock import _native
from penstock.load.scenario import Origin
origin = _native.LoadOrigin(json.dumps(asdict(Origin(bitrates=(20000, 40000, 80000, 160000)))))
print(origin.port, flush=True)
sys.stdin.read()
"""
SCENARIO = """
[hls.viewers]
titles = 200
alpha = 0
arrivals = {{ curve = "flash", rate = 0, crowd = {sessions}, at = 0, within = {within} }}
player = {{ profile = "fixed" }}
watch = {{ median = 3600, sigma = 0 }}

[run]
max_sessions = {sessions}
threads = 1
samples = 0
"""
PROGRESS = re.compile(r"\s*\d+ s of \S+: (\d+) sessions")


@dataclass(frozen=True)
class Row:
    """One run: bytes, and sessions at a time."""

    sessions: int
    active: int
    resident: int


def measure(sessions: int, port: int, runtime: Path) -> Row:
    """Memory of the generator at the last second in which all of its sessions were active."""
    within = max(1, sessions // RATE)
    scenario = runtime / "scenario.toml"
    scenario.write_text(SCENARIO.format(sessions=sessions, within=within))
    told = [
        "--target",
        f"http://{HOST}:{port}",
        "--duration",
        str(within + REST),
        "--out",
        str(runtime / "run"),
    ]
    command = [sys.executable, "-m", "penstock", "load", "run", str(scenario), *told]
    active, found = 0, 0
    with subprocess.Popen(
        ["taskset", "--cpu-list", str(FULL.load_core), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if (seen := PROGRESS.match(line)) and int(seen[1]) >= active:
                active, found = int(seen[1]), round(resident(process.pid) * 2**20)
    if active < sessions * 0.95:
        raise RuntimeError(f"only {active} of {sessions} sessions were active at a time")
    return Row(sessions, active, found)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=19_500, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="2,000 sessions, and no results file")
    arguments = parser.parse_args()
    sessions = 2_000 if arguments.quick else arguments.sessions
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < sessions + SPARE:
        parser.error(f"{sessions} sessions need {sessions + SPARE} open files, and the limit is {hard}")
    # The origin inherits it; the generator raises its own.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="penstock-load-memory-") as name:
        runtime = Path(name)
        origin = Process(
            [sys.executable, "-c", ORIGIN], core=FULL.gateway_core, runtime=runtime, interactive=True
        )
        with origin:
            port = int(origin.stdout.readline())
            rows = [measure(count, port, runtime) for count in (FEW, sessions)]
    few, many = rows
    each = (many.resident - few.resident) / (many.active - few.active)
    for row in rows:
        print(f"{row.active:6} sessions: {row.resident / 1e6:7.1f} MB")
    print(f"for each session more: {each / 1024:.2f} KiB")
    if not arguments.quick:
        results.publish(OUTPUT, rows, bytes_of_a_session=round(each))
    return 0


if __name__ == "__main__":
    sys.exit(main())
