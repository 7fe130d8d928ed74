"""How long and how much: the settings of one run, which are saved with its results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Durations are in seconds; cores are the kernel's numbers."""

    rounds: int = 8
    seconds: float = 2.5
    warm_up: float = 0.5
    again: int = 0
    """Rounds more, at most, of a workload as long as a gateway's best rounds are not alike."""
    connections: int = 16
    streams: int = 1000
    events_per_second: int = 10
    gateway_core: int = 0
    load_core: int = 1
    both_cores: bool = False
    """The gateway has the load's core as well: for rates, not for costs."""
    working_set: int = 256 << 20
    """Bytes of the objects of each size that are asked for at random: of hits.py alone."""
    token: str = ""
    """What hits are asked for with, as a bearer's: of access.py alone."""

    @property
    def fields(self) -> dict[str, str]:
        """The header fields of a request for a hit."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


FULL = Settings(again=4)
QUICK = Settings(rounds=1, seconds=2.0)
