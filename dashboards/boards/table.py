"""The metrics that the engine has: the table of docs/operations/metrics.md, which a test compares with the engine."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations" / "metrics.md"
_ROW = re.compile(r"\| `(penstock_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|")


@dataclass(frozen=True)
class Metric:
    """One family of the table."""

    kind: str
    """`counter`, `gauge` or `histogram`."""
    labels: frozenset[str]
    """Without `le`, and without what Prometheus adds: `job` and `instance`."""
    meaning: str


def read() -> dict[str, Metric]:
    """The table, by the full names of the metrics."""
    return {
        name: Metric(kind, frozenset(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in _ROW.findall(DOCUMENT.read_text())
    }


METRICS = read()
