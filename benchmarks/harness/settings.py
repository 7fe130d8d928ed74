"""How long and how much: the settings of one run, which are saved with its results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Durations are in seconds; cores are the kernel's numbers."""

    rounds: int = 5
    seconds: float = 5.0
    warm_up: float = 1.0
    connections: int = 16
    streams: int = 1000
    events_per_second: int = 10
    gateway_core: int = 0
    load_core: int = 1
    working_set: int = 256 << 20
    """Bytes of the objects of each size that are asked for at random: of hits.py alone."""


FULL = Settings()
QUICK = Settings(rounds=1, seconds=2.0, warm_up=0.5)
