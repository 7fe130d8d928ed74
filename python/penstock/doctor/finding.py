"""What a check has found."""

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["FAILURE", "OK", "UNKNOWN", "WARNING", "Finding", "State"]

State = Literal["ok", "unknown", "warning", "failure"]

OK: Final = "ok"
UNKNOWN: Final = "unknown"
WARNING: Final = "warning"
FAILURE: Final = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found.

    `failure`: it will fail as it is. `warning`: it works, and will be slow or break under load. `unknown`: this machine
    does not say.
    """

    check: str
    state: State
    seen: str
    wanted: str = ""
    why: str = ""
    how: str = ""
