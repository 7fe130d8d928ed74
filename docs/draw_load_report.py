"""Draws docs/images/load-flash-crowd.png: the report of the flash crowd of examples/load against a gateway, in Chromium.

    make load-report-picture

Origin and viewers run in this process, and `penstock serve` with an empty cache in another.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock import _native
from penstock.load.plan import Arguments, origin_of
from penstock.load.running import read_scenario, run

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.browser import open_browser  # noqa: E402 (it is among the tests)

_SCENARIO = HERE.parent / "examples" / "load" / "flash-crowd.toml"
_SEED = 7
_END = "() => [...document.querySelectorAll('h2')].find((each) => each.textContent === 'Viewers')"


@contextmanager
def gateway(origin: int) -> Iterator[str]:
    """A gateway with an empty cache before the origin on this port."""
    serve = (
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--no-access-log",
        "--memory",
        "512MiB",
        "--cache",
        "256MiB",
    )
    where = ("--origin", f"http://127.0.0.1:{origin}", "--listen", "127.0.0.1:0")
    with subprocess.Popen((*serve, *where), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "http://127.0.0.1:" in line)
            yield "http://127.0.0.1:" + line.partition("http://127.0.0.1:")[2].split()[0].rstrip("/,")
        finally:
            process.terminate()


def measure(seconds: float, out: Path) -> None:
    """Run the scenario, and write its report."""
    scenario = read_scenario(str(_SCENARIO))
    with closing(_native.LoadOrigin(origin_of(scenario))) as origin, gateway(origin.port) as url:
        arguments = Arguments(target=url, duration=seconds, seed=_SEED)
        summary = run(scenario, arguments, _SCENARIO.stem, out, print)
    print(f"verdict: {summary['verdict']}", *summary["reasons"], sep="\n")


async def draw(report: Path, width: int, target: Path) -> None:
    """Write the picture of a report, up to the figures of viewers: all of it is too high for a page."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is missing: install the package chromium")
    with tempfile.TemporaryDirectory() as profile:
        async with open_browser(program, Path(profile) / "profile") as page:
            await page.open(report.resolve().as_uri())
            await page.until("document.querySelector('figure')", seconds=30)
            await page.size(width, 800, scale=1)
            await page.evaluate("document.documentElement.style.overflow = 'hidden'")
            height = int(await page.evaluate(f"({_END})().getBoundingClientRect().top"))
            await page.screenshot(width, height, scheme="light", target=target, scale=1)
            if page.complaints:
                sys.exit(f"the page complains: {page.complaints}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=30, help="how long the load runs")
    arguments.add_argument("--width", type=int, default=1000)
    arguments.add_argument("--target", type=Path, default=HERE / "images" / "load-flash-crowd.png")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure(given.seconds, Path(name))
        asyncio.run(draw(Path(name) / "report.html", given.width, given.target))
