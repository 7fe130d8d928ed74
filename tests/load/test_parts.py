"""Several machines: each has its part of the sessions, and what they found adds up to one run."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.load.kept import Kept

from .runs import load, penstock, titles, viewers

TIMES = [round(0.02 * at, 2) for at in range(30)]
# Two threads: parts and threads share the sessions.
TWO = "[run]\nthreads = 2\n"


def bins(directory: Path) -> dict[tuple[str, str], Counter[int]]:
    """The counts of each bin, by class and form, as the threads of a run have them."""
    found: dict[tuple[str, str], Counter[int]] = {}
    for thread in json.loads((directory / "records.json").read_text())["records"]:
        for each in thread["classes"]:
            for form in ("due", "sent", "first"):
                counts = found.setdefault((each["class"], form), Counter())
                for value, count in each[form]:
                    counts[value] += count
    return found


async def test_the_parts_of_a_run_are_disjoint_and_make_it_up(tmp_path: Path) -> None:
    asked: dict[str, dict[str, list[str]]] = {}
    for part in ("1/1", "1/3", "2/3", "3/3"):
        async with titles() as server:
            told = ("--target", server.url, "--part", part)
            ended = await load(tmp_path / part.replace("/", "-"), viewers(TIMES, more=TWO), *told)
            assert (ended.status, ended.summary["sessions"]["failed"]) == (0, 0)
            asked[part] = dict(server.asked)
    whole = asked.pop("1/1")
    assert [len(each) for each in asked.values()] == [10, 10, 10]
    together: dict[str, list[str]] = {}
    for each in asked.values():
        assert not together.keys() & each.keys()
        together |= each
    assert together == whole

    directories = [tmp_path / f"{part}-3" / "run" for part in (3, 1, 2)]
    status, output, errors = await penstock("load", "merge", *directories, "--out", tmp_path / "all")
    assert status == 0, errors
    assert "30 started" in output
    added: dict[tuple[str, str], Counter[int]] = {}
    for directory in directories:
        for key, counts in bins(directory).items():
            added[key] = added.get(key, Counter()) + counts
    assert bins(tmp_path / "all") == added
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    one = json.loads((tmp_path / "1-1" / "run" / "summary.json").read_text())
    assert {name: each["count"] for name, each in summary["requests"].items()} == {
        name: each["count"] for name, each in one["requests"].items()
    }
    assert summary["sessions"]["completed"] == one["sessions"]["completed"] == 30
    assert (summary["part"], summary["parts"], summary["generator"]["threads"]) == (0, 1, 6)


def split(directory: Path, out: Path) -> list[Path]:
    """The threads of a run as if each had been a machine."""
    kept = Kept.read(directory)
    found = []
    for part, thread in enumerate(kept.records):
        arguments = replace(kept.arguments, part=part, parts=len(kept.records))
        path = out / str(part)
        path.mkdir(parents=True)
        # The counts so far of a thread are those of all threads of its machine.
        seconds = [
            {**row, **dict.fromkeys(("started", "requests", "bytes", "errors"), 0)}
            for row in thread["seconds"]
        ]
        record: dict[str, Any] = {
            **thread,
            "machine": part,
            "seconds": seconds if part else thread["seconds"],
        }
        replace(kept, arguments=arguments, records=[record]).write(path)
        found.append(path)
    return found


async def test_histograms_of_two_agents_added_are_those_of_one_run_bin_by_bin(tmp_path: Path) -> None:
    async with titles() as server:
        ended = await load(tmp_path, viewers(TIMES, more=TWO), "--target", server.url)
    parts = split(ended.directory, tmp_path / "parts")
    status, _, errors = await penstock("load", "merge", *parts, "--out", tmp_path / "all")
    assert status == 0, errors
    assert bins(tmp_path / "all") == bins(ended.directory)
    log = "latencies.hlog"
    assert (tmp_path / "all" / log).read_bytes() == (ended.directory / log).read_bytes()
    assert json.loads((tmp_path / "all" / "summary.json").read_text()) == ended.summary
    assert (tmp_path / "all" / "report.html").exists()


async def test_what_is_no_whole_run_is_not_merged(tmp_path: Path) -> None:
    async with titles() as server:
        for name, seed, part in (("a", 7, "1/2"), ("b", 7, "2/2"), ("c", 8, "2/2")):
            told = ("--target", server.url, "--part", part)
            await load(tmp_path / name, viewers([0.0, 0.1]), *told, seed=seed)
    runs = {name: tmp_path / name / "run" for name in "abc"}

    async def refused(*names: str) -> str:
        directories = [runs[name] for name in names]
        status, _, errors = await penstock("load", "merge", *directories, "--out", tmp_path / "all")
        assert status == 2
        return errors.replace("\n", " ")

    assert "each part of a run is needed once: there are 1/2" in await refused("a")
    assert "there are 1/2, 1/2" in await refused("a", "a")
    assert "differ in their scenario, their duration or their seed" in await refused("a", "c")
    (runs["b"] / "records.json").write_text("{}")
    assert "has no records of a run" in await refused("a", "b")


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/0"])
async def test_a_faulty_part_is_refused(tmp_path: Path, part: str) -> None:
    ended = await load(tmp_path, viewers([0.0]), "--embedded-origin", "--part", part)
    assert ended.status == 2
    assert "must be like 1/3" in ended.errors


async def test_a_start_that_is_past_is_refused(tmp_path: Path) -> None:
    ended = await load(tmp_path, viewers([0.0]), "--embedded-origin", "--start-at", "1000")
    assert ended.status == 2
    assert "--start-at 1000: is" in ended.errors
