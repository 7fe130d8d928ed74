"""The suite of the EventSource client of npm, on Node: its own server, with penstock in between or not."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

from harness.builds import AbsentError, require
from harness.processes import HOST, free_port
from harness.suites import DIRECT, Result, penstock

LIMIT_SECONDS = 300
# The suite's own program has one port for server and client: here the client is given another.
PROGRAM = """
import {getServer} from './test/server.js'
import {registerTests} from './test/tests.js'
import {createRunner} from './test/waffletest/runner.js'
const report = (event) => { if (event.title) console.log(JSON.stringify(event)) }
;(async () => {
  await getServer(Number(process.env.SUITE_SERVER))
  const runner = createRunner({onEvent: report})
  const port = Number(process.env.SUITE_PORT)
  registerTests({environment: 'node', runner, fetch: globalThis.fetch, port})
  await runner.runTests()
  // What tests have left open would keep the process.
  process.exit(0)
})()
"""


def run(checkout: Path, way: str, runtime: Path, _only: str) -> list[Result]:
    """Return what became of each test. Raises AbsentError if something is missing."""
    program = checkout / "node_modules" / ".bin" / "tsx"
    if not program.exists():
        raise AbsentError(f"{program} is not there: EVENTSOURCE is a checkout with its packages installed")
    require("node", "nodejs")
    server = free_port()
    port = server
    with ExitStack() as stack:
        if way != DIRECT:
            port = free_port()
            stack.enter_context(penstock(way, f"{HOST}:{port}", f"{HOST}:{server}", runtime / "penstock"))
        done = subprocess.run(
            [str(program), "--eval", PROGRAM],
            cwd=checkout,
            env=os.environ | {"SUITE_SERVER": str(server), "SUITE_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
        )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [Result(event["title"], event["event"], event.get("error", "")) for event in events]
