"""What the gateway adds to the time of a request, measured while the demo runs.

Owned by `penstock.demo.app`, which keeps one probe running for the life of the application.

Why a pair of requests, and not the age of a stamp that the origin puts on an event: a stamp read in the
browser compares two clocks that need not be the same machine's, and counts the browser as well. Here one
small answer is fetched straight from the origin and once more through the gateway, over kept-alive
connections, by the same client on the same clock. Both halves pay for client and origin alike, so that their
difference is the gateway: the hop to it, its handler, and the engine.
"""

import asyncio
import logging
import ssl
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter

import aiohttp

_LOG = logging.getLogger("penstock.demo")

_PERIOD = 1.0
_KEPT = 15
_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True)
class Latency:
    """Medians over the latest pairs, in milliseconds; None until there is a pair."""

    direct_ms: float | None
    through_ms: float | None
    added_ms: float | None
    pairs: int

    def as_dict(self) -> dict[str, float | None]:
        """The fields by name, for JSON."""
        return asdict(self)


class LatencyProbe:
    """Measures a pair of requests each second and keeps the latest of them."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def latest(self) -> Latency:
        """The medians as they stand."""
        if not self._pairs:
            return Latency(None, None, None, 0)
        direct, through = zip(*self._pairs, strict=True)
        # The median of the differences, not the difference of the medians: the halves of a pair are
        # milliseconds apart, so that what disturbs the machine for longer falls on both and cancels out.
        added = [after - before for before, after in self._pairs]
        return Latency(_median_ms(direct), _median_ms(through), _median_ms(added), len(self._pairs))

    async def run(self, direct: str, through: str, cert: Path | None = None) -> None:
        """Measure until cancelled. A pair that fails is logged, and the pairs before it are forgotten.

        Args:
            direct: URL of the small answer at the origin.
            through: URL of the same answer through the gateway.
            cert: the certificate of the gateway, if it speaks TLS.
        """
        trusted = True if cert is None else ssl.create_default_context(cafile=cert)
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector) as session:
            connected = False
            # The first of a pair may find cold caches, so they take turns.
            for order in cycle(((direct, through), (through, direct))):
                try:
                    seconds = {url: await _seconds(session, url) for url in order}
                except (aiohttp.ClientError, TimeoutError) as problem:
                    _LOG.warning("the latency probe failed: %r", problem)
                    self._pairs.clear()
                    connected = False
                else:
                    # A first pair opens the connections, whose cost is not the one that is wanted.
                    if connected:
                        self._pairs.append((seconds[direct], seconds[through]))
                    connected = True
                await asyncio.sleep(_PERIOD)


def _median_ms(seconds: Iterable[float]) -> float:
    return 1000 * statistics.median(seconds)


async def _seconds(session: aiohttp.ClientSession, url: str) -> float:
    began = perf_counter()
    async with session.get(url, raise_for_status=True) as response:
        await response.read()
    return perf_counter() - began
