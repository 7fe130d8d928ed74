"""What counts.py reads out of callgrind's files, and when it says that a count is higher than it was."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import pytest

import counts
from harness import callgrind, counts_table
from harness.counts_table import Figures

# Of one thread: `serve` takes 110 itself, calls malloc of libc twice and one of its own once.
PROFILE = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
part: 1
thread: 1

positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 161

ob=(1) /usr/lib/engine.so
fl=(1) serve.rs
fn=(1) serve
12 100
+3 10
cob=(2) /usr/lib/x86_64-linux-gnu/libc.so.6
cfi=(2) malloc.c
cfn=(2) malloc
calls=2 3281
* 40
cfn=(3) malloc
calls=1 99
-2 7

fn=(3)
99 7

ob=(2)
fl=(2)
fn=(2)
3281 30
fe=(3)
* 10
cfn=(2)
calls=1 3281
* 9
fn=(4) malloc'2
3281 4

totals: 161 5 4 3 2 1 17 12
"""
RELAY = Figures(
    "relay-16k",
    "penstock-native",
    "request",
    instructions=50_000.0,
    allocations=35.0,
    calls=8.0,
    wakeups=None,
    spread=0.001,
)


def test_a_function_counts_what_it_executes_itself() -> None:
    profile = callgrind.parse(PROFILE)
    assert profile.instructions == 161
    assert profile.functions == {
        ("/usr/lib/engine.so", "serve"): 110,
        ("/usr/lib/engine.so", "malloc"): 7,
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "malloc"): 40,
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "malloc'2"): 4,
    }


def test_allocations_are_calls_of_libc_alone() -> None:
    assert callgrind.parse(PROFILE).allocations == 3


def test_cache_lines_are_what_the_last_level_cache_misses() -> None:
    profile = callgrind.parse(PROFILE)
    assert (profile.code_lines, profile.data_lines) == (17, 12)


def test_without_a_simulated_cache_there_are_no_lines() -> None:
    profile = callgrind.parse("events: Ir\nfn=(1) serve\n12 100\ntotals: 100\n")
    assert (profile.instructions, profile.code_lines, profile.data_lines) == (100, 0, 0)


def higher(now: Figures, was: Figures = RELAY) -> list[str]:
    return counts_table.higher([now], {(was.row, was.gateway): was})


def test_a_count_is_higher_by_more_than_half_a_percent() -> None:
    assert not higher(replace(RELAY, instructions=50_249.0))
    assert higher(replace(RELAY, instructions=50_251.0)) == [
        "relay-16k penstock-native: 50,251.00 instructions, 50,000.00 before"
    ]


def test_a_count_is_higher_by_more_than_its_spread() -> None:
    assert not higher(replace(RELAY, instructions=50_900.0, spread=0.02))
    assert not higher(replace(RELAY, instructions=50_900.0), replace(RELAY, spread=0.02))
    assert higher(replace(RELAY, instructions=51_100.0, spread=0.02))


def test_one_call_more_is_higher() -> None:
    assert higher(replace(RELAY, calls=9.0))
    assert higher(replace(RELAY, allocations=36.0))
    assert higher(replace(RELAY, wakeups=2.0), replace(RELAY, wakeups=1.0))


def test_a_peer_may_be_higher_than_it_was() -> None:
    peer = replace(RELAY, gateway="nginx")
    assert not higher(replace(peer, instructions=60_000.0), peer)


def test_rows_are_not_compared_with_those_of_other_tools() -> None:
    tools = {"rustc": "1.95.0", "python": "3.11.7", "nginx": "1.22.1"}
    before = counts_table.known(asdict(row) for row in (RELAY, replace(RELAY, row="handler", wakeups=1.0)))
    for name, rows in (("nginx", {"relay-16k", "handler"}), ("python", {"relay-16k"}), ("rustc", set())):
        others = counts_table.other_tools(tools, tools | {name: "1.0"})
        assert {row for row, _ in counts_table.comparable(before, others)} == rows
    assert others == {"rustc": "rustc: 1.95.0 now, 1.0 before"}


def test_how_often_two_threads_wait_for_one_another_makes_a_row_no_higher() -> None:
    was = replace(RELAY, wakeups=1.0, calls=6.0, system_calls={"epoll_wait": 2.0, "write": 4.0})
    assert not higher(replace(was, calls=8.0, system_calls={"epoll_wait": 4.0, "write": 4.0}), was)
    assert higher(replace(was, calls=6.0, system_calls={"epoll_wait": 1.0, "write": 5.0}), was)


def test_a_run_against_none_is_shown_beside_what_the_last_run_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = {"rustc": "1.95.0", "python": "3.11.7"}
    shown = {"revision": "b82b672", "date": "2026-11-22", "rows": [asdict(RELAY)]}
    monkeypatch.setattr(counts, "OUTPUT", tmp_path / "counts.json")
    assert counts.beside({}, {}, tools)["rows"] == []
    counts.OUTPUT.write_text(json.dumps({"versions": tools, "before": shown}))
    assert counts.beside({}, {}, tools) == shown
    assert counts.beside({}, {}, tools | {"rustc": "1.96.0"}) == shown | {"rows": []}


def test_a_run_against_another_is_shown_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "OUTPUT", tmp_path / "counts.json")
    kept = {"revision": "1a169c0", "date": "2026-11-28", "rows": [asdict(RELAY)]}
    before = counts_table.known(kept["rows"])
    assert counts.beside(kept, before, {}) == kept


def test_the_table_shows_both_runs() -> None:
    now = replace(RELAY, instructions=45_000.0, code_lines=2000.0, data_lines=900.0)
    lines = counts_table.markdown([now], {(RELAY.row, RELAY.gateway): RELAY}).splitlines()
    assert lines[2].startswith(
        "| native relay, 16 KiB: **penstock**, native lane | 45,000 | 50,000 | -10.0% | - | 35.0 | 2,000, 900 | 8.0 |"
    )
