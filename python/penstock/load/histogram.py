"""Histograms as the generator leaves them: values and how often each occurred. They add up without loss."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["PERCENTILES", "Counts", "added", "mean", "percentile", "percentiles"]

Counts = Sequence[tuple[int, int]]
"""Values, which rise, and their counts."""

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}


def added(several: Iterable[Counts]) -> list[tuple[int, int]]:
    """Several histograms as one."""
    total: Counter[int] = Counter()
    for counts in several:
        for value, count in counts:
            total[value] += count
    return sorted(total.items())


def percentile(counts: Counts, percent: float) -> int | None:
    """The value that `percent` of all values do not exceed; None without values."""
    total = sum(count for _, count in counts)
    # The least rank that covers the share; a float's last digit must not ask for one more.
    wanted = max(1, -int(-(round(total * percent / 100, 6)) // 1))
    seen = 0
    for value, count in counts:
        seen += count
        if seen >= wanted:
            return value
    return None


def percentiles(counts: Counts, scale: float) -> dict[str, float | None]:
    """The usual percentiles, each times `scale`."""
    found = {name: percentile(counts, percent) for name, percent in PERCENTILES.items()}
    return {name: None if value is None else value * scale for name, value in found.items()}


def mean(counts: Counts) -> float | None:
    """The mean; None without values."""
    total = sum(count for _, count in counts)
    return sum(value * count for value, count in counts) / total if total else None
