"""Event streams: an origin that sends each stream a few events a second, and a client that follows them
all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.builds import go
from harness.load import Target, Window, message, tell, verify_digest
from harness.measurement import Round, Workload
from harness.processes import HOST, Process, free_port
from harness.settings import Settings

VERIFIED_EVENTS = 1000
# Below this share of the events that were due in the window, the gateway or the machine did not keep up.
DELIVERED_SHARE = 0.95


class EventLoad:
    """The load of `events`: see harness.load.Load."""

    def __init__(self, settings: Settings, port: int, runtime: Path) -> None:
        self._settings = settings
        self._port = port
        self._runtime = runtime
        self._client = go("load/sse", "./client")

    _scheme, _host = "http", HOST

    @property
    def origin(self) -> str:
        return f"{HOST}:{self._port}"

    def _options(self, _workload: Workload) -> list[str]:
        """More options of the client."""
        return []

    def verify(self, target: Target) -> None:
        verify_digest(target, self._port, f"/fixed?events={VERIFIED_EVENTS}")

    def measure(self, target: Target, workload: Workload) -> Round:
        settings = self._settings
        command = [
            *(self._client, "-url", f"{self._scheme}://{self._host}:{target.port}/events"),
            *("-streams", str(settings.streams), *self._options(workload)),
        ]
        with Process(command, core=settings.load_core, runtime=self._runtime, interactive=True) as client:
            message(client)  # every stream has had its first event
            time.sleep(settings.warm_up)
            window = Window(target, settings)
            window.open()
            tell(client, "begin")
            time.sleep(settings.seconds)
            tell(client, "end")
            window.close()
            report = message(client)
        errors = []
        if report["failures"]:
            errors.append(f"{report['failures']} streams failed: {report['first_error']}")
        due = settings.streams * settings.events_per_second * report["seconds"]
        if report["events"] < DELIVERED_SHARE * due:
            errors.append(f"{report['events']} events of {due:.0f}")
        return Round(
            units=report["events"],
            bytes=report["events"] * workload.size,
            seconds=report["seconds"],
            cpu_seconds=window.cpu_seconds,
            p50_us=report["p50_us"],
            p99_us=report["p99_us"],
            other_cpu=window.other_cpu,
            errors=tuple(errors),
        )


@contextmanager
def event_load(settings: Settings, runtime: Path, make: type[EventLoad] = EventLoad) -> Iterator[EventLoad]:
    """Start the origin. Raises AbsentError if Go is missing."""
    port = free_port()
    load = make(settings, port, runtime)
    origin_command = [go("load/sse", "./origin"), "-listen", f"{HOST}:{port}"]
    origin_command += ["-rate", str(settings.events_per_second)]
    with Process(origin_command, core=settings.load_core, runtime=runtime) as origin:
        origin.wait_until_listening(port)
        yield load
