"""Results as files: one JSON per run in benchmarks/results, with method, machine and versions beside it.

A peer's figures do not change during a day on one machine. Where one is off its own median of the day, the
machine was busy or something is broken, and the whole run is void: no ratio of it means anything.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal

from harness.builds import BENCHMARKS, AbsentError
from harness.gateways import BY_NAME, Gateway
from harness.measurement import Cell, Round
from harness.settings import Settings

DIRECTORY = BENCHMARKS / "results"
SCHEMA = 1
DEVIATION = 0.25
# More of the two cores than this in other programs' hands, and a round counts as disturbed.
DISTURBED = 0.10
METHOD = (
    "Each gateway is pinned to one core, origin and client share another. CPU is the gateway's user + system time "
    "(scheduler's account, all threads and child processes) divided by what was delivered; rounds are interleaved, CPU "
    "is the best round's, other figures are medians. Latencies of segments are a closed loop's under saturation; "
    "latencies of events run from the origin's write to the client's read, and the cell 'direct' is the same without a "
    "gateway."
)

# "partial": only some gateways or workloads were chosen.
Scope = Literal["full", "quick", "partial"]


@dataclass
class Result:
    """One run."""

    date: str
    scope: Scope
    settings: Settings
    machine: dict[str, str]
    versions: dict[str, str]
    revision: str
    absent: dict[str, str]
    cells: list[Cell]
    void: list[str]
    comparison: str

    def cell(self, gateway: str, workload: str) -> Cell | None:
        return next(
            (cell for cell in self.cells if (cell.gateway, cell.workload) == (gateway, workload)), None
        )


def machine() -> dict[str, str]:
    """Return what a figure depends on besides the programs. No names: only kinds."""
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": models[0].partition(":")[2].strip() if models else "unknown",
        "cores": str(os.cpu_count()),
        # With its build: another interpreter is another machine to the Python gateways.
        "python": sys.version,
    }


def versions(gateways: list[Gateway], absent: dict[str, str]) -> dict[str, str]:
    """Return the versions of the programs that were measured."""
    found: dict[str, str] = {}
    for gateway in gateways:
        if gateway.name not in absent:
            try:
                found |= gateway.versions()
            except AbsentError:
                continue  # its load was absent before it was looked for
    return found


def revision(checkout: Path = BENCHMARKS.parent) -> str:
    """Return the commit that was measured, with "+" for uncommitted changes to penstock itself."""
    git = ["git", "-C", str(checkout)]

    def ask(*arguments: str) -> str:
        return subprocess.run([*git, *arguments], capture_output=True, text=True, check=False).stdout.strip()

    commit = ask("rev-parse", "--short=7", "HEAD")
    changed = ask("status", "--porcelain", "--", "python", "rust")
    return commit + ("+" if changed else "") if commit else "unknown"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def disturbance(cells: list[Cell]) -> list[str]:
    """Return what voids a run because the machine was not ours."""
    shares = [round_.other_cpu for cell in cells for round_ in cell.rounds]
    disturbed = median(shares) if shares else 0.0
    if disturbed <= DISTURBED:
        return []
    return [f"other programs used {disturbed:.0%} of the two cores (median of the rounds)"]


def _undisturbed(rounds: list[Round]) -> list[float]:
    """CPU times of the rounds in which the machine was ours."""
    return [round_.cpu_us for round_ in rounds if round_.cpu_us is not None and round_.other_cpu <= DISTURBED]


def judge(result: Result, others: list[Result]) -> None:
    """Set `void` and `comparison`: was the machine ours, and is each peer near its median of the day?

    `others` are the results so far; those of another day or machine are left out, and so are disturbed
    rounds.
    """
    same_day = [
        other
        for other in others
        if other.date[:10] == result.date[:10]
        and other.machine == result.machine
        and other.date != result.date
    ]
    result.void = disturbance(result.cells)
    if not same_day:
        result.comparison = (
            "the first run of the day on this machine: no peer has a median to be compared with"
        )
        return
    result.comparison = (
        f"each peer was compared with its median over {len(same_day)} earlier run(s) of the day and this one"
    )
    for cell in result.cells:
        peer = BY_NAME.get(cell.gateway)
        if cell.cpu_us is None or cell.is_wide or peer is None or peer.own:
            continue
        cells = [other.cell(cell.gateway, cell.workload) for other in (*same_day, result)]
        of_runs = [
            min(costs)
            for known in cells
            if known and known.void is None and not known.is_wide and (costs := _undisturbed(known.rounds))
        ]
        if not of_runs:
            continue
        of_day = median(of_runs)
        deviation = cell.cpu_us / of_day - 1
        if abs(deviation) > DEVIATION:
            figures = f"{cell.cpu_us:.1f} μs is {deviation:+.0%} off the day's {of_day:.1f} μs"
            result.void.append(f"{cell.gateway} {cell.workload}: {figures}")


def add(result: Result, cells: list[Cell]) -> None:
    """Add the rounds of `cells`, which were measured later, to those of the same gateways and workloads."""
    later = {(cell.gateway, cell.workload): cell for cell in cells}
    for known in result.cells:
        if cell := later.get((known.gateway, known.workload)):
            known.rounds += cell.rounds
            known.failure = known.failure or cell.failure
    most = max((len(cell.rounds) for cell in cells), default=0)
    result.settings = replace(result.settings, again=result.settings.again + most)


def save(result: Result, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"schema": SCHEMA, "method": METHOD} | asdict(result)
    for stored, cell in zip(document["cells"], result.cells, strict=True):
        # For readers of the file: load() computes them again from the rounds.
        stored["figures"] = {
            "cpu_us": cell.cpu_us,
            "cpu_s_per_gb": cell.cpu_s_per_gb,
            "p50_us": cell.p50_us,
            "p99_us": cell.p99_us,
            "rate": cell.rate,
            "spread": cell.spread,
            "void": cell.void,
        }
    name = result.date[:19].replace(":", "")
    path = directory / f"{name}Z-{result.scope}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def publish(path: Path, rows: Sequence[Any], **settings: Any) -> None:
    """Keep what was measured apart from the comparison: `rows` are dataclasses."""
    document = {"date": now(), "machine": machine(), "revision": revision(), **settings}
    document["rows"] = [asdict(row) for row in rows]
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"saved: {path}")


def kept(
    path: Path, gateway: str, workload: str, figure: str
) -> tuple[dict[tuple[str, str], float], str, str]:
    """What `publish` has kept: the figures by gateway and workload, the day and the commit.

    The names are those of the columns. A figure of several rounds is their median, and one that is void is left out.
    """
    document: dict[str, Any] = json.loads(path.read_text())
    found: dict[tuple[str, str], list[float]] = {}
    for row in document["rows"]:
        if row[figure] is not None:
            found.setdefault((row[gateway], str(row.get(workload, ""))), []).append(row[figure])
    return {key: median(each) for key, each in found.items()}, document["date"], document["revision"]


def load(path: Path) -> Result:
    """Read a file that `save` wrote. Raises ValueError for another schema."""
    document: dict[str, Any] = json.loads(path.read_text())
    if document.pop("schema", None) != SCHEMA:
        raise ValueError(f"{path}: not a result of schema {SCHEMA}")
    document.pop("method")
    cells = []
    for stored in document.pop("cells"):
        stored.pop("figures", None)
        stored.pop("median", None)  # what it was called when all figures were medians
        rounds = [Round(**round_ | {"errors": tuple(round_["errors"])}) for round_ in stored.pop("rounds")]
        cells.append(Cell(rounds=rounds, **stored))
    return Result(settings=Settings(**document.pop("settings")), cells=cells, **document)


def load_all(directory: Path) -> list[tuple[Path, Result]]:
    """Return all results, the oldest first: the names begin with the date, unlike boundary.json's."""
    return [(path, load(path)) for path in sorted(directory.glob("20*Z-*.json"))]


def latest_valid(directory: Path, *, both_cores: bool = False) -> Result:
    """Return the latest run that is not void: a full one, or one for which gateways had both cores.

    Raises:
        LookupError: there is no such run.
    """
    found = load_all(directory)
    for _, result in reversed(found):
        is_wanted = result.settings.both_cores if both_cores else result.scope == "full"
        if is_wanted and not result.void:
            return result
    kind = "has both cores" if both_cores else "is a full run"
    raise LookupError(f"none of the {len(found)} results in {directory} {kind} and is not void")
