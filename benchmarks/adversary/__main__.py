"""Attack `penstock serve` with 32 MiB, one attack after the other and all together, beside an honest client.

Prints what the client noticed, and what the process took. The exit status is 1 where a bound is broken: the client was
without a 200 for more than 3 s, or the process took more memory than the pool and what its connections cost. How long an
answer takes is printed beside a run without an attack, and decides nothing: the attackers share the machine.

    python -m adversary [--seconds 8] [--scale 1.0] [--only "slow heads"] [--workers]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .attacks import ATTACKS, scaled
from .honest import Honest
from .swarm import Attack, spell

_HERE = Path(__file__).resolve().parents[1]
_MEMORY = 32 << 20
_LONGEST = 3.0
"""Seconds without a 200 at most."""
_PER_CONNECTION = 48 << 10
"""Bytes of the process that one open connection may take besides the pool: its task, its head, its origin's."""
_SLACK = 96 << 20
"""Bytes for all else that grows once: code that is first used, thread caches of the allocator, logs."""
_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Result:
    """Of one attack."""

    name: str
    honest: Honest
    grown: int
    """The most that the process took, less what it took before."""
    allowed: int
    swarm: dict[str, int]

    @property
    def failures(self) -> list[str]:
        """Bounds that were broken."""
        found = []
        if self.honest.longest > _LONGEST:
            found.append(f"{self.name}: {self.honest.longest:.1f} s without a 200")
        if self.grown > self.allowed:
            found.append(f"{self.name}: grew by {self.grown >> 20} MiB, and {self.allowed >> 20} are allowed")
        return found

    def row(self) -> str:
        """A line of the table."""
        honest = self.honest
        refused = " ".join(f"{name}×{count}" for name, count in sorted(honest.refusals.items())) or "-"
        return (
            f"{self.name:<30} {honest.total:>6} {honest.percentile(0.5):>8.1f} {honest.percentile(0.99):>8.1f} "
            f"{honest.longest:>9.2f} {self.grown >> 20:>8} {self.allowed >> 20:>8}  {refused}"
        )


@contextmanager
def _child(
    command: Sequence[str], *, piped: bool = False, stderr: TextIO | None = None, origin: str = ""
) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE if piped else None
    child = subprocess.Popen(
        command,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_HERE), "ADVERSARY_ORIGIN": origin},
        cwd=_HERE,
        start_new_session=True,
        stdin=pipe,
        stdout=pipe,
        stderr=stderr,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def _origin() -> Iterator[int]:
    with _child([sys.executable, "-m", "adversary.origin"], piped=True) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())


@contextmanager
def _served(origin: int, log: Path, workers: bool) -> Iterator[tuple[int, int]]:
    """The port and the process of `penstock serve`."""
    url = f"http://127.0.0.1:{origin}"
    command = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--no-access-log"]
    command += ["--memory", f"{_MEMORY}", "--cache", f"{_MEMORY // 4}"]
    command += ["adversary.app:make", "--workers", "2"] if workers else ["--origin", url]
    with (
        log.open("w+", encoding="utf-8") as lines,
        _child(command, stderr=lines, origin=url) as child,
    ):
        end = time.monotonic() + 60
        while (found := _LISTENING.search(log.read_text(encoding="utf-8"))) is None:
            if child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"penstock serve did not begin:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.05)
        yield int(found[1]), child.pid


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return 0 if found is None else int(found[1]) << 10


def _measure(name: str, attacks: list[Attack], port: int, pid: int, seconds: float) -> Result:
    honest, before = Honest(port), _resident(pid)
    sizes = [before]
    connections = sum(attack.connections for attack in attacks)
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        swarm = None
        if attacks:
            command = [sys.executable, "-m", "adversary.swarm", str(port), spell(attacks)]
            swarm = stack.enter_context(_child(command, piped=True))
        honest.run(seconds, lambda: sizes.append(_resident(pid)))
        if swarm is not None:
            counts = json.loads(swarm.communicate()[0])
    allowed = _MEMORY + _SLACK + _PER_CONNECTION * connections
    return Result(name, honest, max(sizes) - before, allowed, counts)


def _chosen(arguments: argparse.Namespace) -> dict[str, list[Attack]]:
    chosen: dict[str, list[Attack]] = {"(no attack)": []}
    for name, attacks in ATTACKS.items():
        if arguments.only in (None, name):
            chosen[name] = [scaled(attack, arguments.scale) for attack in attacks]
    if arguments.only is None:
        # Each with a third of its connections: there are no more descriptors, and the machine has the same two cores.
        every = {attack.name: attack for attacks in ATTACKS.values() for attack in attacks}
        chosen["all together"] = [scaled(attack, arguments.scale / 3) for attack in every.values()]
    return chosen


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="for each attack")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of connections")
    parser.add_argument("--only", choices=list(ATTACKS))
    parser.add_argument("--workers", action="store_true", help="with worker processes behind the same edge")
    parser.add_argument("--log", type=Path, default=Path("/tmp/penstock-adversary.log"))
    arguments = parser.parse_args()
    print(
        f"{'attack':<30} {'asked':>6} {'p50 ms':>8} {'p99 ms':>8} {'no 200 s':>9} {'grew MiB':>8} {'of':>8}  refused"
    )
    failures = []
    with _origin() as origin:
        for name, attacks in _chosen(arguments).items():
            with _served(origin, arguments.log, arguments.workers) as (port, pid):
                # Once before it counts: the first request loads code and opens connections.
                Honest(port).run(0.5)
                result = _measure(name, attacks, port, pid, arguments.seconds)
            print(result.row(), flush=True)
            if result.swarm:
                print(
                    "    " + ", ".join(f"{key} {value}" for key, value in sorted(result.swarm.items())),
                    flush=True,
                )
            failures += result.failures
    for failure in failures:
        print(f"BROKEN: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
