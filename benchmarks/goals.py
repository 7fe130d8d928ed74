"""What penstock is to cost beside the best alternative, and what it was last measured to cost: `goals.py`.

It measures nothing. It reads the latest valid runs of compare.py, with and without --both-cores, and what hits.py,
fanout.py, memory.py and crowd.py have kept, prints each figure beside its goal, and says when and at which commit it was
measured. `--publish` writes the table into docs/concepts/cost.md, and those of hits.py and crowd.py into
docs/guide/caching.md.

Exit status: 0, or 1 if a goal has no figure.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import caching_tables, results, table
from harness.builds import BENCHMARKS
from harness.gateways import BY_NAME
from harness.measurement import SEGMENTS

BEGIN, END = "<!-- goals:begin -->", "<!-- goals:end -->"
PAGE = BENCHMARKS.parent / "docs" / "concepts" / "cost.md"
PEERS = ("nginx", "haproxy")


@dataclass(frozen=True)
class Goal:
    """A figure that must not be higher than so many times another of the same run, or than a number."""

    work: str
    source: str
    """The name of its results, without the suffix; "compare" for the latest full run of compare.py, "both cores" for the
    latest with --both-cores."""
    row: tuple[str, str]
    """The gateway and the workload."""
    beside: tuple[str, ...]
    """The cheapest of these is what it is compared with."""
    most: float


@dataclass(frozen=True)
class Figure:
    """What was measured for a goal."""

    cost: float
    other: float
    """1 if the goal is a number."""
    beside: str
    day: str
    commit: str

    @property
    def ratio(self) -> float:
        """The cost in units of the other's."""
        return self.cost / self.other


def _segments(work: str, gateway: str, beside: tuple[str, ...], most: tuple[float, ...]) -> list[Goal]:
    """A goal for each of `most`, the smallest segment first."""
    return [
        Goal(f"{work}, {segment.title}", "compare", (gateway, segment.name), beside, limit)
        for segment, limit in zip(SEGMENTS[: len(most)], most, strict=True)
    ]


GOALS = (
    *_segments("native relay", "penstock-native", PEERS, (1.05, 1.0, 0.75, 0.9)),
    Goal("relayed event", "compare", ("penstock-native", "events"), ("nginx",), 0.95),
    Goal("relayed event", "compare", ("penstock-native", "events"), ("tcp-relay",), 1.1),
    Goal("relayed event, application's lane", "compare", ("penstock", "events"), ("aiohttp",), 0.45),
    *_segments("relay of the application's lane", "penstock", ("aiohttp",), (0.45, 0.42, 0.32)),
    *_segments("frames on aiohttp's own server", "penstock-frames-stock", ("aiohttp",), (0.65, 0.6, 0.45)),
    *_segments("frames on a `Site`", "penstock-frames", ("aiohttp",), (0.55, 0.5, 0.4)),
    Goal('`Response(text="ok")`', "compare", ("penstock", "handler"), ("aiohttp",), 1.1),
    # 1.4 times the rate of the other.
    Goal(
        '`Response(text="ok")`, both cores, μs between two',
        "both cores",
        ("penstock", "handler"),
        ("aiohttp",),
        round(1 / 1.4, 2),
    ),
    Goal("hit, 16 KiB", "hits", ("penstock-cached", "hot-16k"), ("bare-hits",), 1.15),
    Goal("hit, 64 KiB", "hits", ("penstock-cached", "hot-64k"), ("bare-hits",), 1.1),
    Goal("hit, 512 KiB", "hits", ("penstock-cached", "hot-512k"), ("bare-hits",), 1.0),
    Goal("delivered event, 2,000 subscribers", "fanout", ("penstock-hub", "2000"), ("nchan",), 0.55),
    Goal("first byte of a crowd of 1,000, ms", "crowd", ("penstock", "at once"), ("limit",), 1.2),
    Goal("resident, `penstock serve --origin`, MB", "memory", ("penstock-native", ""), (), 35),
    Goal("resident, with an application, MB", "memory", ("penstock", ""), (), 50),
)

# Of each kind of results: what names the gateway, the workload and the figure.
KEYS = {
    "hits": ("cache", "workload", "cpu_us"),
    "fanout": ("hub", "subscribers", "cpu_us"),
    "crowd": ("cache", "case", "first_byte_median"),
    "memory": ("gateway", "", "resident_mb"),
}
TITLES = {
    name: gateway.title.partition(",")[0].removeprefix("limit: ") for name, gateway in BY_NAME.items()
} | {
    "bare-hits": "a program that only sends",
    "limit": "a program that only writes",
}


@cache
def _kept(source: str, directory: Path) -> tuple[dict[tuple[str, str], float], str, str]:
    """The figures by gateway and workload, the day and the commit. A figure of several rounds is their median."""
    if source == "compare":
        run = results.latest_valid(directory)
        cells = [cell for cell in run.cells if cell.cpu_us is not None and not cell.is_wide]
        return {(cell.gateway, cell.workload): cell.cpu_us or 0.0 for cell in cells}, run.date, run.revision
    if source == "both cores":
        run = results.latest_valid(directory, both_cores=True)
        paces = {(cell.gateway, cell.workload): 1e6 / cell.rate for cell in run.cells if cell.rate}
        return paces, run.date, run.revision
    return results.kept(directory / f"{source}.json", *KEYS[source])


def figure(goal: Goal, directory: Path = results.DIRECTORY) -> Figure | None:
    """What was measured for it; `None` if a cell was left out."""
    figures, date, commit = _kept(goal.source, directory)
    _, workload = goal.row
    others = {name: figures[name, workload] for name in goal.beside if (name, workload) in figures}
    if goal.row not in figures or len(others) < len(goal.beside):
        return None
    beside = min(others, key=lambda name: others[name], default="")
    return Figure(figures[goal.row], others.get(beside, 1.0), beside, date[:10], commit)


def rows(directory: Path = results.DIRECTORY) -> list[list[str]]:
    """The table, with a row for each goal."""
    shown = []
    for goal in GOALS:
        found = figure(goal, directory)
        if found is None:
            shown.append([goal.work, "-", "-", "-", f"{goal.most:g}", "no steady figure", "-"])
            continue
        other = f"{found.other:.1f}, {TITLES.get(found.beside, found.beside)}" if found.beside else "-"
        verdict = "reached" if found.ratio <= goal.most else "missed"
        said = f"{found.ratio:.2f}" if found.beside else f"{found.ratio:.0f}"
        measured = f"{found.day}, {found.commit}"
        shown.append([goal.work, f"{found.cost:.1f}", other, said, f"{goal.most:g}", verdict, measured])
    return shown


HEADER = ["CPU μs, if nothing else is said", "penstock", "beside", "ratio", "at most", "", "measured"]


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--publish", action="store_true", help="write the tables into the pages")
    given = parser.parse_args()
    lines = table.markdown_table(HEADER, rows())
    if given.publish:
        PAGE.write_text(table.render(PAGE.read_text(), "\n".join(lines), BEGIN, END))
        caching_tables.PAGE.write_text(caching_tables.page(caching_tables.PAGE.read_text()))
    else:
        print("\n".join(lines))
    return 1 if any(figure(goal) is None for goal in GOALS) else 0


if __name__ == "__main__":
    sys.exit(main())
