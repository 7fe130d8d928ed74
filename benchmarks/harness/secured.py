"""Segments over TLS: h2load asks for one of them, by HTTP/1.1 or HTTP/2, on so many connections of so many streams."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from statistics import median, quantiles

import trustme

from harness.builds import require
from harness.events import VERIFIED_EVENTS, EventLoad, event_load
from harness.gateways import Kind
from harness.load import FETCH_SECONDS, LoadError, Target, Window, digest
from harness.measurement import EVENTS, SEGMENTS, Round, Workload
from harness.processes import HOST, Process, free_port
from harness.secured_gateways import CERT, KEY, PAIR
from harness.segments import origin_command
from harness.settings import Settings

NAME = "localhost"
HANDSHAKES = {"handshake-full": "handshake, full", "handshake-resumed": "handshake, resumed"}
# What is asked for on each connection, so that the client gets its tickets.
SMALL = "/small"
# What h2load says of each gateway.
TLS = ("TLS Protocol: TLSv1.3", "Cipher: TLS_AES_128_GCM_SHA256")
DONE = re.compile(r"finished in ([\d.]+)(s|ms)")
REQUESTS = re.compile(r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout")


@dataclass(frozen=True)
class Secured(Workload):
    """By `protocol`, as ALPN names it, on `connections` of `streams`."""

    protocol: str
    connections: int
    streams: int
    path: str


# HTTP/1.1 with as many responses at a time as 10 connections of 10 streams have: what these cost in caches of the
# processor is no cost of HTTP/2.
AS_MANY = (("http/1.1", 100, 1),)
LARGEST = f"/{SEGMENTS[-1].name}.m4s"


def _workloads() -> Iterator[Secured]:
    shapes = (("http/1.1", 16, 1), ("h2", 16, 1), ("h2", 10, 10))
    bodies: list[tuple[Kind, str, int, str]] = [
        ("secured", f"relay-{segment.name.partition('-')[2]}", segment.size, f"/{segment.name}.m4s")
        for segment in SEGMENTS
    ]
    bodies += [("secured-hits", name.replace("relay", "hit"), size, path) for _, name, size, path in bodies]
    bodies += [("secured-handlers", "handler", 2, "/ok")]
    for kind, name, size, path in bodies:
        for protocol, connections, streams in (*shapes, *(AS_MANY if path == LARGEST else ())):
            short = f"{protocol.replace('http/1.1', 'h1')}-{connections}x{streams}"
            title = f"{name}, {protocol}, {connections} x {streams}"
            yield Secured(
                f"{name}-{short}", title, kind, size, "request", protocol, connections, streams, path
            )
    for name, title in HANDSHAKES.items():
        yield Secured(name, title, "secured", 0, "handshake", "http/1.1", 1, 1, SMALL)
    for protocol in ("http/1.1", "h2"):
        title = f"events, {protocol}"
        name = f"events-{protocol.replace('http/1.1', 'h1')}-1000x1"
        yield Secured(name, title, "secured-events", EVENTS.size, "event", protocol, 0, 0, "/events")


WORKLOADS = tuple(_workloads())
BY_NAME = {workload.name: workload for workload in WORKLOADS}


def by_http_1(name: str) -> str:
    """The workload that is the same as the one called `name` on connections of one stream, by HTTP/1.1."""
    body = name.partition("-h")[0]
    return next((known for known in BY_NAME if known.startswith(f"{body}-h1-")), name)


def _digest(port: int, path: str) -> str:
    """Return the SHA-256 of a complete 200 response over TLS. Raises LoadError for any other."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection(NAME, port, timeout=FETCH_SECONDS, context=context)
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


class SecuredLoad:
    """See harness.load.Load."""

    def __init__(self, settings: Settings, port: int, runtime: Path) -> None:
        self._settings = settings
        self._port = port
        self._runtime = runtime
        self._program = require("h2load", "nghttp2-client")

    @property
    def origin(self) -> str:
        return f"{HOST}:{self._port}"

    def verify(self, target: Target) -> None:
        assert target.gateway is not None
        if any("asgi_app" in word for word in target.gateway.command):
            return
        for segment in SEGMENTS:
            path = f"/{segment.name}.m4s"
            expected, delivered = digest(self._port, path), _digest(target.port, path)
            if expected != delivered:
                raise LoadError(f"{path}: the origin's SHA-256 is {expected}, the delivered {delivered}")

    def measure(self, target: Target, workload: Workload) -> Round:
        assert isinstance(workload, Secured)
        if workload.name in HANDSHAKES:
            return self._shake_hands(target, resumes=workload.name == "handshake-resumed")
        self._run(target, workload, self._settings.warm_up)
        window = Window(target, self._settings)
        window.open()
        output, log = self._run(target, workload, self._settings.seconds)
        window.close()
        counted = REQUESTS.search(output)
        done = DONE.search(output)
        times = [int(line.split("\t")[2]) for line in log.read_text().splitlines()]
        log.unlink()
        if counted is None or done is None or len(times) < 2:
            raise LoadError(f"h2load: {output[-1000:]}")
        succeeded, *wrong = map(int, counted.groups())
        names = ("failed", "errored", "timed out")
        return Round(
            units=succeeded,
            bytes=succeeded * workload.size,
            seconds=float(done[1]) / (1000 if done[2] == "ms" else 1),
            cpu_seconds=window.cpu_seconds,
            p50_us=median(times),
            p99_us=quantiles(times, n=100)[98],
            other_cpu=window.other_cpu,
            errors=tuple(f"{count} {name}" for count, name in zip(wrong, names, strict=True) if count),
        )

    def _shake_hands(self, target: Target, *, resumes: bool) -> Round:
        """Connect, ask for a small response and close, one connection at a time."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        session = _connection(context, target.port, None)[1]
        window = Window(target, self._settings)
        window.open()
        began, times, wrong = time.monotonic(), [], 0
        while time.monotonic() - began < self._settings.seconds:
            start = time.monotonic()
            reused, newer = _connection(context, target.port, session if resumes else None)
            session = newer or session
            times.append((time.monotonic() - start) * 1e6)
            wrong += reused is not resumes
        seconds = time.monotonic() - began
        window.close()
        return Round(
            units=len(times),
            bytes=0,
            seconds=seconds,
            cpu_seconds=window.cpu_seconds,
            p50_us=median(times),
            p99_us=quantiles(times, n=100)[98],
            other_cpu=window.other_cpu,
            errors=(f"{wrong} of {len(times)} were of the other kind",) if wrong else (),
        )

    def _run(self, target: Target, workload: Secured, seconds: float) -> tuple[str, Path]:
        log = self._runtime / "requests"
        log.unlink(missing_ok=True)
        command = [
            self._program,
            f"--duration={max(1, round(seconds))}",
            f"--clients={workload.connections}",
            f"--max-concurrent-streams={workload.streams}",
            f"--npn-list={workload.protocol}",
            f"--log-file={log}",
            # What a browser gives: a window of HTTP/2's own 64 KiB would measure round trips.
            "--window-bits=22",
            "--connection-window-bits=24",
            f"https://{NAME}:{target.port}{workload.path}",
        ]
        with Process(command, core=self._settings.load_core, runtime=self._runtime, interactive=True) as load:
            output = load.stdout.read()
            load.child.wait()
            if load.child.returncode or not log.exists():
                raise LoadError(f"h2load: {output.strip()} {load.diagnosis()}")
        for line in (f"Application protocol: {workload.protocol}", *TLS):
            if line not in output:
                raise LoadError(f"h2load does not say {line!r}")
        return output, log


def _connection(
    context: ssl.SSLContext, port: int, session: ssl.SSLSession | None
) -> tuple[bool, ssl.SSLSession | None]:
    """Whether a new connection resumed `session`, and what resumes it, once a small response has come."""
    with (
        socket.create_connection((HOST, port), timeout=FETCH_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=NAME, session=session) as connection,
    ):
        connection.sendall(f"GET {SMALL} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        if not answer.startswith(b"HTTP/1.1 200"):
            raise LoadError(f"{SMALL}: {answer[:100]!r}")
        return bool(connection.session_reused), connection.session


class SecuredEventLoad(EventLoad):
    """The event streams of `harness.events` over TLS: by HTTP/1.1 on a connection each, or by HTTP/2."""

    _scheme, _host = "https", NAME

    def _options(self, workload: Workload) -> list[str]:
        assert isinstance(workload, Secured)
        return ["-http2"] if workload.protocol == "h2" else []

    def verify(self, target: Target) -> None:
        path = f"/fixed?events={VERIFIED_EVENTS}"
        expected, delivered = digest(self._port, path), _digest(target.port, path)
        if expected != delivered:
            raise LoadError(f"{path}: the origin's SHA-256 is {expected}, the delivered {delivered}")


@contextmanager
def secured_event_load(settings: Settings, runtime: Path) -> Iterator[EventLoad]:
    """As `event_load`, with a certificate for the gateways."""
    write_certificate(runtime)
    with event_load(settings, runtime, SecuredEventLoad) as load:
        yield load


def write_certificate(directory: Path) -> None:
    """Write what all gateways show into `directory`."""
    certificate = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(NAME, key_type=trustme.KeyType.ECDSA)
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    key = certificate.private_key_pem.bytes()
    for name, content in ((CERT, chain), (KEY, key), (PAIR, chain + key)):
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)


@contextmanager
def secured_load(settings: Settings, runtime: Path) -> Iterator[SecuredLoad]:
    """Start the origin, and make a certificate. Raises AbsentError if nginx or h2load is missing."""
    write_certificate(runtime)
    root = runtime / "root"
    root.mkdir()
    for segment in SEGMENTS:
        (root / f"{segment.name}.m4s").write_bytes(os.urandom(segment.size))
    (root / SMALL.removeprefix("/")).write_bytes(b"ok")
    port = free_port()
    load = SecuredLoad(settings, port, runtime)
    command = origin_command(runtime, port, root, expires="1h")
    with Process(command, core=settings.load_core, runtime=runtime) as origin:
        origin.wait_until_listening(port)
        yield load
