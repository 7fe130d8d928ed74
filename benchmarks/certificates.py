"""What a reload of a thousand certificates does to clients: `certificates.py [--reloads 10]`.

`penstock serve --tls-dir` on one core, two clients on another. One asks for a small response again and again on a
connection that it keeps; the other opens a connection for a name by chance, looks whose certificate it gets, and asks
once. First nothing happens for some seconds. Then the directory, which is a symbolic link, is pointed to another one
with a thousand other certificates, and penstock gets SIGHUP, a second apart. Reported are failed requests, latencies,
and how long it took until the first connection got a certificate of the other thousand. Results are in
results/certificates.json.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import trustme

from harness import command, results
from harness.processes import HOST, Process, free_port
from harness.segments import origin_command
from harness.settings import FULL

OUTPUT = results.DIRECTORY / "certificates.json"
COUNT, RELOADS, QUIET_SECONDS = 1000, 10, 10.0
MOST_PAUSE_MS = 20.0
SETS = ("first", "second")
REQUEST = "GET /small HTTP/1.1\r\nHost: {}\r\n\r\n"


@dataclass(frozen=True)
class Row:
    """One part of the run. Times are in milliseconds."""

    part: str
    requests: int
    connections: int
    failed: int
    p50: float
    p99: float
    worst: float
    connection_p50: float
    connection_worst: float
    reload_p50: float | None = None
    reload_worst: float | None = None


@dataclass
class Client:
    """What a client has seen since it was last asked."""

    times: list[float] = field(default_factory=list)
    failed: int = 0

    def take(self) -> tuple[list[float], int]:
        times, failed = self.times, self.failed
        self.times, self.failed = [], 0
        return times, failed


def name_of(number: int) -> str:
    return f"host{number}.example"


def write_certificates(root: Path) -> None:
    """Two sets of a certificate for each name, whose authorities bear the names of the sets."""
    for each in SETS:
        authority = trustme.CA(organization_name=each, key_type=trustme.KeyType.ECDSA)
        (root / each).mkdir()
        for number in range(COUNT):
            leaf = authority.issue_cert(name_of(number), key_type=trustme.KeyType.ECDSA)
            (root / each / f"{name_of(number)}.pem").write_bytes(leaf.cert_chain_pems[0].bytes())
            (root / each / f"{name_of(number)}.key").write_bytes(leaf.private_key_pem.bytes())
            (root / each / f"{name_of(number)}.key").chmod(0o600)


def point(root: Path, target: str) -> None:
    """Swap the symbolic link in one step."""
    (root / "new").symlink_to(root / target)
    (root / "new").rename(root / "live")


def connected(port: int, name: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((HOST, port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname=name)


def ask(connection: ssl.SSLSocket, name: str) -> None:
    """Raises OSError if the response is not the small one."""
    connection.sendall(REQUEST.format(name).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\nok"):
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionError("the connection was closed")
        answer += piece
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(answer.decode(errors="replace"))


def keep_asking(port: int, client: Client, ends: threading.Event) -> None:
    with connected(port, name_of(0)) as connection:
        while not ends.is_set():
            began = time.perf_counter()
            try:
                ask(connection, name_of(0))
            except OSError:
                client.failed += 1
                return
            client.times.append(time.perf_counter() - began)


def shown(connection: ssl.SSLSocket) -> bytes:
    certificate = connection.getpeercert(binary_form=True)
    return next(each.encode() for each in SETS if each.encode() in (certificate or b""))


def connect_again(port: int, client: Client, seen: dict[bytes, float], ends: threading.Event) -> None:
    """`seen` gets the time at which a set was first shown after it was emptied."""
    while not ends.is_set():
        name = name_of(random.randrange(COUNT))
        began = time.perf_counter()
        try:
            with connected(port, name) as connection:
                ask(connection, name)
                seen.setdefault(shown(connection), time.perf_counter())
        except (OSError, StopIteration):
            client.failed += 1
            continue
        client.times.append(time.perf_counter() - began)


@contextmanager
def clients(port: int) -> Iterator[tuple[Client, Client, dict[bytes, float]]]:
    ends, kept, new, seen = threading.Event(), Client(), Client(), dict[bytes, float]()
    threads = (
        threading.Thread(target=keep_asking, args=(port, kept, ends)),
        threading.Thread(target=connect_again, args=(port, new, seen, ends)),
    )
    for thread in threads:
        thread.start()
    try:
        yield kept, new, seen
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def row(part: str, kept: Client, new: Client, reloads: list[float]) -> Row:
    (times, failed), (connections, not_connected) = kept.take(), new.take()
    milliseconds = [each * 1000 for each in times]
    handshakes = [each * 1000 for each in connections]
    return Row(
        part,
        len(times),
        len(connections),
        failed + not_connected,
        round(median(milliseconds), 2),
        round(quantiles(milliseconds, n=100)[98], 2),
        round(max(milliseconds), 2),
        round(median(handshakes), 2),
        round(max(handshakes), 2),
        round(median(reloads) * 1000, 1) if reloads else None,
        round(max(reloads) * 1000, 1) if reloads else None,
    )


def measure(reloads: int, root: Path) -> list[Row]:
    write_certificates(root)
    point(root, SETS[0])
    for name in ("www", "origin", "gateway"):
        (root / name).mkdir()
    (root / "www" / "small").write_bytes(b"ok")
    origin_port, port = free_port(), free_port()
    origin = origin_command(root / "origin", origin_port, root / "www", expires="1h")
    serve = [sys.executable, "-m", "penstock", "serve", "--origin", f"http://{HOST}:{origin_port}"]
    serve += [
        "--listen",
        f"{HOST}:{port}",
        "--threads",
        "1",
        "--no-access-log",
        "--tls-dir",
        str(root / "live"),
    ]
    with (
        Process(origin, core=FULL.load_core, runtime=root / "origin") as running_origin,
        Process(serve, core=FULL.gateway_core, runtime=root / "gateway") as gateway,
    ):
        running_origin.wait_until_listening(origin_port)
        gateway.wait_until_listening(port)
        with clients(port) as (kept, new, seen):
            time.sleep(1)
            kept.take(), new.take()
            time.sleep(QUIET_SECONDS)
            rows = [row("quiet", kept, new, [])]
            taken = []
            for number in range(reloads):
                target = SETS[(number + 1) % len(SETS)]
                point(root, target)
                seen.clear()
                began = time.perf_counter()
                gateway.child.send_signal(signal.SIGHUP)
                time.sleep(1)
                if target.encode() not in seen:
                    raise SystemExit(
                        f"a second after SIGHUP no connection had a certificate of the {target} set"
                    )
                taken.append(seen[target.encode()] - began)
            rows.append(row(f"{reloads} reloads", kept, new, taken))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reloads", type=int, default=RELOADS, help="default: %(default)s")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {FULL.load_core})
    # A thread of ours must not be what another one waits for.
    sys.setswitchinterval(0.0005)
    with tempfile.TemporaryDirectory(prefix="penstock-certificates-") as root:
        rows = measure(arguments.reloads, Path(root))
    for each in rows:
        print(
            f"{each.part:12} {each.requests} requests, {each.connections} connections, {each.failed} failed; request "
            f"p50 {each.p50} ms, p99 {each.p99}, worst {each.worst}; connection p50 {each.connection_p50}, worst "
            f"{each.connection_worst}"
        )
    after = rows[-1]
    print(f"in effect {after.reload_p50} ms after SIGHUP, at worst {after.reload_worst}")
    print(f"no request failed: {command.met(not after.failed)}")
    print(
        f"longest pause {after.worst} ms, {MOST_PAUSE_MS:g} at most: {command.met(after.worst <= MOST_PAUSE_MS)}"
    )
    results.publish(OUTPUT, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
