"""Segments over TLS: h2load asks for one of them, by HTTP/1.1 or HTTP/2, on so many connections of so many streams."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from statistics import median, quantiles

import trustme

from harness.builds import require
from harness.gateways import Kind
from harness.load import FETCH_SECONDS, LoadError, Target, Window, digest
from harness.measurement import SEGMENTS, Round, Workload
from harness.processes import HOST, Process, free_port
from harness.secured_gateways import CERT, KEY, PAIR
from harness.segments import origin_command
from harness.settings import Settings

NAME = "localhost"
DONE = re.compile(r"finished in ([\d.]+)(s|ms)")
REQUESTS = re.compile(r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout")


@dataclass(frozen=True)
class Secured(Workload):
    """By `protocol`, as ALPN names it, on `connections` of `streams`."""

    protocol: str
    connections: int
    streams: int
    path: str


def _workloads() -> Iterator[Secured]:
    shapes = (("http/1.1", 16, 1), ("h2", 16, 1), ("h2", 10, 10))
    bodies: list[tuple[Kind, str, int, str]] = [
        ("secured", f"relay-{segment.name.partition('-')[2]}", segment.size, f"/{segment.name}.m4s")
        for segment in SEGMENTS
    ]
    bodies += [("secured-hits", name.replace("relay", "hit"), size, path) for _, name, size, path in bodies]
    bodies += [("secured-handlers", "handler", 2, "/ok")]
    for kind, name, size, path in bodies:
        for protocol, connections, streams in shapes:
            short = f"{protocol.replace('http/1.1', 'h1')}-{connections}x{streams}"
            title = f"{name}, {protocol}, {connections} x {streams}"
            yield Secured(
                f"{name}-{short}", title, kind, size, "request", protocol, connections, streams, path
            )


WORKLOADS = tuple(_workloads())
BY_NAME = {workload.name: workload for workload in WORKLOADS}


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
        if f"Application protocol: {workload.protocol}" not in output:
            raise LoadError(f"{workload.protocol} was not settled on")
        return output, log


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
    port = free_port()
    load = SecuredLoad(settings, port, runtime)
    command = origin_command(runtime, port, root, expires="1h")
    with Process(command, core=settings.load_core, runtime=runtime) as origin:
        origin.wait_until_listening(port)
        yield load
