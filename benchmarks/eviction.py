"""What stays in a cache: hit ratios of the engine's eviction on traces, beside others': `eviction.py`.

The program in traces/ makes each trace from a seed and replays it against each policy at three budgets. There are no
sockets, no bodies and no time but the trace's own, so the figures do not depend on the machine. `hit_ratio` is the share
of requests that are hits, the first request of an object included, and `origin_bytes` that of bytes that an origin has
to send. `s3-fifo` is the published one, on the engine's code. `belady` knows the future: it keeps what is asked for
soonest, whatever its size. `bound` is what nothing can be better than, PFOO-L: each hit pays for its bytes for as long
as they wait, the cheapest first, until the budget is spent on average. Results are in results/eviction.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from harness import results
from harness.builds import AbsentError, rust

OUTPUT = results.DIRECTORY / "eviction.json"


@dataclass(frozen=True)
class Row:
    """What one policy made of one trace within one budget."""

    workload: str
    policy: str
    budget_mib: int
    hit_ratio: float
    origin_bytes: float


def table(rows: Sequence[Row], column: str) -> str:
    """Return one column of all rows, in percent: a line for each trace and budget, a column for each policy."""
    figure = attrgetter(column)
    policies = list(dict.fromkeys(row.policy for row in rows))
    lines = [f"{column}, %", f"{'':22}" + "".join(f"{policy.split(', ')[-1]:>20}" for policy in policies)]
    for workload, budget in dict.fromkeys((row.workload, row.budget_mib) for row in rows):
        found = {row.policy: row for row in rows if (row.workload, row.budget_mib) == (workload, budget)}
        cells = "".join(f"{figure(found[policy]) * 100:20.1f}" for policy in policies)
        lines.append(f"{workload:14}{budget:8}{cells}")
    return "\n".join(lines)


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    try:
        program = rust("traces", "traces")
    except AbsentError as error:
        print(error, file=sys.stderr)
        return 1
    replayed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = [Row(**json.loads(line)) for line in replayed.splitlines()]
    for column in ("hit_ratio", "origin_bytes"):
        print(table(rows, column), end="\n\n")
    results.publish(OUTPUT, rows, method=__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
