"""How long one waits before a process that has ended is started again."""

import random
from collections.abc import Callable
from typing import Final

__all__ = ["Backoff"]


class Backoff:
    """The waits of one place for a process. Who keeps ending soon waits longer each time.

    Args:
        first: seconds of the first wait.
        most: seconds of the longest; a process that has lived for so long has not ended soon.
        chance: a number from 0 to 1, drawn for each wait.
    """

    def __init__(
        self,
        first: float,
        most: float,
        chance: Callable[[], float] = random.random,  # noqa: S311 (no secret)
    ) -> None:
        self._first: Final = first
        self._most: Final = most
        self._chance: Final = chance
        self._next = 0.0

    def after(self, lived: float) -> float:
        """Seconds to wait after a process that has lived for `lived` seconds; 0 for one that never was ready."""
        wait = 0.0 if lived >= self._most else self._next
        self._next = min(2 * wait, self._most) if wait else self._first
        # A part of it by chance: what has ended at once must not start at once.
        return wait * (1 - self._chance() / 2)
