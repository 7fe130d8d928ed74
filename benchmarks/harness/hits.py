"""Hits: wrk, and a load at a fixed rate, for what every cache holds already.

The origin is stopped before the first round, so that whatever is no hit is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from harness.builds import require, rust
from harness.load import FETCH_SECONDS, LoadError, Target, Window
from harness.measurement import Round, Workload
from harness.processes import HOST, Process, free_port
from harness.segments import counts_of, origin_command, round_of, wrk_command
from harness.settings import Settings

SIZES = {"16k": 16 << 10, "64k": 64 << 10, "512k": 512 << 10}
TIMES_CACHE = 8
OPEN_SHARE = 0.8
OPEN_CONNECTIONS = 64


def _workloads(kind: str, title: str) -> tuple[Workload, ...]:
    return tuple(
        Workload(f"{kind}-{name}", title.format(f"{size >> 10} KiB"), "hits", size, "request")
        for name, size in SIZES.items()
    )


HOT = _workloads("hot", "{}")
SETS = _workloads("set", "{}, of a working set")
OPEN = _workloads("open", "{}, at a fixed rate")
# Those at a fixed rate last: the rate is a share of what was served as fast as it could be.
WORKLOADS = (*HOT, *SETS, *OPEN)
BY_NAME = {workload.name: workload for workload in WORKLOADS}


def last_level_cache() -> int:
    """Return its bytes, as this machine says; 0 where it does not."""
    sizes = [
        int(path.read_text().strip().removesuffix("K")) << 10
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    return max(sizes, default=0)


def _size(workload: Workload) -> str:
    return workload.name.rpartition("-")[2]


def _count(size: int, settings: Settings) -> int:
    return max(1, settings.working_set // size)


class HitLoad:
    """The load of `hits`: see harness.load.Load."""

    def __init__(self, settings: Settings, port: int, runtime: Path, root: Path, origin: Process) -> None:
        self._settings = settings
        self._port = port
        self._runtime = runtime
        self._root = root
        self._origin: Process | None = origin
        self._fastest: dict[str, dict[int, float]] = {}
        self._rates: dict[str, float] = {}
        require("wrk", "wrk")
        self._open_loop = rust("load/open_loop", "open-loop")

    @property
    def origin(self) -> str:
        return f"{HOST}:{self._port}"

    def verify(self, target: Target) -> None:
        """Have the target fetch every object once, and compare it."""
        connection = HTTPConnection(HOST, target.port, timeout=FETCH_SECONDS)
        try:
            for file in sorted(self._root.glob("*/*")):
                path = f"/{file.relative_to(self._root)}"
                connection.request("GET", path, headers=self._settings.fields)
                response = connection.getresponse()
                if response.read() != file.read_bytes() or response.status != 200:
                    raise LoadError(f"{path}: status {response.status}, and not the origin's bytes")
        except (OSError, HTTPException) as error:
            raise LoadError(f"the cache was not filled: {error!r}") from error
        finally:
            connection.close()

    def measure(self, target: Target, workload: Workload) -> Round:
        if self._origin is not None:
            self._origin.stop()
            self._origin = None
        self._run(target, workload, self._settings.warm_up)
        window = Window(target, self._settings)
        window.open()
        counts = self._run(target, workload, self._settings.seconds)
        window.close()
        measured = round_of(counts, workload, window)
        if workload in HOT:
            rate = measured.units / measured.seconds
            self._fastest.setdefault(_size(workload), {}).setdefault(target.port, rate)
        return measured

    def _run(self, target: Target, workload: Workload, seconds: float) -> dict[str, int]:
        size = _size(workload)
        prefix = f"/{size}/"
        count = str(_count(workload.size, self._settings))
        where = f"{HOST}:{target.port}"
        if workload in HOT:
            command = wrk_command(self._settings, seconds, f"http://{where}{prefix}0")
        elif workload in SETS:
            command = wrk_command(self._settings, seconds, f"http://{where}", prefix, count)
        else:
            options = [str(self._rate(size)), str(seconds), str(OPEN_CONNECTIONS), prefix, "1"]
            command = [self._open_loop, where, *options, str(workload.size)]
        return counts_of(command, self._settings, self._runtime)

    def _rate(self, size: str) -> float:
        """Return a rate that the slowest of all can serve; the same for all, in all rounds."""
        if size not in self._rates:
            if size not in self._fastest:
                raise LoadError(f"hot-{size} was not measured: there is no rate to take a share of")
            self._rates[size] = OPEN_SHARE * min(self._fastest[size].values())
        return self._rates[size]


@contextmanager
def hit_load(settings: Settings, runtime: Path) -> Iterator[HitLoad]:
    """Write the objects and start the origin. Raises AbsentError if nginx or wrk is missing."""
    root = runtime / "root"
    for name, size in SIZES.items():
        (root / name).mkdir(parents=True)
        for number in range(_count(size, settings)):
            (root / name / str(number)).write_bytes(os.urandom(size))
    port = free_port()
    command = origin_command(runtime, port, root, expires="1h")
    with Process(command, core=settings.load_core, runtime=runtime) as origin:
        origin.wait_until_listening(port)
        yield HitLoad(settings, port, runtime, root, origin)
