"""Histograms, their log and assertions, by themselves and against another implementation."""

import random
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from penstock.load.assertion import FaultyAssertionError, figures, parsed
from penstock.load.histogram import added, percentile
from penstock.load.hlog import encoded, log_lines


def recorded(values: list[int]) -> tuple[HdrHistogram, list[tuple[int, int]]]:
    """The same values in the other implementation, and as the generator leaves them."""
    oracle = HdrHistogram(1, 120_000_000, 3)
    for value in values:
        oracle.record_value(value)
    counts = [
        (each.value_iterated_to, each.count_at_value_iterated_to) for each in oracle.get_recorded_iterator()
    ]
    return oracle, counts


def values(seed: int, count: int) -> list[int]:
    numbers = random.Random(seed)
    return [max(1, min(120_000_000, int(numbers.lognormvariate(8, 3)))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_log_is_read_by_another_implementation(seed: int) -> None:
    oracle, counts = recorded(values(seed, 3000))
    read = HdrHistogram.decode(encoded(counts))
    assert read.get_total_count() == 3000
    found = [
        (each.value_iterated_to, each.count_at_value_iterated_to) for each in read.get_recorded_iterator()
    ]
    assert found == counts
    for percent in (50, 90, 99, 99.9, 100):
        assert percentile(counts, percent) == oracle.get_value_at_percentile(percent)


def test_the_edges_of_a_histogram_are_encoded() -> None:
    edges = [1, 2, 2047, 2048, 2049, 4095, 4096, 119_999_999]
    _, counts = recorded(edges)
    assert HdrHistogram.decode(encoded(counts)).get_total_count() == len(edges)
    assert len(counts) == len({value for value, _ in counts})


def test_histograms_of_two_machines_add_up_to_one_bin_by_bin() -> None:
    first, second = values(1, 500), values(2, 700)
    assert added([recorded(first)[1], recorded(second)[1]]) == recorded(first + second)[1]


def test_a_log_has_a_line_for_each_class_and_second() -> None:
    counts = recorded([5000, 7000])[1]
    thread: dict[str, Any] = {"classes": [{"class": "segment", "seconds": [(0, counts), (3, counts)]}]}
    lines = list(log_lines([thread, thread], 1000.0))
    assert lines[0] == "#[Histogram log format version 1.3]"
    tags = [line.rsplit(",", 1)[0] for line in lines[3:]]
    assert tags == ["Tag=segment,0.000,1.000,7.003", "Tag=segment,3.000,1.000,7.003"]
    assert HdrHistogram.decode(lines[3].rsplit(",", 1)[1]).get_total_count() == 4


SUMMARY: dict[str, Any] = {
    "sessions": {"started": 10, "failed": 1},
    "requests": {"segment": {"count": 98, "due": {"p99": 0.25, "max": None}}},
    "generator": {"cpu": [0.5], "lateness": {"p99": 0.001}},
    "qoe": {"startup": {"p95": 1.2}, "rebuffer": 0.004},
    "workloads": {"viewers": {"bitrate": 3e6}},
    "events": {"gaps": 0, "repeats": 1},
    "errors": [{"class": "segment", "cause": "status 500", "count": 2}],
}


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("startup.p95 > 1.5s", False),
        ("startup.p95>1100ms", True),
        ("rebuffer > 0.5%", False),
        ("rebuffer >= 0.4 %", True),
        ("errors > 0", True),
        ("error_ratio > 2%", False),
        ("viewers.bitrate < 2 Mbit/s", False),
        ("requests.segment.due.p99 != 250ms", False),
        ("sessions.failed == 1", True),
        ("gaps > 0", False),
        ("repeats > 0", True),
    ],
)
def test_assertions_compare_figures(text: str, fails: bool) -> None:
    assert (parsed(text).holds(figures(SUMMARY)) is not None) == fails


@pytest.mark.parametrize(
    "text", ["", "startup.p95", "startup.p95 > x", "startup.p95 > 1 parsec", "> 1", "a = 1"]
)
def test_a_faulty_assertion_is_refused(text: str) -> None:
    with pytest.raises(FaultyAssertionError, match="must be like"):
        parsed(text)


def test_a_figure_that_is_not_there_is_no_success() -> None:
    with pytest.raises(FaultyAssertionError, match=r"startup\.p96 is no figure"):
        parsed("startup.p96 > 1s").holds(figures(SUMMARY))
