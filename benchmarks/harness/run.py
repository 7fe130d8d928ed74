"""One run: every gateway started once, then measured in interleaved rounds, so that drift meets all alike."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.builds import AbsentError
from harness.events import event_load
from harness.gateways import Gateway, Kind, Launch
from harness.hits import hit_load
from harness.load import Load, LoadError, Target
from harness.measurement import Cell, Workload
from harness.processes import HOST, Process, StartError, free_port
from harness.secured import secured_event_load, secured_load
from harness.segments import handler_load, segment_load
from harness.settings import Settings

# The event streams without any gateway: the part of the latency that is the origin's and the client's own.
DIRECT = "direct"
ALIKE = 0.15
"""The spread up to which the best rounds of a cell are taken for alike."""

LOADS: dict[Kind, Callable[[Settings, Path], AbstractContextManager[Load]]] = {
    "segments": segment_load,
    "events": event_load,
    "handlers": handler_load,
    "hits": hit_load,
    "secured": secured_load,
    "secured-hits": secured_load,
    "secured-handlers": secured_load,
    "secured-events": secured_event_load,
}
Say = Callable[[str], None]


@dataclass
class Outcome:
    """Cells by gateway and workload, and why what is not there is absent."""

    cells: list[Cell] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)


def _directory(parent: Path, name: str) -> Path:
    directory = parent / name
    directory.mkdir()
    return directory


@contextmanager
def started(gateway: Gateway, kind: Kind, origin: str, settings: Settings, runtime: Path) -> Iterator[Target]:
    """Run a gateway pinned to its core, or to both. Raises AbsentError or StartError."""
    port = free_port()
    launch = Launch(kind, f"{HOST}:{port}", origin, runtime)
    cores = f"{settings.gateway_core},{settings.load_core}" if settings.both_cores else settings.gateway_core
    with Process(gateway.command(launch), core=cores, runtime=runtime) as process:
        process.wait_until_listening(port)
        yield Target(port, process)


def _measure(load: Load, target: Target, workload: Workload, cell: Cell) -> None:
    """Add a round to the cell, or the reason why it has failed."""
    try:
        cell.rounds.append(load.measure(target, workload))
    except LoadError as error:
        cell.failure = str(error)
    if target.gateway is not None and target.gateway.ended():
        cell.failure = target.gateway.diagnosis()


def _agrees(cells: Iterable[Cell]) -> bool:
    """Whether the best rounds of each cell are alike."""
    return all(cell.spread is None or cell.spread <= ALIKE for cell in cells)


class _KindRun:
    """The part of a run that one load serves: its gateways live as long as `stack`."""

    def __init__(self, kind: Kind, settings: Settings, outcome: Outcome, say: Say) -> None:
        self._kind = kind
        self._settings = settings
        self._outcome = outcome
        self._say = say
        self._targets: dict[str, Target] = {}
        self._broken: dict[str, str] = {}

    def run(self, gateways: list[Gateway], workloads: list[Workload], runtime: Path) -> None:
        with ExitStack() as stack:
            try:
                load = stack.enter_context(LOADS[self._kind](self._settings, _directory(runtime, "origin")))
            except (AbsentError, StartError) as error:
                self._outcome.absent[self._kind] = str(error)
                return
            for gateway in gateways:
                self._start(gateway, load, _directory(runtime, gateway.name), stack)
            if self._kind == "events":
                self._targets[DIRECT] = Target(int(load.origin.rpartition(":")[2]), None)
            self._rounds(load, workloads)

    def _start(self, gateway: Gateway, load: Load, runtime: Path, stack: ExitStack) -> None:
        try:
            target = stack.enter_context(started(gateway, self._kind, load.origin, self._settings, runtime))
        except AbsentError as error:
            self._outcome.absent[gateway.name] = str(error)
            self._say(f"{gateway.name}: absent: {error}")
            return
        except StartError as error:
            self._broken[gateway.name] = str(error)
            self._say(f"{gateway.name}: {error}")
            return
        try:
            load.verify(target)
        except LoadError as error:
            self._broken[gateway.name] = str(error)
            said = target.gateway.diagnosis() if target.gateway else ""
            self._say(f"{gateway.name}: {error}\n{said}")
            return
        self._targets[gateway.name] = target
        self._say(f"{gateway.name}: started, SHA-256 is the origin's")

    def _rounds(self, load: Load, workloads: list[Workload]) -> None:
        cells = {
            (name, workload): Cell(name, workload.name, failure=self._broken.get(name))
            for workload in workloads
            for name in (*self._targets, *self._broken)
        }
        self._outcome.cells.extend(cells.values())
        for number in range(self._settings.rounds + self._settings.again):
            if number >= self._settings.rounds:
                # All gateways of a workload again, so that each has as many rounds to be at its best in.
                workloads = [
                    one for one in workloads if not _agrees(cells[name, one] for name in self._targets)
                ]
            # Every other round backwards, so that no gateway always runs in the wake of the same one.
            order = list(self._targets.items())[:: -1 if number % 2 else 1]
            for workload in workloads:
                for name, target in order:
                    cell = cells[name, workload]
                    if cell.failure is None:
                        _measure(load, target, workload, cell)
                    cost = (
                        "done" if cell.cpu_us is None else f"{cell.rounds[-1].cpu_us:.1f} μs/{workload.unit}"
                    )
                    self._say(f"round {number + 1} {workload.name} {name}: {cell.void or cost}")


def run(gateways: list[Gateway], workloads: list[Workload], settings: Settings, say: Say) -> Outcome:
    """Measure the gateways. `say` gets one line per step.

    What is missing or fails is in the outcome. Raises SystemExit if too few files may be open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 4 * settings.streams + 1000
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(f"{needed} open files are needed, the limit is {hard} (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))

    outcome = Outcome()
    kinds = dict.fromkeys(workload.kind for workload in workloads)
    with TemporaryDirectory(prefix="penstock-benchmark-") as temporary:
        for kind in kinds:
            of_kind = [gateway for gateway in gateways if kind in gateway.kinds]
            chosen = [workload for workload in workloads if workload.kind == kind]
            directory = _directory(Path(temporary), kind)
            _KindRun(kind, settings, outcome, say).run(of_kind, chosen, directory)
    return outcome
