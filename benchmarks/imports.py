"""What an import takes: `imports.py [--starts 30]`.

Each line of code is run by a new interpreter, in turn with the others, with compiled modules and files in memory.
Reported are the time on the clock, whole and without that of an interpreter that imports nothing, the processor's time,
and how many modules are imported. Compare the least: what is above it is other work of the machine. Results are in
results/imports.json.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from harness import results

OUTPUT = results.DIRECTORY / "imports.json"
CODE = ("pass", "import penstock", "import aiohttp", "import penstock.web")
IMPORTED = re.compile(r"import time: +\d+ \| +\d+ \| +\S+")


@dataclass(frozen=True)
class Row:
    """One line of code."""

    code: str
    least_ms: float
    median_ms: float
    least_above_bare_ms: float
    least_processor_ms: float
    modules: int


def start(code: str) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor."""
    before, begun = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    clock, after = time.perf_counter() - begun, getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * clock, 1000 * used


def count(code: str) -> int:
    """Modules, with those of an interpreter that imports nothing."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], check=True, capture_output=True, text=True
    )
    return len(IMPORTED.findall(run.stderr))


def main() -> None:
    parser = argparse.ArgumentParser(description="What an import takes.")
    parser.add_argument("--starts", type=int, default=30, help="of each interpreter (default: 30)")
    starts = parser.parse_args().starts
    for code in CODE:
        start(code)
    taken: dict[str, list[tuple[float, float]]] = {code: [] for code in CODE}
    for _ in range(starts):
        for code in CODE:
            taken[code].append(start(code))
    bare = min(clock for clock, _ in taken["pass"])
    rows: list[Row] = []
    for code in CODE:
        clocks, processor = zip(*taken[code], strict=True)
        row = Row(
            code=code,
            least_ms=round(min(clocks), 1),
            median_ms=round(median(clocks), 1),
            least_above_bare_ms=round(min(clocks) - bare, 1),
            least_processor_ms=round(min(processor), 1),
            modules=count(code),
        )
        rows.append(row)
        print(row)
    results.publish(OUTPUT, rows, starts=starts, load=round(os.getloadavg()[0], 1))


if __name__ == "__main__":
    main()
