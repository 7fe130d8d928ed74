"""What idle clients cost in memory over TLS and HTTP/2, beside the peers: `secured_connections.py [--clients 2000]`.

Each case is a fresh gateway: connections without TLS, over TLS by HTTP/1.1 and by HTTP/2, each of which has had one
answer and is kept; and quiet event streams, 50 of them on each connection of HTTP/2. Reported are bytes of the gateway's
processes in memory, what they share counted once, for each connection or stream, over what they were when it had
answered ten. Results are in results/secured_connections.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import ssl
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event

from harness import command, results, secured
from harness.builds import AbsentError
from harness.fan_out import resident
from harness.gateways import BY_NAME, Gateway, Launch
from harness.processes import HOST, Process, free_port
from harness.quiet_origin import origin
from harness.secured_gateways import BY_NAME as SECURED
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "secured_connections.json"
CLIENTS, STREAMS, FIRST = 2000, 50, 10
IDLE_SECONDS = 2.0
# Which gateway is started, without TLS and with it.
PLAIN = {"nginx": "nginx", "haproxy": "haproxy", "penstock": "penstock-native"}
NAMES = ("nginx", "haproxy", "caddy", "penstock")
# At most this over a plain connection of its own.
MOST_OVER_PLAIN = 12 * 1024


@dataclass(frozen=True)
class Row:
    """What one case cost."""

    gateway: str
    case: str
    count: int
    bytes_each: float


def trusting(protocol: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


async def by_http_1(port: int, context: ssl.SSLContext | None) -> asyncio.StreamWriter:
    name = {} if context is None else {"ssl": context, "server_hostname": secured.NAME}
    reader, writer = await asyncio.open_connection(HOST, port, limit=4096, **name)
    writer.write(f"GET /ok HTTP/1.1\r\nHost: {secured.NAME}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode(errors="replace"))
    await reader.readuntil(b"ok")
    return writer


async def by_http_2(port: int, context: ssl.SSLContext, path: str, streams: int) -> asyncio.StreamWriter:
    """A connection on which each of `streams` has had a part of a body."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname=secured.NAME)
    protocol = H2Connection(H2Configuration(header_encoding="utf-8"))
    protocol.initiate_connection()
    for _ in range(streams):
        head = {":method": "GET", ":scheme": "https", ":authority": secured.NAME, ":path": path}
        protocol.send_headers(protocol.get_next_available_stream_id(), list(head.items()), end_stream=True)
    waiting = streams
    while waiting:
        writer.write(protocol.data_to_send())
        data = await reader.read(1 << 16)
        if not data:
            raise RuntimeError("the gateway has closed the connection")
        events: list[Event] = protocol.receive_data(data)
        waiting -= sum(isinstance(event, DataReceived) and bool(event.data) for event in events)
    # Settings and windows are acknowledged.
    writer.write(protocol.data_to_send())
    return writer


def connecting(case: str, port: int) -> Callable[[], asyncio.Future[asyncio.StreamWriter]]:
    """What opens one more connection of a case."""
    if case == "h2":
        context = trusting("h2")
        return lambda: asyncio.ensure_future(by_http_2(port, context, "/ok", 1))
    if case == "h2-streams":
        context = trusting("h2")
        return lambda: asyncio.ensure_future(by_http_2(port, context, "/events", STREAMS))
    tls = trusting("http/1.1") if case == "tls" else None
    return lambda: asyncio.ensure_future(by_http_1(port, tls))


async def measure(gateway: Gateway, name: str, case: str, count: int, upstream: int, root: Path) -> Row:
    folder = root / f"{name}-{case}"
    folder.mkdir()
    port = free_port()
    kind = "secured-events" if gateway.name in SECURED else "events"
    launch = Launch(kind, f"{HOST}:{port}", f"{HOST}:{upstream}", folder)
    each = STREAMS if case == "h2-streams" else 1
    connections = count // each
    with Process(gateway.command(launch), core=FULL.gateway_core, runtime=folder) as running:
        await asyncio.to_thread(running.wait_until_listening, port)
        connect, turn = connecting(case, port), asyncio.Semaphore(16)

        async def one() -> asyncio.StreamWriter:
            async with turn:
                return await connect()

        writers = [await one() for _ in range(FIRST)]
        await asyncio.sleep(IDLE_SECONDS)
        before = resident(running.pid)
        writers += await asyncio.gather(*(one() for _ in range(connections)))
        await asyncio.sleep(IDLE_SECONDS)
        used = resident(running.pid) - before
        for writer in writers:
            writer.transport.abort()
    return Row(name, case, connections * each, round(used / connections / each, 1))


async def run(names: list[str], count: int, root: Path) -> tuple[list[Row], dict[str, str]]:
    (root / "origin").mkdir()
    secured.write_certificate(root / "origin")
    server = await asyncio.start_server(origin, HOST, 0, backlog=4096)
    upstream = server.sockets[0].getsockname()[1]
    rows, absent = [], {}
    async with server:
        for name in names:
            for case in ("plain", "tls", "h2", "h2-streams"):
                if case == "plain" and name not in PLAIN:
                    continue
                gateway = BY_NAME[PLAIN[name]] if case == "plain" else SECURED[name]
                try:
                    rows.append(await measure(gateway, name, case, count, upstream, root))
                except AbsentError as error:
                    absent[name] = str(error)
                    break
                command.say(f"{name} {case}: {rows[-1].bytes_each:.0f} bytes")
    return rows, absent


def show(rows: list[Row]) -> None:
    found = {(row.gateway, row.case): row.bytes_each for row in rows}
    cases = tuple(dict.fromkeys(row.case for row in rows))
    print(f"{'bytes each':12}" + "".join(f"{case:>12}" for case in cases))
    for name in dict.fromkeys(row.gateway for row in rows):
        known = (found.get((name, case)) for case in cases)
        print(f"{name:12}" + "".join(f"{'-' if value is None else f'{value:.0f}':>12}" for value in known))
    plain, tls = found.get(("penstock", "plain")), found.get(("penstock", "tls"))
    if plain is not None and tls is not None:
        over = tls - plain
        is_met = command.met(over <= MOST_OVER_PLAIN)
        print(f"TLS over a plain connection: {over:.0f} bytes, {MOST_OVER_PLAIN} at most: {is_met}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=CLIENTS, help="default: %(default)s")
    parser.add_argument("--gateway", action="append", choices=NAMES, help="only these; may be repeated")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.sched_setaffinity(0, {FULL.load_core})
    names = arguments.gateway or list(NAMES)
    with tempfile.TemporaryDirectory(prefix="penstock-connections-") as root:
        rows, absent = asyncio.run(run(names, arguments.clients, Path(root)))
    show(rows)
    if not arguments.gateway:
        results.publish(
            OUTPUT, rows, versions=results.versions([SECURED[name] for name in NAMES], absent), absent=absent
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
