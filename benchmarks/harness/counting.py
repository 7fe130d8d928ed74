"""What is counted, for each row of counts.py: how its load is put, and the gateways that take it.

A gateway is started anew for each count, under callgrind or strace, with one connection of a client's and one of the
origin's. Counting begins after a warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness import callgrind, gateways, hit_caches, hubs, secured_gateways
from harness.callgrind import Callgrind, Profile
from harness.gateways import Gateway, Kind, Launch, penstock_command
from harness.load import LoadError
from harness.lockstep import Lockstep
from harness.lockstep_clients import HTTP_1, HTTP_2
from harness.processes import HOST, Process, free_port
from harness.secured import write_certificate
from harness.settings import Settings
from harness.system_calls import SystemCalls

STARTUP_SECONDS = 120.0
SUBSCRIBERS = 500
STREAMS = 10
# Each has the program translated anew, which takes longer than the step.
COLD_STEPS = 3
SEGMENT = b"/segment.m4s"
WAKEUPS = b"/wakeups"
# One process, which is the one that is counted: a master would only be waited for.
ALONE = {"nginx": ["-g", "master_process off;"]}
# Under valgrind handlers and threads are late, which a site would take for overload, and refuse requests.
PATIENT = {"penstock_app.py": ["--patient"]}
MIDDLEWARE = Gateway(
    "penstock-middleware",
    "**penstock**, application's lane, one middleware",
    penstock_command("app", "--middleware"),
    gateways.BY_NAME["penstock"].versions,
    kinds=frozenset({"segments"}),
    own=True,
)
# Over TLS some have the names of others.
SECURED = {
    f"{name}-tls": replace(gateway, name=f"{name}-tls", title=f"{gateway.title}, TLS")
    for name, gateway in secured_gateways.BY_NAME.items()
}
# Their handlers write the frames of a response.
FRAMES = ("penstock-frames", "penstock-frames-stock")
# They answer WAKEUPS. A native route has no loop to wake.
WAKING = frozenset({"penstock", MIDDLEWARE.name, *FRAMES})
GATEWAYS = gateways.BY_NAME | hit_caches.BY_NAME | hubs.BY_NAME | SECURED | {MIDDLEWARE.name: MIDDLEWARE}


@dataclass(frozen=True)
class Row:
    """What is counted per `unit`. A step of the load has `units` of them; `gateways` are penstock's, then its peers."""

    name: str
    title: str
    kind: Kind
    gateways: tuple[str, ...]
    step: Callable[[Lockstep], object]
    steps: int
    """In a window."""
    size: int = 2
    begin: Callable[[Lockstep], object] = lambda _load: None
    unit: str = "request"
    units: int = 1
    protocol: str = ""
    """Of the client's connection: one of CLIENTS."""


def _fetch(load: Lockstep) -> None:
    load.fetch(SEGMENT)


def _handler(load: Lockstep) -> None:
    if load.get(b"/ok") != b"ok":
        raise LoadError("the handler's answer is not ok")


def _secured_hit(size: int, protocol: str) -> Row:
    name = f"hit-{size}k-{protocol.replace('http/1.1', 'h1')}"
    title = f"hit over TLS, {protocol}, {size} KiB"
    return Row(
        name,
        title,
        "secured-hits",
        ("penstock-cache-tls", "nginx-cache-tls"),
        _fetch,
        200,
        size << 10,
        protocol=protocol,
    )


def _fetch_several(load: Lockstep) -> None:
    load.fetch_several(SEGMENT, STREAMS)


def _secured_event(protocol: str) -> Row:
    return Row(
        f"event-{protocol.replace('http/1.1', 'h1')}",
        f"relayed event over TLS, {protocol}, 200 bytes",
        "secured-events",
        # By HTTP/2 nginx sends no head before the first event.
        ("penstock-tls", "nginx-tls") if protocol == HTTP_1 else ("penstock-tls",),
        Lockstep.send_event,
        500,
        begin=Lockstep.follow,
        unit="event",
        protocol=protocol,
    )


ROWS = (
    Row("relay-16k", "native relay, 16 KiB", "segments", ("penstock-native", "nginx"), _fetch, 500, 16 << 10),
    Row("relay-64k", "native relay, 64 KiB", "segments", ("penstock-native", "nginx"), _fetch, 500, 64 << 10),
    Row("hit-16k", "hit, 16 KiB", "hits", ("penstock-cached", "nginx-cache"), _fetch, 500, 16 << 10),
    Row(
        "event",
        "relayed event, 200 bytes",
        "events",
        ("penstock-native", "nginx"),
        Lockstep.send_event,
        1000,
        begin=Lockstep.follow,
        unit="event",
    ),
    Row(
        "delivery",
        f"delivered event of a hub, {SUBSCRIBERS} subscribers",
        "fan-out",
        (hubs.OWN,),
        Lockstep.publish,
        20,
        begin=lambda load: load.subscribe(SUBSCRIBERS),
        unit="delivery",
        units=SUBSCRIBERS,
    ),
    Row(
        "app-relay-64k",
        "relay of the application's lane, 64 KiB",
        "segments",
        ("penstock", MIDDLEWARE.name, "aiohttp"),
        _fetch,
        500,
        64 << 10,
    ),
    Row(
        "frames-64k",
        "relay by a handler that writes frames, 64 KiB",
        "segments",
        (*FRAMES, "aiohttp"),
        _fetch,
        500,
        64 << 10,
    ),
    Row("handler", 'Response(text="ok")', "handlers", ("penstock", "aiohttp"), _handler, 1000),
    *(_secured_hit(size, protocol) for size in (16, 64) for protocol in (HTTP_1, HTTP_2)),
    replace(
        _secured_hit(16, HTTP_2),
        name=f"hit-16k-h2-{STREAMS}",
        title=f"hit over TLS, h2, 16 KiB, {STREAMS} streams at once",
        step=_fetch_several,
        steps=20,
        units=STREAMS,
    ),
    *(_secured_event(protocol) for protocol in (HTTP_1, HTTP_2)),
)
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Calls:
    """System calls and wake-ups of the event loop, per unit of a row; None for a gateway that does not tell those."""

    system_calls: dict[str, float]
    wakeups: float | None


def _command(gateway: Gateway, launch: Launch) -> list[str]:
    command = gateway.command(launch)
    names = [Path(word).name for word in command]
    patient = [option for name in names for option in PATIENT.get(name, ())]
    return [*command, *ALONE.get(names[0], ()), *patient]


@contextmanager
def started(
    row: Row, gateway: Gateway, settings: Settings, under: Callable[[list[str], Path], list[str]]
) -> Iterator[tuple[Lockstep, Process, Path]]:
    """Run a gateway, and put the load on it until it is warm. Raises AbsentError, StartError or LoadError."""
    port = free_port()
    with TemporaryDirectory(prefix="penstock-counts-") as name, Lockstep(row.size) as load:
        # A worker that drops its privileges reaches what is its own below it.
        runtime, certificates = Path(name) / "gateway", Path(name) / "origin"
        for directory in (runtime.parent, runtime):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
        if row.protocol:
            certificates.mkdir()
            write_certificate(certificates)
        launch = Launch(row.kind, f"{HOST}:{port}", load.origin, runtime)
        command = under(_command(gateway, launch), runtime)
        with Process(command, core=settings.gateway_core, runtime=runtime) as process:
            process.wait_until_listening(port, seconds=STARTUP_SECONDS)
            try:
                load.connect(port, row.protocol)
                row.begin(load)
                _put(row, load)
                yield load, process, runtime
            except (LoadError, OSError) as error:
                raise LoadError(f"{error}; {process.diagnosis()}") from error


def _put(row: Row, load: Lockstep) -> None:
    for _ in range(row.steps):
        row.step(load)


def profile(row: Row, gateway: Gateway, settings: Settings) -> Profile:
    """Return what a window of the row's steps executes. Raises AbsentError, StartError or LoadError."""
    with started(row, gateway, settings, callgrind.command) as (load, process, runtime):
        counter = Callgrind(process, runtime)
        counter.count()
        row.step(load)
        counter.open()
        _put(row, load)
        return counter.close()


def cache_lines(row: Row, gateway: Gateway, settings: Settings) -> tuple[float, float]:
    """Return how many cache lines of code and of data a step touches, per unit. Raises as `profile`."""
    under = partial(callgrind.command, with_cache=True)
    with started(row, gateway, settings, under) as (load, process, runtime):
        counter = Callgrind(process, runtime)
        touched = []
        for _ in range(COLD_STEPS):
            counter.count()
            counter.open()
            row.step(load)
            touched.append(counter.close())
    code, data = ([getattr(step, name) for step in touched] for name in ("code_lines", "data_lines"))
    return median(code) / row.units, median(data) / row.units


def _wakeups(row: Row, load: Lockstep) -> float:
    """Return how often a window of the row's steps wakes the event loop, by the gateway's own count."""
    # Asking wakes the loop as well: what that takes is the difference of the first two answers.
    first, before = (int(load.get(WAKEUPS)) for _ in range(2))
    _put(row, load)
    return int(load.get(WAKEUPS)) - before - (before - first)


def calls(row: Row, gateway: Gateway, settings: Settings) -> Calls:
    """Count what a window of the row's steps calls. Raises AbsentError, StartError or LoadError."""
    with started(row, gateway, settings, lambda command, _runtime: command) as (load, process, runtime):
        with SystemCalls(process.pid, runtime) as counter:
            _put(row, load)
        units = row.steps * row.units
        system_calls = {name: round(number / units, 3) for name, number in counter.calls.most_common()}
        return Calls(system_calls, _wakeups(row, load) / units if gateway.name in WAKING else None)
