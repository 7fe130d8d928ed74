"""What the two loads share: the target of a measurement and the window in which its CPU time is read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Protocol

from harness import cpu
from harness.measurement import Round, Workload
from harness.processes import HOST, Process
from harness.settings import Settings

FETCH_SECONDS = 30.0


class LoadError(RuntimeError):
    """The load could not be put on a gateway, or its answer was wrong: the cell is void."""


@dataclass(frozen=True)
class Target:
    """A gateway to measure, or, without a process, the origin itself."""

    port: int
    gateway: Process | None


class Load(Protocol):
    """An origin that runs, and how to measure a target in front of it."""

    @property
    def origin(self) -> str:
        """The origin's HOST:PORT."""

    def verify(self, target: Target) -> None:
        """Compare what a target delivers with the origin's bytes. Raises LoadError where they differ."""

    def measure(self, target: Target, workload: Workload) -> Round:
        """Warm up, then measure one round. Raises LoadError when there is nothing to count."""


class Window:
    """The CPU time that is used between `open` and `close`: by the target, and by strangers on the two
    cores.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        self._pid = target.gateway.pid if target.gateway else None
        self._cores = (settings.gateway_core, settings.load_core)

    def open(self) -> None:
        self._strangers = self._read_strangers()
        self._time = time.monotonic()
        self._tree = cpu.read_tree(self._pid) if self._pid else None

    def close(self) -> None:
        """Set `cpu_seconds` and `other_cpu`. Raises LoadError if the CPU time cannot be trusted."""
        self.cpu_seconds: float | None = None
        try:
            if self._pid and self._tree:
                self.cpu_seconds = cpu.elapsed(self._tree, cpu.read_tree(self._pid))
        except (cpu.AccountsDifferError, FileNotFoundError) as error:
            raise LoadError(f"CPU time: {error}") from error
        capacity = (time.monotonic() - self._time) * len(self._cores)
        self.other_cpu = max(0.0, self._read_strangers() - self._strangers) / capacity

    def _read_strangers(self) -> float:
        """Return what the two cores did that was not done by this process or any descendant, ended ones
        included.
        """
        return sum(map(cpu.core_busy, self._cores)) - cpu.read_tree(os.getpid()).stat


def digest(port: int, path: str) -> str:
    """Return the SHA-256 of a complete 200 response. Raises LoadError for any other."""
    connection = HTTPConnection(HOST, port, timeout=FETCH_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != 200:
            raise LoadError(f"{path}: status {response.status}")
        return hashlib.sha256(response.read()).hexdigest()
    except (OSError, HTTPException) as error:
        raise LoadError(f"{path}: {error!r}") from error
    finally:
        connection.close()


def verify_digest(target: Target, origin_port: int, path: str) -> None:
    """Raises LoadError unless the target delivers `path` with the origin's SHA-256."""
    expected, delivered = digest(origin_port, path), digest(target.port, path)
    if expected != delivered:
        raise LoadError(f"{path}: the origin's SHA-256 is {expected}, the delivered {delivered}")


def tell(program: Process, word: str) -> None:
    """Send a line to a program of the load. Raises LoadError if it has ended."""
    try:
        program.stdin.write(word + "\n")
        program.stdin.flush()
    except BrokenPipeError as error:
        raise LoadError(program.diagnosis()) from error


def message(program: Process) -> dict[str, Any]:
    """Wait for the next line of a program of the load. Raises LoadError if it ends instead."""
    line = program.stdout.readline()
    if not line:
        program.child.wait()
        raise LoadError(program.diagnosis())
    said: dict[str, Any] = json.loads(line)
    return said
