"""The table of docs/guide/tls.md, of what secured.py has measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness import secured
from harness.secured_gateways import BY_NAME

BEGIN = "<!-- secured:begin -->"
END = "<!-- secured:end -->"
# Each row has one of penstock's gateways, and its peers.
ORDER = ("penstock", "nginx", "haproxy", "caddy", "granian", "hypercorn")
TITLES = ("penstock", "nginx", "HAProxy", "Caddy", "granian", "hypercorn")


def _place(gateway: str) -> str:
    """The column of a gateway: penstock's lanes, and nginx with a cache, have the columns of their programs."""
    return gateway.partition("-")[0]


def markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the CPU time of each workload, in microseconds, with a column for each program."""
    costs: dict[str, dict[str, float | None]] = {}
    for row in rows:
        assert row["gateway"] in BY_NAME
        costs.setdefault(row["workload"], {})[_place(row["gateway"])] = row["cpu_us"]
    lines = [f"| µs of CPU | {' | '.join(TITLES)} |", f"|---|{'---:|' * len(TITLES)}"]
    for workload, of_it in costs.items():
        cells = ("" if (cost := of_it.get(name)) is None else f"{cost:.1f}" for name in ORDER)
        lines.append(f"| {secured.BY_NAME[workload].title} | {' | '.join(cells)} |")
    return "\n".join(lines)
