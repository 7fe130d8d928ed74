"""What traces cost a relay, beside OpenTelemetry's SDK in an aiohttp proxy: README.md beside this file.

    tracing.py                           five rounds of 5 s, and counts: about 5 minutes
    tracing.py --quick                   one round of 2 s

A share of a hundredth is below what times on a shared machine can tell: instructions are counted as well, by callgrind.

A run without options is kept in results/tracing.json. The SDK (`pip install opentelemetry-sdk
opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-aiohttp-server
opentelemetry-instrumentation-aiohttp-client`) is absent if it is not installed. Exit status: see harness/command.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import command, results
from harness.builds import BENCHMARKS, AbsentError
from harness.counting import BY_NAME, profile
from harness.gateways import Gateway, Launch, aiohttp_command, package_versions, penstock_command
from harness.measurement import SEGMENTS, Cell
from harness.processes import Process, free_port
from harness.run import run
from harness.settings import FULL, QUICK, Settings

OUTPUT = results.DIRECTORY / "tracing.json"
METHOD = (
    "As the relays of compare.py: the gateway has one core, origin, wrk and the collector share another. CPU is the "
    "gateway's user + system time (scheduler's account, all threads) divided by the responses, the sending of spans "
    "included; rounds are interleaved, CPU is the best round's, other figures are medians. Instructions are of a "
    "request in a window of 500, by all threads of the process."
)
SDK = ("opentelemetry.sdk", "opentelemetry.instrumentation.aiohttp_server")
# What 1 % of all requests may cost of none, and how many microseconds each of them.
MOST_SHARE, MOST_US = 1.01, 3.0
WORKLOADS = [workload for workload in SEGMENTS if workload.name == "segment-16k"]


def _own(name: str, title: str, command: Callable[[Launch], list[str]]) -> Gateway:
    versions = package_versions("penstock", "aiohttp", "uvloop")
    return Gateway(name, title, command, versions, kinds=frozenset({"segments"}), own=True)


def gateways(collector: str) -> list[Gateway]:
    """What is measured, with spans sent to `collector`."""

    def traced(ratio: str) -> tuple[str, ...]:
        return ("--traces", collector, "--traces-ratio", ratio)

    peer = package_versions("aiohttp", "uvloop")
    kinds = frozenset({"segments"})
    return [
        _own("off", "penstock, native lane", penstock_command("native")),
        _own("1%", "penstock, native lane, 1 % traced", penstock_command("native", *traced("0.01"))),
        _own("all", "penstock, native lane, all traced", penstock_command("native", *traced("1"))),
        Gateway("aiohttp", "aiohttp proxy", aiohttp_command(), peer, kinds=kinds),
        Gateway(
            "aiohttp-sdk",
            "aiohttp proxy, all traced by the SDK",
            aiohttp_command(*traced("1")[:2], needs=SDK),
            package_versions("aiohttp", "uvloop", "opentelemetry-sdk"),
            kinds=kinds,
        ),
    ]


BASES = {"1%": "off", "all": "off", "aiohttp-sdk": "aiohttp"}


@dataclass(frozen=True)
class Row:
    """One cell. Times are in microseconds; the share and the difference are to the same gateway without traces."""

    gateway: str
    workload: str
    instructions: float | None
    instructions_of_off: float | None
    cpu_us: float | None
    of_off: float | None
    more_us: float | None
    p50_us: float | None
    p99_us: float | None
    rate: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def counted(measured: list[Gateway], settings: Settings) -> dict[str, float]:
    """Instructions of a relay of 16 KiB by each of penstock's; nothing without valgrind."""
    row = BY_NAME["relay-16k"]
    found = {}
    for gateway in measured:
        if gateway.own:
            try:
                found[gateway.name] = profile(row, gateway, settings).instructions / row.steps
            except AbsentError as error:
                command.say(f"{gateway.name}: instructions are not counted: {error}")
    return found


def rows_of(cells: list[Cell], counts: dict[str, float]) -> list[Row]:
    costs = {(cell.gateway, cell.workload): cell.cpu_us for cell in cells}
    share = command.shares(cells)

    def more(cell: Cell) -> float | None:
        base = costs.get((BASES.get(cell.gateway, ""), cell.workload))
        return None if cell.cpu_us is None or base is None else round(cell.cpu_us - base, 2)

    def of_off(name: str) -> float | None:
        base = counts.get(BASES.get(name, ""))
        return None if name not in counts or base is None else round(counts[name] / base, 4)

    return [
        Row(
            gateway=cell.gateway,
            workload=cell.workload,
            instructions=counts.get(cell.gateway),
            instructions_of_off=of_off(cell.gateway),
            of_off=share(cell, BASES.get(cell.gateway, "")),
            more_us=more(cell),
            rate=cell.rate,
            **command.figures(cell),
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("instructions", "instr", 9, ".0f"),
        ("instructions_of_off", "/off", 8, ".3f"),
        ("cpu_us", "CPU us", 9, ".2f"),
        ("of_off", "/off", 8, ".3f"),
        ("more_us", "more us", 9, ".2f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("rate", "per s", 9, ".0f"),
        ("spread", "spread", 8, ".0%"),
    )
    command.show(rows, columns, lambda row: f"{row.workload}, {row.gateway}")
    for row in rows:
        if row.gateway == "1%" and row.instructions_of_off is not None:
            met = command.met(row.instructions_of_off <= MOST_SHARE)
            share = f"{row.instructions_of_off:.3f} of the instructions of none"
            print(f"{row.workload}, 1 %: {share}, {MOST_SHARE} at most: {met}")
        if row.gateway == "all" and row.more_us is not None:
            met = command.met(row.more_us <= MOST_US)
            print(f"{row.workload}, all: {row.more_us:.2f} us more than none, {MOST_US} at most: {met}")


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL, QUICK)
    command.pin(settings)
    port = free_port()
    sink = [sys.executable, str(BENCHMARKS / "peers" / "trace_sink.py"), str(port)]
    with (
        TemporaryDirectory() as runtime,
        Process(sink, core=settings.load_core, runtime=Path(runtime)),
    ):
        measured = gateways(f"http://127.0.0.1:{port}/v1/traces")
        outcome = run(measured, WORKLOADS, settings, command.say)
        counts = counted(measured, settings)
    rows = rows_of(outcome.cells, counts)
    show(rows)
    output = arguments.output or (OUTPUT if settings == FULL else None)
    return command.end(rows, outcome.cells, outcome.absent, measured, settings, output, method=METHOD)


if __name__ == "__main__":
    sys.exit(command.run(measure, parse_arguments()))
