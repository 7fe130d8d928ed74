"""The table of goals: what is compared with what, and that the page shows what is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import goals
from harness import results, table
from harness.measurement import Cell, Round
from harness.settings import FULL

GOAL = goals.Goal("relay", "compare", ("penstock-native", "segment-16k"), ("nginx", "haproxy"), 1.05)


def rounds(*cpu_us: float) -> list[Round]:
    return [Round(1000, 1000 << 14, 5.0, value / 1000, 100.0, 900.0, 0.0, ()) for value in cpu_us]


def keep(directory: Path, *cells: Cell) -> Path:
    date = "2026-11-21T10:00:00+00:00"
    run = results.Result(date, "full", FULL, {}, {}, "abc1234", {}, list(cells), [], "")
    results.save(run, directory)
    return directory


def test_a_cost_is_compared_with_the_cheapest_of_the_others(tmp_path: Path) -> None:
    cells = (
        Cell("penstock-native", "segment-16k", rounds(24, 24, 24)),
        Cell("nginx", "segment-16k", rounds(30, 30, 30)),
        Cell("haproxy", "segment-16k", rounds(20, 20, 20)),
    )
    figure = goals.figure(GOAL, keep(tmp_path, *cells))
    assert figure is not None
    assert (figure.ratio, figure.beside, figure.commit) == (pytest.approx(1.2), "haproxy", "abc1234")


@pytest.mark.parametrize("others", [(), ((20, 30, 40),)], ids=["absent", "unsteady"])
def test_there_is_no_figure_without_a_steady_cell_of_each(
    tmp_path: Path, others: tuple[tuple[float, ...], ...]
) -> None:
    cells = [Cell("haproxy", "segment-16k", rounds(*each)) for each in others]
    cells += [Cell(name, "segment-16k", rounds(24, 24, 24)) for name in ("penstock-native", "nginx")]
    assert goals.figure(GOAL, keep(tmp_path, *cells)) is None


def test_the_page_shows_what_is_kept() -> None:
    page = goals.PAGE.read_text()
    shown = "\n".join(table.markdown_table(goals.HEADER, goals.rows()))
    assert table.render(page, shown, goals.BEGIN, goals.END) == page, "run benchmarks/goals.py --publish"
