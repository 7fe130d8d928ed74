"""Segments: an nginx origin with static files, and wrk asking for one of them over kept-alive connections."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from harness.builds import BENCHMARKS, require
from harness.gateways import nginx_command
from harness.load import LoadError, Target, Window, digest, verify_digest
from harness.measurement import HANDLER, SEGMENTS, Round, Workload
from harness.processes import HOST, Process, free_port
from harness.settings import Settings

ERROR_COUNTS = ("connect_errors", "read_errors", "write_errors", "status_errors", "timeouts")


def _path(workload: Workload) -> str:
    return f"/{workload.name}.m4s"


def origin_command(runtime: Path, port: int, root: Path, expires: str) -> list[str]:
    """Return the command of an nginx that serves the files below `root`. Raises AbsentError."""
    values = {"LISTEN": f"{HOST}:{port}", "ROOT": str(root), "EXPIRES": expires}
    return nginx_command(BENCHMARKS / "load" / "origin.conf", runtime, **values)


class SegmentLoad:
    """The load of `segments`: see harness.load.Load."""

    def __init__(self, settings: Settings, port: int, runtime: Path) -> None:
        self._settings = settings
        self._port = port
        self._runtime = runtime
        require("wrk", "wrk")

    @property
    def origin(self) -> str:
        return f"{HOST}:{self._port}"

    def verify(self, target: Target) -> None:
        for workload in SEGMENTS:
            verify_digest(target, self._port, _path(workload))

    def _path(self, workload: Workload, /) -> str:
        return _path(workload)

    def measure(self, target: Target, workload: Workload) -> Round:
        self._run(target, workload, self._settings.warm_up)
        window = Window(target, self._settings)
        window.open()
        counts = self._run(target, workload, self._settings.seconds)
        window.close()
        return round_of(counts, workload, window)

    def _run(self, target: Target, workload: Workload, seconds: float) -> dict[str, int]:
        url = f"http://{HOST}:{target.port}{self._path(workload)}"
        return counts_of(wrk_command(self._settings, seconds, url), self._settings, self._runtime)


def wrk_command(settings: Settings, seconds: float, url: str, *script_arguments: str) -> list[str]:
    """Return the command of wrk, which takes whole seconds only. Raises AbsentError."""
    return [
        require("wrk", "wrk"),
        "--threads=1",
        f"--connections={settings.connections}",
        f"--duration={max(1, round(seconds))}s",
        "--timeout=10s",
        f"--script={BENCHMARKS / 'load' / 'report.lua'}",
        *(f"--header={name}: {value}" for name, value in settings.fields.items()),
        url,
        *(("--", *script_arguments) if script_arguments else ()),
    ]


def counts_of(command: list[str], settings: Settings, runtime: Path) -> dict[str, int]:
    """Run a load that prints its counts as one line of JSON. Raises LoadError if it cannot be put."""
    with Process(command, core=settings.load_core, runtime=runtime, interactive=True) as load:
        output = load.stdout.read()
        load.child.wait()
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if load.child.returncode or not lines:
            raise LoadError(f"{Path(command[0]).name}: {output.strip()} {load.diagnosis()}")
    counts: dict[str, int] = json.loads(lines[0])
    if not counts["requests"]:
        raise LoadError("no request was answered")
    return counts


def round_of(counts: dict[str, int], workload: Workload, window: Window) -> Round:
    """Return what was counted as a round, with what is wrong with it."""
    errors = [f"{counts[name]} {name}" for name in ERROR_COUNTS if counts[name]]
    if counts["bytes"] < counts["requests"] * workload.size:
        errors.append(f"{counts['requests']} responses had {counts['bytes']} bytes")
    return Round(
        units=counts["requests"],
        bytes=counts["bytes"],
        seconds=counts["duration_us"] / 1e6,
        cpu_seconds=window.cpu_seconds,
        p50_us=counts["p50_us"],
        p99_us=counts["p99_us"],
        other_cpu=window.other_cpu,
        errors=tuple(errors),
    )


class HandlerLoad(SegmentLoad):
    """The load of `handlers`: the gateway's own answer, without an origin."""

    def verify(self, target: Target) -> None:
        expected, delivered = sha256(b"ok").hexdigest(), digest(target.port, self._path(HANDLER))
        if expected != delivered:
            raise LoadError(f"{self._path(HANDLER)}: the SHA-256 is {delivered}")

    def _path(self, _workload: Workload, /) -> str:
        return "/ok"


@contextmanager
def handler_load(settings: Settings, runtime: Path) -> Iterator[HandlerLoad]:
    """Nothing to start. Raises AbsentError if wrk is missing."""
    yield HandlerLoad(settings, free_port(), runtime)


@contextmanager
def segment_load(settings: Settings, runtime: Path) -> Iterator[SegmentLoad]:
    """Start the origin. Raises AbsentError if nginx or wrk is missing."""
    root = runtime / "root"
    root.mkdir()
    for workload in SEGMENTS:
        (root / _path(workload).lstrip("/")).write_bytes(os.urandom(workload.size))
    port = free_port()
    load = SegmentLoad(settings, port, runtime)
    command = origin_command(runtime, port, root, expires="off")
    with Process(command, core=settings.load_core, runtime=runtime) as origin:
        origin.wait_until_listening(port)
        yield load
