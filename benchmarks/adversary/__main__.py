"""Attack `penstock serve` with 32 MiB, one attack after the other and all together, beside an honest client.

Prints what the client noticed, beside the goal that each answer takes 50 ms at most, and the memory that the process
took. The exit status is 1 if a bound is broken: the client was without a 200 for more than 3 s; a request was refused,
or ended without an answer; the 99th percentile of its requests is above 50 ms; or the process took more memory than the
pool and the cost of its connections.

The attackers share the cores with all others, at the same priority. What that alone costs is measured in the same run:
a second client asks a server that does nothing else ("bare"). The second line of a row says how many cores each had,
and in parentheses how many more its threads were ready to use.

    python -m adversary [--seconds 8] [--scale 1.0] [--only "slow heads"] [--served native|application|workers|nginx]
        [--reconnects 1500]

By default the attacks of readers are repeated where handlers relay, in the server's process and in worker processes; and
the attacks that say nothing of penstock's own functions are made on nginx as a cache, if it is installed, to which no
bound applies.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from harness.builds import AbsentError
from harness.gateways import PEERS, nginx_command
from harness.processes import free_port

from .attacks import ATTACKS, scaled
from .honest import Honest
from .swarm import Attack, spell
from .usage import Usage, usage

_HERE = Path(__file__).resolve().parents[1]
_MEMORY = 32 << 20
_CACHE = _MEMORY // 4
_LONGEST = 3.0
"""Seconds without a 200 at most."""
_SLOWEST = 50.0
"""Milliseconds: at most of the 99th percentile of its requests, and the goal for each."""
_SERVED = ("native", "application", "workers", "nginx")
"""Who answers: `penstock serve --origin`, handlers that relay, the same in two worker processes, or nginx."""
_ALL = "all together"
_COMMON = (
    "slow heads",
    "slow bodies",
    "half-open uploads",
    "stalled readers",
    "stalled readers of hits",
    "more readers than connections",
)
"""What is made on nginx too."""
_READERS = ("stalled readers", "more readers than connections", "readers of many addresses")
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
    bare: dict[str, float]
    """Milliseconds of requests to a server that is not attacked."""
    cores: dict[str, Usage]
    """What each process had, and wanted besides, a second."""

    @property
    def failures(self) -> list[str]:
        """Bounds that were broken."""
        found = []
        if self.honest.longest > _LONGEST:
            found.append(f"{self.name}: {self.honest.longest:.1f} s without a 200")
        if self.honest.refusals:
            found.append(
                f"{self.name}: {self.honest.refusals.total()} requests of {self.honest.total} had no 200"
            )
        slowest = self.honest.percentile(0.99)
        if slowest > _SLOWEST:
            found.append(
                f"{self.name}: the 99th percentile is {slowest:.0f} ms ({self.bare['p99']:.0f} bare)"
            )
        if self.grown > self.allowed:
            found.append(f"{self.name}: grew by {self.grown >> 20} MiB, and {self.allowed >> 20} are allowed")
        return found

    @property
    def is_within_goal(self) -> bool:
        """Whether each request was answered with 200, in the time that is the goal."""
        return not self.honest.refusals and self.honest.percentile(1.0) <= _SLOWEST

    def row(self) -> str:
        """A line of the table."""
        honest = self.honest
        refused = " ".join(f"{name}×{count}" for name, count in sorted(honest.refusals.items())) or "-"
        return (
            f"{self.name:<30} {honest.total:>6} {honest.percentile(0.5):>8.1f} {honest.percentile(0.99):>8.1f} "
            f"{honest.percentile(1.0):>8.1f} {self.bare['p99']:>8.1f} {honest.longest:>9.2f} "
            f"{self.grown >> 20:>8} {self.allowed >> 20:>8}  {refused}"
        )

    def details(self) -> str:
        """What it took of the machine, and what became of the attackers."""
        cores = [f"{name} {used.ran:.2f} (+{used.waited:.2f})" for name, used in self.cores.items()]
        swarm = [f"{key} {value}" for key, value in sorted(self.swarm.items())]
        return "\n".join(f"    {line}" for line in ("cores: " + ", ".join(cores), ", ".join(swarm)) if line)


@contextmanager
def _child(
    command: Sequence[str],
    *,
    piped: bool = False,
    stderr: TextIO | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE if piped else None
    child = subprocess.Popen(
        command,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_HERE), **(settings or {})},
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
def _origin() -> Iterator[tuple[int, int]]:
    """The port and the process of an origin."""
    with _child([sys.executable, "-m", "adversary.origin"], piped=True) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline()), child.pid


@contextmanager
def _nginx(origin: int) -> Iterator[tuple[int, int]]:
    """The port and the process of nginx as a cache, with one worker. Raises AbsentError."""
    port = free_port()
    with TemporaryDirectory() as runtime:
        command = nginx_command(
            PEERS / "nginx_cache.conf",
            Path(runtime),
            LISTEN=f"127.0.0.1:{port}",
            ORIGIN=f"127.0.0.1:{origin}",
        )
        with _child(command) as child:
            end = time.monotonic() + 60
            while child.poll() is None and time.monotonic() < end:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield port, child.pid


@contextmanager
def _gateway(origin: int, log: Path, served: str) -> Iterator[tuple[int, int]]:
    """The port and the process of `penstock serve`."""
    url = f"http://127.0.0.1:{origin}"
    command = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--no-access-log"]
    settings = {"ADVERSARY_ORIGIN": url}
    if served == "application":
        settings |= {"ADVERSARY_MEMORY": f"{_MEMORY}", "ADVERSARY_CACHE": f"{_CACHE}"}
    else:
        command += ["--memory", f"{_MEMORY}", "--cache", f"{_CACHE}"]
    command += ["--origin", url] if served == "native" else ["adversary.app:make"]
    command += ["--workers", "2"] if served == "workers" else []
    with (
        log.open("w+", encoding="utf-8") as lines,
        _child(command, stderr=lines, settings=settings) as child,
    ):
        end = time.monotonic() + 60
        while (found := _LISTENING.search(log.read_text(encoding="utf-8"))) is None:
            if child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"penstock serve did not begin:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.05)
        yield int(found[1]), child.pid


def _resident(pid: int, who: str) -> int:
    """Of the process; of nginx, whose first process only begins others, those too."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    own = 0 if found is None else int(found[1]) << 10
    if who != "nginx":
        return own
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return own + sum(_resident(int(child), "child") for child in children)


@dataclass(frozen=True)
class Bench:
    """What there is besides the gateway: its origin, and a server that is not attacked."""

    origin: int
    origin_pid: int
    bare: int

    def measure(
        self, name: str, attacks: list[Attack], gateway: tuple[str, int, int], seconds: float
    ) -> Result:
        """Attack the gateway for so long: who it is, its port, and its process."""
        who, port, pid = gateway
        honest, before = Honest(port), _resident(pid, who)
        sizes = [before]
        connections = sum(attack.connections for attack in attacks)
        swarm: dict[str, int] = {}
        processes = {"gateway": pid, "origin": self.origin_pid, "client": os.getpid()}
        with ExitStack() as stack:
            attackers = None
            if attacks:
                command = [sys.executable, "-m", "adversary.swarm", str(port), spell(attacks)]
                attackers = stack.enter_context(_child(command, piped=True))
                processes["attackers"] = attackers.pid
            command = [sys.executable, "-m", "adversary.honest", str(self.bare)]
            beside = stack.enter_context(_child(command, piped=True))
            # Its children are counted by themselves.
            own = processes.pop("client")
            earlier = {name: usage(process) for name, process in processes.items()}
            mine = usage(own, children=False)
            honest.run(seconds, lambda: sizes.append(_resident(pid, who)))
            cores = {name: (usage(process) - earlier[name]) / seconds for name, process in processes.items()}
            cores["client"] = (usage(own, children=False) - mine) / seconds
            if attackers is not None:
                swarm = json.loads(attackers.communicate()[0])
            bare = json.loads(beside.communicate()[0])
        allowed = _MEMORY + _SLACK + _PER_CONNECTION * connections
        return Result(name, honest, max(sizes) - before, allowed, swarm, bare, cores)


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Attack]]]:
    """Each attack with its name, and who is attacked."""
    served = [arguments.served] if arguments.served else _SERVED
    for who in served:
        yield who, "(no attack)", []
        for name, attacks in ATTACKS.items():
            common = who == "nginx" and name in _COMMON
            is_due = common or (who != "nginx" and (arguments.served or who == "native" or name in _READERS))
            if is_due if arguments.only is None else arguments.only == name:
                yield who, name, [scaled(attack, arguments.scale, arguments.reconnects) for attack in attacks]
        is_due = arguments.served or who == "native"
        if is_due if arguments.only is None else arguments.only == _ALL:
            # Each with a third of its connections: there are no more descriptors, and the machine has the same cores.
            every = {attack.name: attack for attacks in ATTACKS.values() for attack in attacks}
            yield (
                who,
                _ALL,
                [scaled(attack, arguments.scale / 3, arguments.reconnects) for attack in every.values()],
            )


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="for each attack")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of connections")
    parser.add_argument(
        "--reconnects", type=int, default=1500, help="connections that attackers make, a second, over all"
    )
    parser.add_argument("--only", choices=[*ATTACKS, _ALL])
    parser.add_argument(
        "--served", choices=_SERVED, help="who answers; by default all, the last two readers alone"
    )
    parser.add_argument("--log", type=Path, default=Path("/tmp/penstock-adversary.log"))
    arguments = parser.parse_args()
    print(
        f"{'attack':<30} {'asked':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'bare p99':>8} "
        f"{'no 200 s':>9} {'grew MiB':>8} {'of':>8}  refused"
    )
    failures = []
    within: dict[str, tuple[int, int]] = {}
    served = ""
    with _origin() as (origin, origin_pid), _origin() as (bare, _):
        bench = Bench(origin, origin_pid, bare)
        for who, name, attacks in _chosen(arguments):
            if who != served:
                print(f"-- {who}", flush=True)
                served = who
            try:
                began = _nginx(origin) if who == "nginx" else _gateway(origin, arguments.log, who)
                with began as (port, pid):
                    # Once before it counts: the first request loads code and opens connections.
                    Honest(port).run(0.5)
                    result = bench.measure(name, attacks, (who, port, pid), arguments.seconds)
            except AbsentError as error:
                print(error)
                continue
            print(result.row())
            print(result.details(), flush=True)
            if attacks:
                kept, of = within.get(who, (0, 0))
                within[who] = (kept + result.is_within_goal, of + 1)
            if who != "nginx":
                failures += [f"{who}: {failure}" for failure in result.failures]
    for who, (kept, attacks) in within.items():
        print(f"{who}: within the goal of {_SLOWEST:.0f} ms for each answer in {kept} of {attacks} attacks")
    for failure in failures:
        print(f"BROKEN: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
