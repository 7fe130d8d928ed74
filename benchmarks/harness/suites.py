"""What the suites of others share: the ways by which each is run, and what a test of one came to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.processes import Process
from harness.settings import FULL

DIRECT = "direct"
# By the names of `penstock serve --lane`.
WAYS = (DIRECT, "native", "app")


@dataclass(frozen=True)
class Result:
    """One test: `result` is "pass", or what the suite calls it otherwise, and `said` why."""

    test: str
    result: str
    said: str


@contextmanager
def penstock(lane: str, listen: str, origin: str, runtime: Path) -> Iterator[None]:
    """Run `penstock serve` as it is shipped between HOST:PORT and HOST:PORT; the client's Host is kept."""
    runtime.mkdir()
    command = [sys.executable, "-m", "penstock", "serve", "--lane", lane, "--preserve-host"]
    command += ["--listen", listen, "--origin", f"http://{origin}"]
    with Process(command, core=FULL.gateway_core, runtime=runtime) as served:
        host, _, port = listen.rpartition(":")
        served.wait_until_listening(int(port), host)
        yield
