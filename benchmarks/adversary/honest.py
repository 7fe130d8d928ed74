"""An honest client: asks for small things, one after the other, on new connections and on kept ones, and keeps count.

`python -m adversary.honest PORT` asks until its standard input ends, and then prints what it noticed as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

_PATIENCE = 10.0
"""Seconds for one answer."""
_PAUSE = 0.02
"""Seconds between two requests."""


@dataclass
class Honest:
    """What became of its requests."""

    port: int
    latencies: list[float] = field(default_factory=list)
    """Seconds, of requests that were answered with 200."""
    refusals: Counter[str] = field(default_factory=Counter)
    """By status, or by what went wrong instead of one."""
    longest: float = 0.0
    """Seconds from the end of one 200 to that of the next."""
    total: int = 0
    _kept: http.client.HTTPConnection | None = None
    _last: float = field(default_factory=time.monotonic)

    def ask(self) -> None:
        """One request, and a short pause."""
        begun = time.monotonic()
        kept = self.total % 2 == 0
        connection = self._kept if kept else None
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            if self.total % 10 == 9:
                connection.request("POST", "/take", body=b"x" * 300)
            else:
                connection.request("GET", "/small")
            response = connection.getresponse()
            response.read()
            outcome = str(response.status)
        except (OSError, http.client.HTTPException) as error:
            outcome = type(error).__name__
        now = time.monotonic()
        self.total += 1
        if outcome == "200":
            self.latencies.append(now - begun)
            self.note(now)
        else:
            self.refusals[outcome] += 1
        if kept and outcome == "200":
            self._kept = connection
        else:
            connection.close()
            self._kept = None if kept else self._kept
        time.sleep(_PAUSE)

    def note(self, now: float) -> None:
        """Count the time without a 200 up to now."""
        self.longest = max(self.longest, now - self._last)
        self._last = now

    def run(self, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Ask for so long, and call `meanwhile` after each request. What is not answered at the end counts too."""
        self._last = time.monotonic()
        end = self._last + seconds
        while time.monotonic() < end:
            self.ask()
            meanwhile()
        self.longest = max(self.longest, time.monotonic() - self._last)
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.latencies)
        if not ordered:
            return float("inf")
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    """Ask until standard input ends."""
    os.set_blocking(0, False)
    honest = Honest(int(sys.argv[1]))
    while True:
        honest.run(0.1)
        try:
            if not os.read(0, 1):
                break
        except BlockingIOError:
            continue
    print(
        json.dumps({"p50": honest.percentile(0.5), "p99": honest.percentile(0.99), "longest": honest.longest})
    )


if __name__ == "__main__":
    main()
