"""What `penstock load` costs beside k6: `load_peers.py [--quick]`.

Both get the same job: viewers that fetch a file of 2 MB by HTTP/1.1 every 8 seconds, each on a connection of its own,
from nginx with sendfile. The generator is pinned to one core, nginx to the other. k6 runs twice: as it does by itself,
which keeps each body for the script, and with `discardResponseBodies`, its best way. `penstock load` has players with a
buffer of one segment, which it plays, counts and reports.

Reported are the most resident memory of the generator's process and its processor time by gigabyte, both by the kernel
(getrusage(2)) and over the whole run, its beginning and its report included. Rounds are interleaved; the table has the
best one. A round whose generator fetched less than 95 % of what the job asks for is void.

Needs nginx and k6 (`go install go.k6.io/k6@latest`). Results are in results/load_peers.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import command, results
from harness.builds import AbsentError, require
from harness.processes import HOST, PINNED
from harness.settings import FULL
from harness.title import title_server

OUTPUT = results.DIRECTORY / "load_peers.json"
SIZE, PERIOD = 2_000_000, 8
VIEWERS, QUICK_VIEWERS = 1_000, 100
# Seconds of the arrivals, and of the whole run: each viewer fetches at least this many files.
WITHIN, SECONDS, FILES = 8, 48, 5
LEAST = 0.95
SCENARIO = """
[hls.viewers]
path = "/master.m3u8"
titles = 1
alpha = 0
arrivals = {{ curve = "flash", rate = 0, crowd = {viewers}, at = 0, within = {within} }}
player = {{ profile = "fixed", buffer = {period} }}
watch = {{ median = 3600, sigma = 0 }}

[run]
max_sessions = {viewers}
threads = 1
samples = 0
"""
SCRIPT = """
import http from 'k6/http';
import { sleep } from 'k6';
export const options = {
  discardResponseBodies: DISCARD,
  scenarios: { viewers: { executor: 'per-vu-iterations', vus: VIEWERS, iterations: 1, maxDuration: 'SECONDSs' } },
};
export default function () {
  sleep(((__VU - 1) / VIEWERS) * WITHIN);
  const begun = Date.now();
  for (let n = 0; n < FILES; n++) {
    http.get('TARGET/segment.m4s');
    sleep(Math.max(0, begun + (n + 1) * PERIOD * 1000 - Date.now()) / 1000);
  }
}
"""
TITLES = {
    "penstock": "penstock load",
    "k6-discard": "k6, bodies discarded",
    "k6": "k6",
}


@dataclass(frozen=True)
class Row:
    """One round: bytes, and seconds."""

    tool: str
    viewers: int
    files: int
    bytes: int
    resident: int
    cpu_seconds: float
    version: str
    void: str | None

    @property
    def cpu_s_per_gb(self) -> float:
        return self.cpu_seconds / self.bytes * 1e9 if self.bytes else 0.0


def finished(arguments: list[str]) -> tuple[float, int]:
    """Run a generator on its core; return its processor time in seconds and its most resident memory in bytes."""
    process = subprocess.Popen(
        [*PINNED, str(FULL.load_core), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def by_penstock(target: str, viewers: int, runtime: Path) -> tuple[int, int, float, int]:
    """Files, bytes, processor time and memory."""
    scenario, out = runtime / "scenario.toml", runtime / "run"
    scenario.write_text(SCENARIO.format(viewers=viewers, within=WITHIN, period=PERIOD))
    told = ["--target", target, "--duration", str(SECONDS), "--out", str(out)]
    cpu, memory = finished([sys.executable, "-m", "penstock", "load", "run", str(scenario), *told])
    of_segments = json.loads((out / "summary.json").read_text())["requests"]["segment"]
    return of_segments["count"], of_segments["bytes"], cpu, memory


def k6() -> str:
    """The path of the program. Raises AbsentError."""
    return require("k6", "go install go.k6.io/k6@latest")


def by_k6(target: str, viewers: int, runtime: Path, *, discard: bool) -> tuple[int, int, float, int]:
    """Files, bytes, processor time and memory."""
    known = {"DISCARD": str(discard).lower(), "VIEWERS": viewers, "SECONDS": SECONDS, "WITHIN": WITHIN}
    known |= {"FILES": FILES, "PERIOD": PERIOD, "TARGET": target}
    text = SCRIPT
    for name, value in known.items():
        text = text.replace(name, str(value))
    script, out = runtime / "script.js", runtime / "summary.json"
    script.write_text(text)
    cpu, memory = finished(
        [k6(), "run", "--quiet", "--no-usage-report", f"--summary-export={out}", str(script)]
    )
    metrics = json.loads(out.read_text())["metrics"]
    return metrics["http_reqs"]["count"], metrics["data_received"]["count"], cpu, memory


def version_of(tool: str) -> str:
    if tool == "penstock":
        return results.revision()
    said = subprocess.run([k6(), "version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1]


def measure(tool: str, viewers: int, runtime: Path) -> Row:
    runtime.mkdir()
    version = version_of(tool)
    with title_server(runtime, SIZE, PERIOD) as port:
        target = f"http://{HOST}:{port}"
        if tool == "penstock":
            files, size, cpu, memory = by_penstock(target, viewers, runtime)
        else:
            files, size, cpu, memory = by_k6(target, viewers, runtime, discard=tool == "k6-discard")
    wanted = viewers * FILES
    is_void = files < LEAST * wanted or size < LEAST * wanted * SIZE
    void = f"{files} of {wanted} files, {size / 1e9:.1f} GB" if is_void else None
    return Row(tool, viewers, files, size, memory, cpu, version, void)


def show(rows: list[Row]) -> None:
    print(f"{'':22}{'MB':>9}{'CPU s/GB':>10}{'files':>8}")
    for tool, title in TITLES.items():
        of_it = [row for row in rows if row.tool == tool]
        valid = [row for row in of_it if row.void is None]
        if valid:
            cost = min(row.cpu_s_per_gb for row in valid)
            memory = min(row.resident for row in valid) / 1e6
            print(f"{title:22}{memory:9.0f}{cost:10.3f}{max(row.files for row in valid):8}")
        for row in of_it:
            if row.void is not None:
                print(f"{title:22} void: {row.void}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round with 100 viewers, not kept")
    parser.add_argument("--rounds", type=int, default=2, help="default: %(default)s")
    arguments = parser.parse_args()
    viewers, rounds = (QUICK_VIEWERS, 1) if arguments.quick else (VIEWERS, arguments.rounds)
    # What this process does is with the server.
    os.sched_setaffinity(0, {FULL.gateway_core})
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="penstock-load-peers-") as name:
        Path(name).chmod(0o711)
        for number in range(rounds):
            for tool, title in TITLES.items():
                try:
                    row = measure(tool, viewers, Path(name) / f"{tool}-{number}")
                except AbsentError as error:
                    print(f"absent: {title}: {error}")
                    continue
                rows.append(row)
                command.say(f"{title}, round {number + 1}: {row.void or 'done'}")
    show(rows)
    if not arguments.quick:
        results.publish(OUTPUT, rows)
    return 0 if rows and all(row.void is None for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
