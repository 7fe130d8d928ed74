"""What counts.py shows of its figures, and what it says of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import command
from harness.counting import BY_NAME, GATEWAYS

BEGIN = "<!-- counts:begin -->"
END = "<!-- counts:end -->"
COLUMNS = (
    ("instructions", "instructions", 14, ",.0f"),
    ("loop", "of the loop", 13, ",.0f"),
    ("allocations", "allocations", 13, ".1f"),
    ("code_lines", "code lines", 12, ",.1f"),
    ("data_lines", "data lines", 12, ",.1f"),
    ("calls", "system calls", 14, ".2f"),
    ("wakeups", "wake-ups", 10, ".2f"),
    ("spread", "spread", 8, ".2%"),
)
# By how much a figure may be higher than in another run: as a share, or by the spread of either run if that is larger,
# and in whole ones, since strace meets some threads in the middle of a call.
MOST = {
    "instructions": (0.005, 0.0),
    "allocations": (0.005, 0.1),
    "calls": (0.005, 0.1),
    "wakeups": (0.0, 0.05),
}
# What instructions depend on besides penstock: of all rows, and of rows that have an event loop.
TOOLS = ("rustc", "libc", "valgrind")
LOOP_TOOLS = ("python", "aiohttp", "uvloop")
# By how much instructions may differ between builds that should be alike (arbitrary): one for all Pythons (abi3) takes
# more of them in the event loop, and on a busy machine threads wake one another at other times.
BUILDS = 0.03
# How often two threads that take turns wait depends on the time.
TIMED = ("epoll_pwait", "epoll_wait", "futex", "sched_yield")


@dataclass(frozen=True)
class Figures:
    """What a gateway counts for a row, per unit. `spread` is how far its rounds are apart."""

    row: str
    gateway: str
    unit: str
    instructions: float | None = None
    loop: float | None = None
    allocations: float | None = None
    code_lines: float | None = None
    data_lines: float | None = None
    calls: float | None = None
    wakeups: float | None = None
    spread: float | None = None
    void: str | None = None
    system_calls: dict[str, float] = field(default_factory=dict)
    rounds: list[float] = field(default_factory=list)


Known = Mapping[tuple[str, str], Figures]
"""Figures of a run, by row and gateway."""


def known(rows: Iterable[Mapping[str, Any]]) -> Known:
    """Return the figures of a run that was kept, without void ones."""
    kept = (Figures(**row) for row in rows)
    return {(figures.row, figures.gateway): figures for figures in kept if figures.void is None}


def show(rows: Sequence[Figures], before: Known) -> None:
    """Print all figures, and beside them the instructions of a run before."""
    for name in dict.fromkeys(row.row for row in rows):
        print(f"\n{BY_NAME[name].title}: for each {BY_NAME[name].unit}")
        of_it = [row for row in rows if row.row == name]
        command.show(of_it, COLUMNS, lambda row: GATEWAYS[row.gateway].title, 46)
        for row in of_it:
            calls = (f"{call} {each:.2f}" for call, each in row.system_calls.items() if each >= 0.01)
            print(f"  {row.gateway}: {', '.join(calls)}")
            if was := before.get((row.row, row.gateway)):
                print(f"  {row.gateway}: {_number(was.instructions)} instructions before, {change(was, row)}")


def change(was: Figures, now: Figures) -> str:
    """Return by how much the instructions differ, or nothing if one has none."""
    if not was.instructions or not now.instructions:
        return ""
    return f"{now.instructions / was.instructions - 1:+.1%}"


def comparable(before: Known, others: Mapping[str, str]) -> Known:
    """Return the rows of a run before that can be compared, if it was made with these `others` of the tools."""
    if any(name in others for name in TOOLS):
        return {}
    with_loop = not any(name in others for name in LOOP_TOOLS)
    return {key: was for key, was in before.items() if was.wakeups is None or with_loop}


def concerned(tool: str) -> str:
    """Return which rows depend on `tool`."""
    return "rows with an event loop" if tool in LOOP_TOOLS else "all rows"


def _counted(figures: Figures, name: str) -> float | None:
    if name == "calls" and figures.wakeups is not None and figures.system_calls:
        return sum(each for call, each in figures.system_calls.items() if call not in TIMED)
    counted: float | None = getattr(figures, name)
    return counted


def higher(rows: Iterable[Figures], before: Known, builds: float = 0.0) -> list[str]:
    """Return which of penstock's figures are higher than they were by more than MOST.

    Instructions may be higher by the share `builds`, if that is more.
    """
    said = []
    for row in rows:
        was = before.get((row.row, row.gateway))
        if was is None or not GATEWAYS[row.gateway].own:
            continue
        for name, (share, whole) in MOST.items():
            then, now = _counted(was, name), _counted(row, name)
            shares = (share, was.spread or 0, row.spread or 0, builds) if name == "instructions" else (share,)
            if then is not None and now is not None and now > then * (1 + max(shares)) + whole:
                said.append(f"{row.row} {row.gateway}: {now:,.2f} {name}, {then:,.2f} before")
    return said


def other_tools(versions: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return which tools were of another version in the run before, and of which."""
    return {
        name: f"{name}: {versions.get(name)} now, {before.get(name)} before"
        for name in (*TOOLS, *LOOP_TOOLS)
        if versions.get(name) != before.get(name)
    }


def _number(value: float | None, form: str = ",.0f") -> str:
    return "-" if value is None else format(value, form)


def markdown(rows: Sequence[Figures], before: Known) -> str:
    """Return the page's table: a line for each row and gateway."""
    names = ("instructions", "before", "", "of the event loop", "allocations", "lines of code, of data")
    lines = [
        "| | " + " | ".join((*names, "system calls", "wake-ups")) + " |",
        "|---|" + "---:|" * (len(names) + 2),
    ]
    for row in (row for row in rows if row.void is None):
        was = before.get((row.row, row.gateway), Figures(row.row, row.gateway, row.unit))
        cells = (
            _number(row.instructions),
            _number(was.instructions),
            change(was, row),
            _number(row.loop) if row.wakeups is not None else "-",
            _number(row.allocations, ".1f"),
            f"{_number(row.code_lines)}, {_number(row.data_lines)}",
            _number(row.calls, ".1f"),
            _number(row.wakeups, ".2f"),
        )
        title = f"{BY_NAME[row.row].title}: {GATEWAYS[row.gateway].title}"
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
