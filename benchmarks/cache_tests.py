"""http-tests/cache-tests against `penstock serve` and its peers: `make cache-tests CACHE_TESTS=CHECKOUT`.

The suite is not part of this repository. CHECKOUT is one of https://github.com/http-tests/cache-tests in which
`npm install` has been run. Its origin is started, and penstock in front of it as it is shipped, with a cache and nothing
else said; then nginx, Varnish and HAProxy, one after the other, with the configurations in peers/. Printed are each test
that penstock fails, by kind, and the scores; results are kept in results/cache-tests.json.
As on the suite's own page of results, a test passes only if the tests that it depends on do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import results
from harness.builds import AbsentError, require
from harness.caches import COMMANDS, version
from harness.processes import HOST, Process, free_port
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "cache-tests.json"
# Asks the suite itself what a result means, so that no rule of it is written twice.
JUDGE = """
import fs from 'node:fs'
import tests from './tests/index.mjs'
import { determineTestResult, resultTypes } from './test-engine/lib/results.mjs'
const results = JSON.parse(fs.readFileSync(0))
const names = new Map(Object.entries(resultTypes).map(([name, type]) => [type, name]))
const judged = []
for (const suite of tests) for (const test of suite.tests) {
  const found = determineTestResult(tests, test.id, results)
  const said = results[test.id] === true ? '' : String((results[test.id] || [])[1] || '')
  judged.push({ id: test.id, kind: test.kind || 'required', result: names.get(found), said })
}
console.log(JSON.stringify(judged))
"""
LIMIT_SECONDS = 900
CACHES = ("penstock", "nginx", "varnish", "haproxy")
# Those of browsers' own caches are not run, and those of behaviours have no right answer.
KINDS = ("required", "optimal")


@dataclass(frozen=True)
class Row:
    """One test of one cache. `result` is what the suite calls it, and `said` why."""

    cache: str
    id: str
    kind: str
    result: str
    said: str


def node(checkout: Path, *arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [require("node", "nodejs"), "--no-warnings", *arguments],
        cwd=checkout,
        input=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_SECONDS,
    )
    return done.stdout


def run(cache: str, checkout: Path, runtime: Path) -> list[Row]:
    upstream, port = free_port(), free_port()
    with ExitStack() as stack:
        folders = [runtime / name for name in ("origin", "gateway")]
        for folder in folders:
            folder.mkdir()
        os.environ |= {
            "npm_config_protocol": "http",
            "npm_config_port": str(upstream),
            "npm_config_pidfile": str(runtime / "pid"),
            "npm_config_base": f"http://{HOST}:{port}",
            # All tests.
            "npm_package_config_id": "",
        }
        server = [require("node", "nodejs"), str(checkout / "test-engine" / "server" / "server.mjs")]
        origin = stack.enter_context(Process(server, core=FULL.load_core, runtime=folders[0]))
        origin.wait_until_listening(upstream)
        command = COMMANDS[cache](f"{HOST}:{port}", f"{HOST}:{upstream}", folders[1])
        gateway = stack.enter_context(Process(command, core=FULL.gateway_core, runtime=folders[1]))
        gateway.wait_until_listening(port)
        found = node(checkout, "test-engine/cli.mjs")
    judged = node(checkout, "--input-type=module", "--eval", JUDGE, given=found)
    return [Row(cache, **row) for row in json.loads(judged)]


def tried(rows: list[Row], cache: str, kind: str) -> list[Row]:
    return [row for row in rows if (row.cache, row.kind) == (cache, kind) and row.result != "untested"]


def show_failures(rows: list[Row], cache: str) -> None:
    for kind in KINDS:
        for row in tried(rows, cache, kind):
            if row.result != "pass":
                print(f"{kind}: {row.id}: {row.result}: {row.said}")


def scores(rows: list[Row]) -> dict[str, dict[str, int]]:
    """How many tests each cache passes, by kind, and of how many."""
    found = {}
    for cache in dict.fromkeys(row.cache for row in rows):
        found[cache] = {kind: passed(tried(rows, cache, kind)) for kind in KINDS}
        found[cache]["all"] = sum(found[cache].values())
        found[cache]["of"] = sum(len(tried(rows, cache, kind)) for kind in KINDS)
    return found


def passed(rows: list[Row]) -> int:
    return sum(row.result == "pass" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--cache", action="append", choices=CACHES, help="only these; may be repeated")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "test-engine" / "cli.mjs").exists():
        raise SystemExit(f"{checkout} is no checkout of http-tests/cache-tests")
    rows: list[Row] = []
    versions = {}
    absent = {}
    with tempfile.TemporaryDirectory(prefix="penstock-cache-tests-") as name:
        for cache in arguments.cache or CACHES:
            folder = Path(name, cache)
            folder.mkdir()
            # Workers that drop their privileges reach what is theirs below it.
            Path(name).chmod(0o711)
            try:
                versions[cache] = version(cache)
                rows += run(cache, checkout, folder)
            except AbsentError as error:
                absent[cache] = str(error)
                print(f"{cache}: left out: {error}", file=sys.stderr)
    show_failures(rows, "penstock")
    print(f"{'cache':10}{'required':>10}{'optimal':>10}{'all':>6}{'of':>6}")
    for cache, score in scores(rows).items():
        print(f"{cache:10}{score['required']:10}{score['optimal']:10}{score['all']:6}{score['of']:6}")
    if not arguments.cache:
        results.publish(OUTPUT, rows, scores=scores(rows), versions=versions, absent=absent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
