"""What is measured: workloads, one round's counts, and a cell's rounds with their figures and their spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from harness.gateways import Kind

WIDE = 0.25
"""The spread above which a cell is left out of the tables in Markdown."""
AGREE = 3
"""Rounds whose costs have to be near one another for the least to count. What disturbs a round only adds to its cost."""


@dataclass(frozen=True)
class Workload:
    """One column of the tables; `size` is a segment's or an event's, in bytes."""

    name: str
    title: str
    kind: Kind
    size: int
    unit: str


SEGMENTS = (
    Workload("segment-16k", "16 KiB", "segments", 16 << 10, "request"),
    Workload("segment-64k", "64 KiB", "segments", 64 << 10, "request"),
    Workload("segment-512k", "512 KiB", "segments", 512 << 10, "request"),
    Workload("segment-2m", "2 MiB", "segments", 2 << 20, "request"),
)
EVENTS = Workload("events", "server-sent events", "events", 200, "event")
HANDLER = Workload("handler", 'Response(text="ok")', "handlers", 2, "request")
WORKLOADS = (*SEGMENTS, EVENTS, HANDLER)
BY_NAME = {workload.name: workload for workload in WORKLOADS}


@dataclass(frozen=True)
class Round:
    """What one run of a load delivered through a gateway, and the gateway's CPU time (None: there was no
    gateway).

    `other_cpu` is the share of the two cores that programs outside the benchmark used meanwhile: noise.
    """

    units: int
    bytes: int
    seconds: float
    cpu_seconds: float | None
    p50_us: float
    p99_us: float
    other_cpu: float = 0.0
    errors: tuple[str, ...] = ()

    @property
    def cpu_us(self) -> float | None:
        """CPU μs per request or event; None without a gateway or when nothing was delivered."""
        return None if self.cpu_seconds is None or not self.units else self.cpu_seconds / self.units * 1e6

    @property
    def cpu_s_per_gb(self) -> float | None:
        """CPU seconds per 10⁹ bytes delivered."""
        return None if self.cpu_seconds is None or not self.bytes else self.cpu_seconds / self.bytes * 1e9


@dataclass
class Cell:
    """A gateway's rounds of one workload. Any error in any round voids the cell: it has no figures then."""

    gateway: str
    workload: str
    rounds: list[Round] = field(default_factory=list)
    failure: str | None = None

    @property
    def void(self) -> str | None:
        """Why the cell has no figures, or None."""
        errors = [error for round_ in self.rounds for error in round_.errors]
        return self.failure or ("; ".join(errors) if errors else None if self.rounds else "not measured")

    def _median(self, values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return median(known) if known and self.void is None else None

    def _least(self, values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return min(known) if known and self.void is None else None

    @property
    def cpu_us(self) -> float | None:
        """Of the best round, as `cpu_s_per_gb` is; latencies and rates are medians of the rounds."""
        return self._least([round_.cpu_us for round_ in self.rounds])

    @property
    def cpu_s_per_gb(self) -> float | None:
        return self._least([round_.cpu_s_per_gb for round_ in self.rounds])

    @property
    def p50_us(self) -> float | None:
        return self._median([round_.p50_us for round_ in self.rounds])

    @property
    def p99_us(self) -> float | None:
        return self._median([round_.p99_us for round_ in self.rounds])

    @property
    def rate(self) -> float | None:
        """Requests or events delivered per second."""
        return self._median([round_.units / round_.seconds for round_ in self.rounds])

    @property
    def spread(self) -> float | None:
        """How much more CPU time per unit the third best round took than the best, as a share of the best's."""
        values = sorted(round_.cpu_us for round_ in self.rounds if round_.cpu_us is not None)[:AGREE]
        return values[-1] / values[0] - 1 if values and self.void is None else None

    @property
    def is_wide(self) -> bool:
        """Whether the best rounds differ too much for a figure."""
        return self.spread is not None and self.spread > WIDE
