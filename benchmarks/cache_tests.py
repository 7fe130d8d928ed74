"""http-tests/cache-tests against `penstock serve`: `make cache-tests CACHE_TESTS=CHECKOUT`.

The suite is not part of this repository. CHECKOUT is one of https://github.com/http-tests/cache-tests in which
`npm install` has been run. Its origin is started, and penstock in front of it as it is shipped, with a cache and nothing
else said. Printed are each test that fails, by kind, and the score; results are kept in results/cache-tests.json.
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
from harness.builds import require
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
  const found = determineTestResult(tests, test.id, results, false)
  const said = results[test.id] === true ? '' : String((results[test.id] || [])[1] || '')
  judged.push({ id: test.id, kind: test.kind || 'required', result: names.get(found), said })
}
console.log(JSON.stringify(judged))
"""
LIMIT_SECONDS = 900


@dataclass(frozen=True)
class Row:
    """One test. `result` is what the suite calls it, and `said` why."""

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


def run(checkout: Path, runtime: Path) -> list[Row]:
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
        serve = [sys.executable, "-m", "penstock", "serve", "--no-access-log", "--cache", "64MiB"]
        where = ["--origin", f"http://{HOST}:{upstream}", "--listen", f"{HOST}:{port}"]
        gateway = stack.enter_context(Process([*serve, *where], core=FULL.gateway_core, runtime=folders[1]))
        gateway.wait_until_listening(port)
        found = node(checkout, "test-engine/cli.mjs")
    judged = node(checkout, "--input-type=module", "--eval", JUDGE, given=found)
    return [Row(**row) for row in json.loads(judged)]


def show(rows: list[Row]) -> None:
    for kind in ("required", "optimal"):
        # Those of browsers' own caches are not run.
        tried = [row for row in rows if row.kind == kind and row.result != "untested"]
        for row in tried:
            if row.result != "pass":
                print(f"{kind}: {row.id}: {row.result}: {row.said}")
        print(f"{kind}: {sum(row.result == 'pass' for row in tried)} of {len(tried)} pass")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "test-engine" / "cli.mjs").exists():
        raise SystemExit(f"{checkout} is no checkout of http-tests/cache-tests")
    with tempfile.TemporaryDirectory(prefix="penstock-cache-tests-") as name:
        rows = run(checkout, Path(name))
    show(rows)
    results.publish(OUTPUT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
