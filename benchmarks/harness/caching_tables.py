"""What hits.py and crowd.py have kept, as the tables of docs/guide/caching.md."""

from __future__ import annotations

from pathlib import Path

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


def _section(columns: dict[str, str], shown: list[list[str]], date: str, commit: str, title: str = "") -> str:
    lines = table.markdown_table([title, *columns.values()], shown)
    return "\n".join([*lines, "", f"Measured on {date[:10]} at commit {commit}."])


def _shown(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"


def hits(directory: Path = results.DIRECTORY) -> str:
    """CPU μs of a hit of one object, for each cache and size."""
    costs, date, commit = results.kept(directory / "hits.json", "cache", "workload", "cpu_us")
    shown = [[title, *(_shown(costs.get((name, size))) for size in SIZES)] for name, title in HITS.items()]
    return _section(SIZES, shown, date, commit, "CPU μs")


def crowd(directory: Path = results.DIRECTORY) -> str:
    """The first byte at the clients of a crowd that asks at once, in milliseconds, and the growth of memory."""
    shown = [[title] for title in CROWD.values()]
    for of in CROWD_FIGURES:
        figures, date, commit = results.kept(directory / "crowd.json", "cache", "case", of)
        for row, name in zip(shown, CROWD, strict=True):
            row.append(_shown(figures.get((name, "at once"))))
    return _section(CROWD_FIGURES, shown, date, commit)


def page(document: str, directory: Path = results.DIRECTORY) -> str:
    """The page with its tables."""
    for name, shown in (("hits", hits(directory)), ("crowd", crowd(directory))):
        document = table.render(document, shown, f"<!-- {name}:begin -->", f"<!-- {name}:end -->")
    return document
