"""The benchmark's figures as readers see them: the best rounds, ratios, what is void or absent, and the README's
markers."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import goals
from harness import caching_tables, results, secured_table, table
from harness.measurement import Cell, Round
from harness.settings import FULL


def rounds(*cpu_us: float, other_cpu: float = 0.0, errors: tuple[str, ...] = ()) -> list[Round]:
    """One round of 1,000 requests of 64 KiB for each figure."""
    return [Round(1000, 1000 << 16, 5.0, value / 1000, 100.0, 900.0, other_cpu, errors) for value in cpu_us]


def result(*cells: Cell, date: str = "2026-11-21T10:00:00+00:00", **absent: str) -> results.Result:
    machine = {"kernel": "6.18", "architecture": "x86_64", "cpu": "EPYC", "cores": "2"}
    machine["python"] = "3.11.2 (main, Apr 28 2025, 14:11:48) [GCC 12.2.0]"
    versions = {"nginx": "nginx version: nginx/1.22.1", "go": "go version go1.26.8 linux/amd64"}
    return results.Result(date, "full", FULL, machine, versions, "abc1234", absent, list(cells), [], "")


@pytest.fixture
def measured() -> results.Result:
    return result(
        Cell("aiohttp", "segment-64k", rounds(140, 100, 110, 120)),
        Cell("nginx", "segment-64k", rounds(25, 30, 28)),
        Cell("go", "segment-64k", rounds(50, errors=("3 status_errors",))),
        Cell("aiohttp", "events", rounds(20)),
        Cell("aiohttp-lines", "events", rounds(40)),
        haproxy="haproxy is not installed (package: haproxy)",
    )


def row(document: str, title: str) -> list[str]:
    lines = [line for line in document.splitlines() if line.startswith(f"| {title} |")]
    assert len(lines) == 1, f"{title}: {lines}"
    return [column.strip() for column in lines[0].strip("|").split("|")]


def test_a_cell_shows_the_best_round_and_its_share_of_aiohttp(measured: results.Result) -> None:
    document = table.markdown(measured)
    assert row(document, "aiohttp + uvloop")[2] == "100 (1.00)"
    assert row(document, "nginx")[2] == "25.0 (0.25)"


def test_events_are_compared_with_both_ways_of_aiohttp(measured: results.Result) -> None:
    assert row(table.markdown(measured), "aiohttp + uvloop, by line")[1:4] == ["40.0", "2.00", "1.00"]
    assert row(table.markdown(measured), "aiohttp + uvloop, by chunk")[1:4] == ["20.0", "1.00", "0.50"]


def test_a_handler_is_compared_by_whose_transport_it_is_on() -> None:
    measured = result(Cell("aiohttp", "handler", rounds(50)), Cell("penstock", "handler", rounds(55)))
    document = table.markdown(measured)
    assert row(document, "aiohttp on uvloop's transport")[1] == "50.0 (1.00)"
    assert row(document, "aiohttp on **penstock**'s transport")[1] == "55.0 (1.10)"


def test_an_error_in_one_round_voids_the_cell_and_says_so(measured: results.Result) -> None:
    assert row(table.markdown(measured), "Go ReverseProxy")[2] == "void"
    assert "void: 3 status_errors" in table.terminal(measured)


def test_what_is_absent_is_named_with_its_reason(measured: results.Result) -> None:
    assert row(table.markdown(measured), "HAProxy")[1] == "absent"
    assert "absent: haproxy: haproxy is not installed (package: haproxy)" in table.terminal(measured)


def test_the_spread_is_that_of_the_three_best_rounds(measured: results.Result) -> None:
    cell = measured.cell("aiohttp", "segment-64k")
    assert cell is not None
    assert cell.spread == pytest.approx(0.2)
    assert "of a cell took at most 20% more than the best" in table.markdown(measured)


def test_a_cell_whose_best_rounds_differ_has_no_figure_in_the_readme() -> None:
    steady, wide = rounds(100, 110, 125), rounds(100, 110, 126)
    measured = result(Cell("aiohttp", "segment-64k", wide), Cell("nginx", "segment-64k", steady))
    assert row(table.markdown(measured), "aiohttp + uvloop")[2] == "unsteady"
    assert row(table.markdown(measured), "nginx")[2] == "100 (-)"
    assert "of a cell took at most 25% more" in table.markdown(measured)


def test_an_event_whose_best_rounds_differ_has_no_figure_in_the_readme() -> None:
    measured = result(
        Cell("aiohttp", "events", rounds(20, 26, 30)), Cell("nginx", "events", rounds(10, 10, 10))
    )
    assert row(table.markdown(measured), "aiohttp + uvloop, by chunk")[1:4] == ["unsteady", "-", "-"]
    assert row(table.markdown(measured), "nginx, proxy_buffering off")[1:4] == ["10.0", "-", "-"]


def test_versions_are_numbers(measured: results.Result) -> None:
    assert "Python 3.11.2, nginx 1.22.1, go 1.26.8." in table.markdown(measured)


def test_render_replaces_only_what_is_between_the_markers() -> None:
    readme = f"# before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    once = table.render(readme, "| new |")
    assert once == f"# before\n{table.BEGIN}\n\n| new |\n\n{table.END}\nafter\n"
    assert table.render(once, "| new |") == once


@pytest.mark.parametrize(
    "readme",
    ["", table.BEGIN, f"{table.END} {table.BEGIN}", f"{table.BEGIN} {table.END} {table.BEGIN}"],
    ids=["none", "no end", "wrong order", "twice"],
)
def test_render_refuses_a_document_without_the_markers(readme: str) -> None:
    with pytest.raises(ValueError, match="once, in this order"):
        table.render(readme, "new")


def test_a_result_is_read_back_as_it_was_saved(measured: results.Result, tmp_path: Path) -> None:
    path = results.save(measured, tmp_path)
    assert results.load(path) == measured
    assert table.markdown(results.load(path)) == table.markdown(measured)


def test_a_peer_off_its_median_of_the_day_voids_the_run() -> None:
    def run(hour: int, cost: float, gateway: str = "nginx") -> results.Result:
        return result(Cell(gateway, "segment-64k", rounds(cost)), date=f"2026-11-21T{hour}:00:00+00:00")

    earlier = [run(10, 30), run(11, 31)]
    steady, slow = run(12, 36), run(12, 40)
    results.judge(steady, earlier)
    results.judge(slow, earlier)
    assert steady.void == []
    assert slow.void == ["nginx segment-64k: 40.0 μs is +29% off the day's 31.0 μs"]
    assert "VOID RUN: nginx" in table.terminal(slow)


def test_a_busy_machine_voids_a_run_and_does_not_make_the_median_of_the_day() -> None:
    busy = result(Cell("nginx", "segment-64k", rounds(90, 90, 90, other_cpu=0.5)))
    results.judge(busy, [])
    assert busy.void == ["other programs used 50% of the two cores (median of the rounds)"]
    later = result(Cell("nginx", "segment-64k", rounds(30)), date="2026-11-21T11:00:00+00:00")
    results.judge(later, [busy])
    assert later.void == []


def test_a_cell_without_a_figure_neither_voids_a_run_nor_makes_the_median_of_the_day() -> None:
    def run(hour: int, *costs: float) -> results.Result:
        return result(Cell("aiohttp", "segment-512k", rounds(*costs)), date=f"2026-11-21T{hour}:00:00+00:00")

    unsteady = run(10, 240, 450, 470)
    steady = run(11, 450, 460, 470)
    results.judge(steady, [unsteady])
    assert steady.void == []
    later = run(12, 239, 460, 480)
    results.judge(later, [steady, run(13, 455, 465, 470)])
    assert later.void == []


def test_neither_penstock_nor_another_day_voids_a_run() -> None:
    def run(date: str, gateway: str, cost: float) -> results.Result:
        return result(Cell(gateway, "segment-64k", rounds(cost)), date=f"{date}:00:00+00:00")

    faster = run("2026-11-21T12", "penstock", 10)
    results.judge(faster, [run("2026-11-21T10", "penstock", 40), run("2026-11-21T11", "penstock", 41)])
    assert faster.comparison.startswith("each peer was compared with its median over 2 earlier")
    assert faster.void == []
    next_day = run("2026-11-22T10", "nginx", 60)
    results.judge(next_day, [run("2026-11-21T12", "nginx", 30)])
    assert next_day.void == []
    assert next_day.comparison.startswith("the first run of the day")


def test_the_readme_gets_the_latest_full_run_that_is_not_void(
    measured: results.Result, tmp_path: Path
) -> None:
    with pytest.raises(LookupError, match="none of the 0 results"):
        results.latest_valid(tmp_path)
    void = result(date="2026-11-21T11:00:00+00:00")
    void.void = ["nginx"]
    quick = result(date="2026-11-21T12:00:00+00:00")
    quick.scope = "quick"
    for each in (measured, void, quick):
        results.save(each, tmp_path)
    (tmp_path / "boundary.json").write_text("{}")
    assert results.latest_valid(tmp_path) == measured


def test_rounds_are_added_to_the_workloads_that_have_an_unsteady_cell() -> None:
    unsteady = Cell("nginx", "segment-512k", rounds(30, 50, 60))
    measured = result(unsteady, Cell("nginx", "segment-64k", rounds(20, 20, 20)))
    assert [workload.name for workload in table.unsteady(measured)] == ["segment-512k"]
    again = measured.settings.again
    results.add(measured, [Cell("nginx", "segment-512k", rounds(31, 32))])
    assert table.unsteady(measured) == []
    assert len(unsteady.rounds) == 5
    assert unsteady.cpu_us == pytest.approx(30)
    assert measured.settings.again == again + 2


def test_a_cell_that_fails_when_it_is_measured_again_is_void() -> None:
    measured = result(Cell("nginx", "segment-64k", rounds(20, 20, 20)))
    results.add(measured, [Cell("nginx", "segment-64k", failure="it ended")])
    assert measured.cells[0].void == "it ended"


def test_the_guide_has_what_was_measured_of_tls() -> None:
    page = (Path(__file__).parent.parent / "docs" / "guide" / "tls.md").read_text()
    kept = json.loads((results.DIRECTORY / "secured.json").read_text())
    shown = page.partition(secured_table.BEGIN)[2].partition(secured_table.END)[0]
    assert secured_table.markdown(kept["rows"]) in shown
    assert kept["revision"] in shown
    assert row(shown, "relay-16k, h2, 16 x 1")[1]


def test_a_void_cell_is_empty_in_the_guide() -> None:
    rows = [
        {"gateway": "penstock-app", "workload": "handler-h2-16x1", "cpu_us": 30.04},
        {"gateway": "hypercorn", "workload": "handler-h2-16x1", "cpu_us": None},
    ]
    assert secured_table.markdown(rows).splitlines()[2] == "| handler, h2, 16 x 1 | 30.0 |  |  |  |  |  |"


def test_the_page_of_the_load_generator_has_what_was_measured_beside_k6() -> None:
    page = (Path(__file__).parent.parent / "docs" / "operations" / "load.md").read_text()
    rows = json.loads((results.DIRECTORY / "load_peers.json").read_text())["rows"]
    for title, name in (
        ("`penstock load`", "penstock"),
        ("k6, bodies discarded", "k6-discard"),
        ("k6", "k6"),
    ):
        of_it = [each for each in rows if each["tool"] == name and each["void"] is None]
        memory = min(each["resident"] for each in of_it) / 1e6
        cost = min(each["cpu_seconds"] / each["bytes"] for each in of_it) * 1e9
        assert row(page, title)[1:] == [f"{memory:.0f} MB", f"{cost:.2f} s"]


def test_the_page_of_the_load_generator_has_what_one_core_made() -> None:
    page = (Path(__file__).parent.parent / "docs" / "operations" / "load.md").read_text()
    rows = json.loads((results.DIRECTORY / "load_capacity.json").read_text())["rows"]

    def middle(workload: str, name: str) -> float:
        return median(
            each[name] for each in rows if each["workload"] == workload and each["verdict"] != "void"
        )

    page = " ".join(page.split())
    for workload in ("hls", "thin"):
        assert f"{middle(workload, 'generator'):.0%}".replace("%", " %") in page
        assert f"{middle(workload, 'late') * 1e3:.1f} ms late" in page
    assert f"got {round(middle('events', 'rate'), -3):,.0f} events a second" in page
    assert f"for {middle('events', 'unit_us'):.1f} µs an event" in page


GOAL = goals.Goal("relay", "compare", ("penstock-native", "segment-16k"), ("nginx", "haproxy"), 1.05)


def keep(directory: Path, *cells: Cell) -> Path:
    results.save(result(*cells), directory)
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


def test_a_rate_is_compared_where_gateways_had_both_cores(tmp_path: Path) -> None:
    goal = goals.Goal("handler", "both cores", ("penstock", "handler"), ("aiohttp",), 0.71)
    one = [Cell(name, "handler", rounds(30)) for name in ("penstock", "aiohttp")]
    with pytest.raises(LookupError, match="both cores"):
        goals.figure(goal, keep(tmp_path / "none", *one))
    both = result(one[0], Cell("aiohttp", "handler", [replace(one[1].rounds[0], seconds=7.5)]))
    settings = replace(FULL, both_cores=True)
    results.save(
        replace(both, scope="partial", settings=settings, date="2026-11-22T10:00:00+00:00"), tmp_path
    )
    keep(tmp_path, *one)
    figure = goals.figure(goal, tmp_path)
    assert figure is not None
    assert (figure.cost, figure.ratio, figure.day) == (5000.0, pytest.approx(5 / 7.5), "2026-11-22")


def test_the_page_shows_what_is_kept() -> None:
    page = goals.PAGE.read_text()
    shown = "\n".join(table.markdown_table(goals.HEADER, goals.rows()))
    assert table.render(page, shown, goals.BEGIN, goals.END) == page, "run benchmarks/goals.py --publish"


def test_the_guide_to_caching_shows_what_was_kept() -> None:
    page = caching_tables.PAGE.read_text()
    assert caching_tables.page(page) == page, "run benchmarks/goals.py --publish"
