"""The page's figures: the engine's own counters and the measured latency, as JSON.

Called by `penstock.demo.app` once a second for each page that is open. Everything here is read, nothing is
counted: totals stay totals, and the page takes rates from them.
"""

from dataclasses import asdict
from typing import Any

from penstock import EngineStats

from .latency import Latency


def figures(stats: EngineStats, latency: Latency) -> dict[str, Any]:
    """One reading. Bytes are bytes, latency is in milliseconds."""
    pool = stats.pool
    return {
        "requests": stats.requests,
        "streams": stats.streams,
        "bytes_received": stats.bytes_received,
        "wakeups": stats.wakeups,
        "origins": {name: asdict(each) for name, each in stats.origins.items()},
        "pool": {
            "budget": pool.budget,
            "state": pool.state,
            "live_bytes": pool.live_bytes,
            "peak_bytes": pool.peak_bytes,
            "refusals": pool.refusals,
            "bytes_copied": dict(pool.bytes_copied),
        },
        "latency": latency.as_dict(),
    }
