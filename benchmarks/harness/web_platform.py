"""web-platform-tests' eventsource tests in a headless Chromium: its own server, with penstock in between or not.

The server's ports are the same by all ways, because its pages name them: it listens on 127.0.0.1 and penstock on
127.0.0.2, and the browser is told which of them every host is.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.builds import BENCHMARKS, AbsentError, require
from harness.processes import HOST, Process, free_port
from harness.settings import FULL
from harness.suites import DIRECT, Result, penstock

sys.path.insert(0, str(BENCHMARKS.parent / "tests"))

from support.browser import Page, open_browser

GATEWAY_HOST = "127.0.0.2"
BROWSER_HOST = "web-platform.test"
FOLDER = "eventsource"
# Longer than the suite's own limit for its slow tests.
PAGE_SECONDS = 75.0
STATUSES = ("pass", "fail", "timeout", "not run", "precondition failed")
# Asks the suite itself which pages there are, so that no rule of it is written twice.
LIST = """
import json, os, sys
sys.path.insert(0, os.path.join(os.getcwd(), "tools"))
import localpaths
from manifest.sourcefile import SourceFile
found = []
for folder, _, names in os.walk(sys.argv[1]):
    for name in sorted(names):
        path = os.path.join(folder, name)
        kind, items = SourceFile(os.getcwd(), path, "/").manifest_items()
        found += [item.url for item in items] if kind == "testharness" else []
print(json.dumps(sorted(found)))
"""
# The harness defines the function when it is loaded: from then on it is known when the page has finished.
HOOK = """
if (window === window.top) Object.defineProperty(window, 'add_completion_callback', {
  configurable: true,
  set(real) {
    Object.defineProperty(window, 'add_completion_callback', {value: real, writable: true, configurable: true})
    // It can be called once the harness's script has run to its end.
    queueMicrotask(() => real((tests, harness) => { window.penstock_found = JSON.stringify({
      status: harness.status, message: harness.message,
      tests: tests.map(({name, status, message}) => ({name, status, message})),
    }) }))
  },
})
"""


def pages(checkout: Path) -> list[str]:
    """Return the paths of the pages. Raises AbsentError if this is no checkout of web-platform-tests."""
    if not (checkout / "tools" / "serve").is_dir() or not (checkout / FOLDER).is_dir():
        raise AbsentError(f"{checkout} is no checkout of web-platform-tests")
    done = subprocess.run(
        [sys.executable, "-c", LIST, FOLDER], cwd=checkout, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    # Without certificates: penstock does not speak TLS to clients.
    return [path for path in found if ".https." not in path]


@contextmanager
def served(checkout: Path, runtime: Path) -> Iterator[tuple[int, int]]:
    """The suite's own server; its two ports."""
    ports = (free_port(), free_port())
    settings = {
        "browser_host": BROWSER_HOST,
        "server_host": HOST,
        # No name is looked up: the browser is told where they are.
        "check_subdomains": False,
        "ports": {"http": list(ports), "https": ["auto", "auto"]},
    }
    config = runtime / "config.json"
    config.write_text(json.dumps(settings))
    logs = runtime / "wptserve"
    logs.mkdir()
    command = [sys.executable, str(checkout / "wpt"), "serve", "--no-h2", "--config", str(config)]
    with Process(command, core=FULL.load_core, runtime=logs) as server:
        for port in ports:
            server.wait_until_listening(port)
        yield ports


async def visit(page: Page, url: str, path: str) -> list[Result]:
    """Run one page, and return what became of its tests; and of the page, where its harness failed."""
    await page.open(url)
    try:
        said = await page.until(f"location.href === {url!r} && window.penstock_found", seconds=PAGE_SECONDS)
    except AssertionError as error:
        return [Result(path, "no result", str(error))]
    found = json.loads(said)
    results = [
        Result(f"{path}: {test['name']}", STATUSES[test["status"]], test["message"] or "")
        for test in found["tests"]
    ]
    if found["status"]:
        results.append(Result(f"{path}: the harness", "error", found["message"] or ""))
    return results


async def browse(program: str, profile: Path, host: str, port: int, paths: list[str]) -> list[Result]:
    results = []
    flags = [
        f"--host-resolver-rules=MAP *.test {host}",
        # Workers that a browser allows to secure pages only.
        f"--unsafely-treat-insecure-origin-as-secure=http://{BROWSER_HOST}:{port}",
    ]
    async with open_browser(program, profile, *flags) as page:
        await page.command("Page.addScriptToEvaluateOnNewDocument", source=HOOK)
        for path in paths:
            results += await visit(page, f"http://{BROWSER_HOST}:{port}{path}", path)
    return results


def run(checkout: Path, way: str, runtime: Path, only: str) -> list[Result]:
    """Return what became of each test of each page. Raises AbsentError if something is missing."""
    program = require("chromium", "chromium")
    paths = [path for path in pages(checkout) if only in path]
    with ExitStack() as stack:
        ports = stack.enter_context(served(checkout, runtime))
        if way != DIRECT:
            for port in ports:
                logs = runtime / f"penstock-{port}"
                stack.enter_context(penstock(way, f"{GATEWAY_HOST}:{port}", f"{HOST}:{port}", logs))
        host = HOST if way == DIRECT else GATEWAY_HOST
        return asyncio.run(browse(program, runtime / "profile", host, ports[0], paths))
