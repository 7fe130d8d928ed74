"""What hits.py and crowd.py have kept, as the tables of docs/guide/caching.md."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from harness import results, table
from harness.builds import BENCHMARKS

PAGE = BENCHMARKS.parent / "docs" / "guide" / "caching.md"
SIZES = {"hot-16k": "16 KiB", "hot-64k": "64 KiB", "hot-512k": "512 KiB"}
HITS = {
    "bare-hits": "the limit",
    "penstock-cached": "a native route",
    "varnish": "Varnish",
    "nginx-cache": "nginx, `proxy_cache`",
    "aiohttp-dict": "a dict in aiohttp on uvloop",
}
CROWD = {
    "limit": "the limit: a program that writes arriving bytes to all clients in turn",
    "penstock": "a native route",
    "varnish": "Varnish",
    "nginx": "nginx, `proxy_cache_lock`",
}
CROWD_FIGURES = {
    "first_byte_median": "median",
    "first_byte_maximum": "maximum",
    "resident_growth": "MiB",
}


def _kept(name: str, directory: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((directory / f"{name}.json").read_text())
    return kept


def _when(kept: dict[str, Any]) -> str:
    return f"Measured on {kept['date'][:10]} at commit {kept['revision']}."


def hits(directory: Path = results.DIRECTORY) -> str:
    """CPU μs of a hit of one object, for each cache and size."""
    kept = _kept("hits", directory)
    costs = {(row["cache"], row["workload"]): row["cpu_us"] for row in kept["rows"]}
    shown = [
        [title, *("-" if (cost := costs.get((name, size))) is None else f"{cost:.1f}" for size in SIZES)]
        for name, title in HITS.items()
    ]
    return "\n".join([*table.markdown_table(["CPU μs", *SIZES.values()], shown), "", _when(kept)])


def crowd(directory: Path = results.DIRECTORY) -> str:
    """The first byte at the clients of a crowd that asks at once, in milliseconds, and the growth of memory."""
    kept = _kept("crowd", directory)
    rows = [row for row in kept["rows"] if row["case"] == "at once"]

    def figure(name: str, of: str) -> str:
        found = [row[of] for row in rows if row["cache"] == name]
        return f"{median(found):.1f}" if found else "-"

    shown = [[title, *(figure(name, of) for of in CROWD_FIGURES)] for name, title in CROWD.items()]
    return "\n".join([*table.markdown_table(["", *CROWD_FIGURES.values()], shown), "", _when(kept)])


def page(document: str, directory: Path = results.DIRECTORY) -> str:
    """The page with its tables."""
    for name, shown in (("hits", hits(directory)), ("crowd", crowd(directory))):
        document = table.render(document, shown, f"<!-- {name}:begin -->", f"<!-- {name}:end -->")
    return document
