"""Runs the fuzz targets in turn, and adds what was run to rust/fuzz/runs.json.

The target that has had the least processor time is run next, for five minutes, until each has had what is asked for. So a
run may be ended at any time and continued later. The exit status is 1 if an input fails. `chrt --idle 0` before the
command leaves the processors to all other programs.

    python3 .ci/fuzz.py [--minutes 60] [--jobs 1] [TARGET...]
    python3 .ci/fuzz.py --show
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "rust/fuzz"
RUNS = FUZZ / "runs.json"
SLICE_S = 300
DICTIONARIES = {
    "cache_control": "cache",
    "checker": "http1",
    "chunked": "http1",
    "event_parse": "events",
    "request": "http1",
    "response_head": "http1",
    "targeted_control": "cache",
    "tokens": "tokens",
    "usage": "usage",
}
# Bytes. What counts frames must have many of them.
LENGTHS = {"http2_meter": 20_000}
INPUTS = re.compile(r"^stat::number_of_executed_units:\s+(\d+)$", re.MULTILINE)
# What is only slow on a busy machine is no failure; what hangs is another file.
FAILED = re.compile(r"Test unit written to (\S+/(?!slow-unit-)[^/\s]+)$", re.MULTILINE)


def targets() -> list[str]:
    manifest = tomllib.loads((FUZZ / "Cargo.toml").read_text())
    return sorted(binary["name"] for binary in manifest["bin"])


class Runs:
    """What each target was run for at each commit: processor time in seconds, inputs, and how many inputs failed."""

    def __init__(self, commit: str) -> None:
        self._commit = commit
        self._lock = Lock()
        self._under_way: set[str] = set()
        self.rows: list[dict] = json.loads(RUNS.read_text()) if RUNS.exists() else []

    def seconds(self, target: str) -> float:
        return sum(row["cpu_s"] for row in self.rows if row["target"] == target)

    def begin(self, wanted: list[str], enough_s: float) -> str | None:
        """The one to run next: it has had the least, and no other thread runs it."""
        with self._lock:
            waiting = [target for target in wanted if target not in self._under_way and self.seconds(target) < enough_s]
            if not waiting:
                return None
            target = min(waiting, key=self.seconds)
            self._under_way.add(target)
            return target

    def end(self, target: str, cpu_s: float, inputs: int, failed: int) -> None:
        with self._lock:
            self._under_way.remove(target)
            same = (row for row in self.rows if (row["target"], row["commit"]) == (target, self._commit))
            row = next(same, None)
            if row is None:
                row = {"target": target, "commit": self._commit, "day": "", "cpu_s": 0.0, "inputs": 0, "failed": 0}
                self.rows.append(row)
            row["day"] = datetime.now(UTC).date().isoformat()
            row["cpu_s"] = round(row["cpu_s"] + cpu_s, 1)
            row["inputs"] += inputs
            row["failed"] += failed
            self.rows.sort(key=lambda row: (row["target"], row["day"]))
            lines = ",\n".join("  " + json.dumps(row) for row in self.rows)
            RUNS.write_text(f"[\n{lines}\n]\n")


def run(target: str, seconds: float) -> tuple[float, int, int]:
    """Processor time, inputs and failures of a slice."""
    corpus = FUZZ / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "+nightly", "fuzz", "run", target, str(corpus)]
    if (seeds := FUZZ / "seeds" / target).is_dir():
        command.append(str(seeds))
    command += ["--", f"-max_total_time={seconds:.0f}", "-print_final_stats=1"]
    if name := DICTIONARIES.get(target):
        command.append(f"-dict={FUZZ / name}.dict")
    if length := LENGTHS.get(target):
        command.append(f"-max_len={length}")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT / "rust", text=True, errors="replace", **streams) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    failed = FAILED.findall(output)
    inputs = sum(map(int, INPUTS.findall(output)))
    if process.returncode and not failed:
        raise SystemExit(f"fuzz: {target} ended with {process.returncode}:\n{output[-2000:]}")
    for name in failed:
        print(f"fuzz: {target} fails on {name}", flush=True)
    return usage.ru_utime + usage.ru_stime, inputs, len(failed)


def show(runs: Runs) -> None:
    for target in targets():
        rows = [row for row in runs.rows if row["target"] == target]
        inputs, failed = (sum(row[key] for row in rows) for key in ("inputs", "failed"))
        print(f"{target:18} {runs.seconds(target) / 60:7.1f} min {inputs:14,} inputs {failed:3} failed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the fuzz targets in turn.")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=60, help="processor time for each, earlier runs included")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="what has been run")
    given = parser.parse_args()
    if unknown := set(given.targets) - set(targets()):
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    git = ["git", "rev-parse", "--short=8", "HEAD"]
    runs = Runs(subprocess.run(git, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    if given.show:
        show(runs)
        return 0
    subprocess.run(["cargo", "+nightly", "fuzz", "build"], cwd=ROOT / "rust", check=True)
    failures = []

    def work(_: int) -> None:
        while target := runs.begin(given.targets or targets(), given.minutes * 60):
            cpu_s, inputs, failed = run(target, min(SLICE_S, given.minutes * 60))
            runs.end(target, cpu_s, inputs, failed)
            print(f"{target:18} {cpu_s:7.1f} s {inputs:12,} inputs", flush=True)
            if failed:
                failures.append(target)
                return

    with ThreadPoolExecutor(given.jobs) as threads:
        list(threads.map(work, range(given.jobs)))
    show(runs)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
