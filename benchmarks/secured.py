"""What TLS and HTTP/2 towards clients cost, handshakes included, beside the peers: README.md beside this file.

    secured.py                          three rounds of 3 s, about 35 minutes
    secured.py --quick                  one round of 2 s
    secured.py --workload relay-64k-h2-16x1 --gateway nginx --gateway penstock
    secured.py --publish                writes the table of docs/guide/tls.md from results/secured.json

Needs h2load and the peers (`sudo apt-get install nghttp2-client nginx haproxy caddy`, `pip install hypercorn granian`).
A full run is kept in results/secured.json. Exit status: see harness/command.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

from harness import command, results, secured, secured_table, table
from harness.builds import BENCHMARKS
from harness.measurement import Cell
from harness.run import run
from harness.secured import Secured
from harness.secured_gateways import BY_NAME, SECURED_GATEWAYS
from harness.settings import Settings

OUTPUT = results.DIRECTORY / "secured.json"
PAGE = BENCHMARKS.parent / "docs" / "guide" / "tls.md"
FULL = Settings(rounds=3, seconds=3.0)
QUICK = Settings(rounds=1, seconds=2.0)
METHOD = (
    "Each gateway is pinned to one core, origin and h2load share another, and all show one ECDSA certificate and use "
    "TLS 1.3 with AES-128-GCM, as h2load says of each. CPU is the gateway's user + system time (scheduler's account, "
    "all threads and processes) divided by the responses, handshakes included: 16 or 10 a round. Rounds are "
    "interleaved, CPU is the best round's, other figures are medians. Latencies are those of a saturated closed loop. A"
    " handshake is a connection of Python's ssl, one at a time, that asks for 2 bytes and is closed. Event streams are "
    "1,000 with 10 events a second, by HTTP/1.1 on as many connections; their latencies run from the origin's write to "
    "the client's read."
)
# What HTTP/2 may cost of HTTP/1.1 over TLS, of nginx's and, for a handler, of the servers of applications.
MOST = {"h1": 1.15, "nginx": 1.0, "hypercorn": 0.5, "granian": 0.7}
PEERS = {"secured": "nginx", "secured-events": "nginx", "secured-hits": "nginx-cache"}


@dataclass(frozen=True)
class Row:
    """One cell. Times are in microseconds."""

    gateway: str
    workload: str
    cpu_us: float | None
    of_h1: float | None
    """Of the same gateway's CPU time by HTTP/1.1 over TLS."""
    of_nginx: float | None
    rate: float | None
    p50_us: float | None
    p99_us: float | None
    spread: float | None
    void: str | None
    rounds: list[dict[str, object]]


def rows_of(cells: list[Cell]) -> list[Row]:
    costs = {(cell.gateway, cell.workload): cell.cpu_us for cell in cells}

    def share(cell: Cell, gateway: str, workload: str) -> float | None:
        base = costs.get((gateway, workload))
        return None if cell.cpu_us is None or not base else round(cell.cpu_us / base, 3)

    return [
        Row(
            gateway=cell.gateway,
            workload=cell.workload,
            of_h1=share(cell, cell.gateway, secured.by_http_1(cell.workload)),
            of_nginx=share(cell, PEERS.get(secured.BY_NAME[cell.workload].kind, ""), cell.workload),
            rate=cell.rate,
            **command.figures(cell),
        )
        for cell in cells
    ]


def show(rows: list[Row]) -> None:
    columns = (
        ("cpu_us", "CPU us", 10, ".1f"),
        ("of_h1", "/HTTP 1.1", 11, ".2f"),
        ("of_nginx", "/nginx", 8, ".2f"),
        ("rate", "per s", 10, ".0f"),
        ("p50_us", "p50 us", 9, ".0f"),
        ("p99_us", "p99 us", 9, ".0f"),
        ("spread", "spread", 8, ".0%"),
    )
    for workload in dict.fromkeys(row.workload for row in rows):
        print(f"\n{secured.BY_NAME[workload].title}")
        of_it = [row for row in rows if row.workload == workload]
        command.show(of_it, columns, lambda row: BY_NAME[row.gateway].title, 34)


def verdicts(rows: list[Row]) -> list[str]:
    """Return which targets are met."""
    costs = {(row.gateway, row.workload): row.cpu_us for row in rows}
    said = []
    for row in (row for row in rows if BY_NAME[row.gateway].own):
        shares = {"h1": row.of_h1, "nginx": row.of_nginx}
        for peer in ("hypercorn", "granian"):
            base = costs.get((peer, row.workload))
            shares[peer] = row.cpu_us / base if base and row.cpu_us else None
        for name, share in shares.items():
            is_h1 = "-h1-" in row.workload
            if share is not None and not (is_h1 and name == "h1"):
                most = MOST[name]
                said.append(
                    f"{row.workload}: {share:.2f} of {name}, {most} at most: {command.met(share <= most)}"
                )
    return said


def parse_arguments() -> argparse.Namespace:
    parser = command.parser_of(__doc__, FULL, QUICK)
    parser.add_argument("--gateway", action="append", choices=BY_NAME, help="only these; may be repeated")
    parser.add_argument(
        "--workload", action="append", choices=secured.BY_NAME, help="only these; may be repeated"
    )
    parser.add_argument("--publish", action="store_true", help="measure nothing, and write the page")
    command.add_output(parser, OUTPUT)
    return parser.parse_args()


def publish() -> int:
    kept = json.loads(OUTPUT.read_text())
    shown = f"{secured_table.markdown(kept['rows'])}\n\nMeasured at commit {kept['revision']}."
    PAGE.write_text(table.render(PAGE.read_text(), shown, secured_table.BEGIN, secured_table.END))
    return 0


def measure(arguments: argparse.Namespace) -> int:
    settings = command.settings_of(arguments, FULL, QUICK)
    command.pin(settings)
    gateways = [gateway for gateway in SECURED_GATEWAYS if gateway.name in (arguments.gateway or BY_NAME)]
    workloads: list[Secured] = [
        workload for workload in secured.WORKLOADS if workload.name in (arguments.workload or secured.BY_NAME)
    ]
    outcome = run(gateways, [*workloads], settings, command.say)
    rows = rows_of(outcome.cells)
    show(rows)
    print()
    for line in verdicts(rows):
        print(line)
    is_full = not (arguments.quick or arguments.gateway or arguments.workload)
    output = arguments.output or (OUTPUT if is_full else None)
    return command.end(rows, outcome.cells, outcome.absent, gateways, settings, output, method=METHOD)


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(publish() if arguments.publish else command.run(measure, arguments))
