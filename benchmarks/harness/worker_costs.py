"""What a request costs that a worker process answers, beside the same application in the process with the sockets."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from harness import cpu
from harness.fire import SEGMENT, Origins
from harness.load import Target, Window
from harness.measurement import Workload
from harness.processes import HOST, Process, free_port
from harness.segments import counts_of, round_of, wrk_command
from harness.settings import Settings

WORKLOADS = {
    "/ok": Workload("handler", 'Response(text="ok")', "handlers", 2, "request"),
    "/segment": Workload("segment-64k", "64 KiB, application's lane", "segments", SEGMENT, "request"),
}
GATEWAYS: dict[str, tuple[str, ...]] = {
    "one process": (),
    "--workers 1": ("--workers", "1", "--threads", "1", "--connections", "4096"),
}


@dataclass
class Cost:
    """Microseconds of CPU time of a request, the medians of the rounds: all of it, and the worker's part."""

    gateway: str
    workload: str
    cpu_us: float = 0.0
    worker_us: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    per_second: float = 0.0
    spread: float = 0.0
    other_cpu: float = 0.0
    errors: list[str] = field(default_factory=list)
    rounds: list[dict[str, float]] = field(default_factory=list)

    def conclude(self) -> None:
        for name in ("cpu_us", "worker_us", "p50_us", "p99_us", "per_second", "other_cpu"):
            setattr(self, name, round(median(each[name] for each in self.rounds), 3))
        all_of_it = [each["cpu_us"] for each in self.rounds]
        self.spread = round((max(all_of_it) - min(all_of_it)) / self.cpu_us, 3)


def workers_time(parent: int) -> float:
    """Seconds that the children of a process have had, who all run."""
    return cpu.read_tree(parent).scheduler - cpu.read_process(parent)


def _round(process: Process, port: int, path: str, settings: Settings, runtime: Path, cost: Cost) -> None:
    url = f"http://{HOST}:{port}{path}"
    counts_of(wrk_command(settings, settings.warm_up, url), settings, runtime)
    window, before = Window(Target(port, process), settings), workers_time(process.pid)
    window.open()
    counts = counts_of(wrk_command(settings, settings.seconds, url), settings, runtime)
    window.close()
    workers = workers_time(process.pid) - before
    done = round_of(counts, WORKLOADS[path], window)
    cost.errors.extend(done.errors)
    cost.rounds.append(
        {
            "cpu_us": done.cpu_us or 0.0,
            "worker_us": workers / done.units * 1e6,
            "p50_us": done.p50_us,
            "p99_us": done.p99_us,
            "per_second": done.units / done.seconds,
            "other_cpu": done.other_cpu,
        }
    )


def costs(origins: Origins, settings: Settings, runtime: Path) -> list[Cost]:
    """Measure both gateways in turn, and every other round backwards."""
    runtime.mkdir()
    found = {(name, path): Cost(name, load.name) for name in GATEWAYS for path, load in WORKLOADS.items()}
    with ExitStack() as stack:
        running: dict[str, tuple[Process, int]] = {}
        for name, options in GATEWAYS.items():
            port, logs = free_port(), runtime / name.strip("-")
            logs.mkdir()
            command = origins.serve("plain", port, *options)
            process = stack.enter_context(Process(command, core=settings.gateway_core, runtime=logs))
            process.wait_until_listening(port)
            running[name] = process, port
        for number in range(settings.rounds):
            for name, path in list(found) if number % 2 == 0 else reversed(list(found)):
                _round(*running[name], path, settings, runtime, found[name, path])
    for cost in found.values():
        cost.conclude()
    return list(found.values())
