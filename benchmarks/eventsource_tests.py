"""Suites of EventSource through `penstock serve`: `make eventsource-tests WPT=CHECKOUT EVENTSOURCE=CHECKOUT`.

Neither suite is part of this repository. WPT is a checkout of https://github.com/web-platform-tests/wpt, of which its
eventsource tests are run, in Chromium (`sudo apt-get install chromium`); EVENTSOURCE is one of
https://github.com/EventSource/eventsource in which `npm install` has been run. Either may be left out.

Each suite is run three times: directly against its own server, and with penstock in front of that, on the native lane
and on the application's. Printed are the tests that fail by any way, beside what they do by the others, and the scores;
the results of a run with both are kept in results/eventsource-tests.json. Exit status: 1 when a test fails through
penstock that passes without.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import eventsource_client, results, web_platform
from harness.builds import AbsentError
from harness.gateways import first_line
from harness.suites import DIRECT, WAYS, Result

OUTPUT = results.DIRECTORY / "eventsource-tests.json"
SUITES = {"web-platform-tests": web_platform.run, "eventsource": eventsource_client.run}


@dataclass(frozen=True)
class Row:
    """One test of one suite: what became of it by each way, and what was said of it where it did not pass."""

    suite: str
    test: str
    results: dict[str, str]
    said: dict[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether it fails because of penstock."""
        return self.results[DIRECT] == "pass" and self.failed

    @property
    def failed(self) -> bool:
        return any(result != "pass" for result in self.results.values())


def rows_of(suite: str, found: dict[str, list[Result]]) -> list[Row]:
    """Join the runs by the tests' names. What a run has no result of has not been run in it."""
    by_way = {way: named(each) for way, each in found.items()}
    tests = dict.fromkeys(test for each in by_way.values() for test in each)
    none = Result("", "not run", "")
    return [
        Row(
            suite,
            test,
            {way: each.get(test, none).result for way, each in by_way.items()},
            {way: each[test].said for way, each in by_way.items() if test in each and each[test].said},
        )
        for test in tests
    ]


def named(results: list[Result]) -> dict[str, Result]:
    """By name. A name that comes again gets a number."""
    found: dict[str, Result] = {}
    for result in results:
        names = (result.test, *(f"{result.test} ({number})" for number in range(2, len(results) + 2)))
        found[next(name for name in names if name not in found)] = result
    return found


def show(rows: list[Row]) -> None:
    for row in rows:
        if row.failed:
            print(f"{row.suite}: {row.test}{' (PENSTOCK)' if row.is_ours else ''}")
            for way, result in row.results.items():
                said = row.said.get(way, "").strip().partition("\n")[0]
                print(f"    {way}: {result}{': ' if said else ''}{said}")
    print(f"{'':20}" + "".join(f"{way:>10}" for way in WAYS) + f"{'of':>6}")
    for suite, score in scores(rows).items():
        print(f"{suite:20}" + "".join(f"{score[way]:10}" for way in WAYS) + f"{score['of']:6}")


def scores(rows: list[Row]) -> dict[str, dict[str, int]]:
    """Return how many tests of each suite pass by each way, and of how many."""
    found = {}
    for suite in dict.fromkeys(row.suite for row in rows):
        of_suite = [row for row in rows if row.suite == suite]
        found[suite] = {way: sum(row.results[way] == "pass" for row in of_suite) for way in WAYS}
        found[suite]["of"] = len(of_suite)
    return found


def commit(checkout: Path) -> str:
    """Return which one is checked out, and of what day it is."""
    asked = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %cs"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def versions(checkouts: dict[str, Path]) -> dict[str, str]:
    return {suite: commit(checkout) for suite, checkout in checkouts.items()} | {
        "penstock": first_line(sys.executable, "python", "-m", "penstock", "--version"),
        "chromium": first_line("chromium", "chromium", "--version"),
        "node": first_line("node", "nodejs", "--version"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wpt", type=Path, help="the checkout of web-platform-tests")
    parser.add_argument("--eventsource", type=Path, help="the checkout of the client")
    parser.add_argument("--only", default="", help="only pages of WPT whose address has this in it")
    arguments = parser.parse_args()
    checkouts = {"web-platform-tests": arguments.wpt, "eventsource": arguments.eventsource}
    rows: list[Row] = []
    for suite, run in SUITES.items():
        if checkouts[suite] is None:
            continue
        found = {}
        for way in WAYS:
            with TemporaryDirectory(prefix="penstock-eventsource-") as name:
                try:
                    found[way] = run(checkouts[suite].resolve(), way, Path(name), arguments.only)
                except AbsentError as error:
                    raise SystemExit(str(error)) from error
            print(f"{suite}, {way}: {len(found[way])} tests", file=sys.stderr, flush=True)
        rows += rows_of(suite, found)
    if not rows:
        raise SystemExit("nothing was run: see --wpt and --eventsource")
    show(rows)
    if all(checkouts.values()) and not arguments.only:
        results.publish(OUTPUT, rows, scores=scores(rows), versions=versions(checkouts))
    return int(any(row.is_ours for row in rows))


if __name__ == "__main__":
    sys.exit(main())
