"""Checks of what is served by: certificates, directories and addresses."""

import os
import shutil
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from penstock.config import TLS
from penstock.config.checks import in_words
from penstock.config.listen import Inherited, Listen

from .finding import FAILURE, OK, WARNING, Finding
from .machine import Machine
from .plan import Plan

__all__ = ["check_files"]

_DAY: Final = 86400.0
# A certificate of Let's Encrypt is renewed a month before it expires: with two weeks left something is wrong.
_SOON: Final = 14 * _DAY
_LOW_PORT: Final = 1024
# File systems of which a cache gains nothing: in memory, or over a network.
_UNFIT: Final = {"tmpfs", "ramfs", "nfs", "nfs4", "cifs", "overlay", "fuse.sshfs"}


def check_files(machine: Machine, plan: Plan) -> Iterator[Finding]:
    """What the options name."""
    tls = plan.edge.tls
    if tls is not None:
        yield from _certificates(tls)
    if plan.cache_disk is not None:
        yield from _cache(machine, plan, plan.cache_disk)
    if plan.log is not None and plan.log.path != "-":
        yield _log(Path(plan.log.path))
    yield _address(machine, "--listen", plan.listen)
    if plan.status is not None:
        yield _address(machine, "--status-listen", plan.status.place())
    if tls is not None and (place := tls.redirects_at()) is not None:
        yield _address(machine, "--http-redirect", place)


def _certificates(tls: TLS) -> Iterator[Finding]:
    pairs = [] if tls.cert is None else [(Path(tls.cert), Path(tls.key or tls.cert))]
    if tls.directory is not None:
        folder = Path(tls.directory)
        files = sorted((*folder.glob("*.pem"), *folder.glob("*.crt")))
        pairs += [(cert, cert.with_suffix(".key")) for cert in files]
        pairs += [(cert, cert.parent / "privkey.pem") for cert in sorted(folder.glob("*/fullchain.pem"))]
    if not pairs:
        yield Finding(
            "certificate",
            FAILURE,
            f"{tls.directory} has no certificate",
            "NAME.pem with NAME.key, or NAME/fullchain.pem with NAME/privkey.pem",
            "TLS takes a certificate",
        )
    for cert, key in pairs:
        yield _certificate(cert, key)
    if tls.ticket_keys is not None:
        yield _secret("ticket keys", Path(tls.ticket_keys))


def _certificate(cert: Path, key: Path) -> Finding:
    name = f"certificate {cert}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ssl.SSLError) as error:
        return Finding(
            name,
            FAILURE,
            str(error),
            f"a certificate in PEM, and its key in {key}",
            "the server does not start with it",
            "look whether the key is that of the certificate, and not encrypted",
        )
    # The first is the server's own.
    decode: Any = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]  # noqa: SLF001 (there is no public way)
    end = ssl.cert_time_to_seconds(decode(str(cert))["notAfter"])
    left = end - time.time()
    seen = f"expires {time.strftime('%Y-%m-%d', time.gmtime(end))}, in {left / _DAY:.0f} days"
    if left <= 0:
        return Finding(
            name, FAILURE, seen, "a valid one", "browsers refuse it", "renew it; penstock reads it anew"
        )
    if left < _SOON:
        return Finding(
            name,
            WARNING,
            seen,
            "two weeks at least",
            "ACME clients renew a month ahead: renewal seems to fail",
            "look at the log of certbot, lego or what else renews it",
        )
    secret = _secret("key", key)
    return secret if secret.state != OK else Finding(name, OK, seen)


def _secret(what: str, path: Path) -> Finding:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return Finding(f"{what} {path}", FAILURE, str(error), "a file", "the server does not start with it")
    if mode & 0o007:
        return Finding(
            f"{what} {path}",
            WARNING,
            f"mode {mode:o}: every user of this machine can read or change it",
            "600, or 640 with a group of its own",
            "who has it can be this server",
            f"chmod o= {path}",
        )
    return Finding(f"{what} {path}", OK, f"mode {mode:o}")


def _cache(machine: Machine, plan: Plan, folder: Path) -> Iterator[Finding]:
    name = f"cache {folder}"
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding(
            name,
            FAILURE,
            f"{there} cannot be written to by user {os.geteuid()}",
            "a directory of this user",
            "the server does not start with it",
            f"chown it: chown -R {os.geteuid()} {folder}",
        )
        return
    free = shutil.disk_usage(there).free + _used(folder)
    said = {
        "seen": f"{in_words(free >> 20 << 20)} free or the cache's own",
        "wanted": f"{in_words(plan.cache_disk_size)} of --cache-disk-size",
    }
    if free < plan.cache_disk_size:
        yield Finding(
            name,
            WARNING,
            **said,
            why="a full disk ends the writing of responses, and whatever else writes there",
            how="lower --cache-disk-size, or make room",
        )
    else:
        yield Finding(name, OK, **said)
    kind = _file_system(machine, there)
    if kind in _UNFIT:
        yield Finding(
            f"{name}, file system",
            WARNING,
            kind,
            "ext4, xfs or another on a disk of this machine",
            "tmpfs and overlay take memory or a copy of what they hold, and a network is slower than the origin",
            "mount a volume there",
        )


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def _file_system(machine: Machine, folder: Path) -> str:
    """The kind of the file system that `folder` is on: of the longest mount point that it is below."""
    rows = [line.split() for line in (machine.text("/proc/self/mounts") or "").splitlines()]
    resolved = folder.resolve()
    points = [(Path(row[1]), row[2]) for row in rows if len(row) > 2]  # noqa: PLR2004 (its kind)
    below = [(point, kind) for point, kind in points if resolved.is_relative_to(point)]
    return max(below, key=lambda found: len(found[0].parts), default=(Path(), ""))[1]


def _log(path: Path) -> Finding:
    folder = path.absolute().parent
    if os.access(path if path.exists() else folder, os.W_OK):
        return Finding("access log", OK, str(path))
    return Finding(
        "access log",
        FAILURE,
        f"user {os.geteuid()} cannot write to {path}",
        "a file that can be made or written to",
        "the server does not start with it",
        f"chown it, or let systemd make the directory: LogsDirectory={folder.name}",
    )


def _address(machine: Machine, option: str, place: Listen) -> Finding:
    if isinstance(place, Inherited):
        return Finding(option, OK, f"{place}: the service manager has it, and is not asked")
    if isinstance(place, str):
        return _socket(option, Path(place))
    host, port = place
    first = machine.setting("net.ipv4.ip_unprivileged_port_start")
    if 0 < port < (_LOW_PORT if first is None else first) and not machine.can_bind_low_ports():
        return Finding(
            option,
            FAILURE,
            f"port {port} as user {os.geteuid()}",
            "the capability CAP_NET_BIND_SERVICE",
            "ports below 1024 are kept for the system",
            "AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or sysctl -w net.ipv4.ip_unprivileged_port_start=80",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            # As a server binds: connections of the one before that linger are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        return Finding(
            option,
            FAILURE,
            f"{host or '*'}:{port}: {error.strerror}",
            "an address of this machine that is free",
            "the server does not start with it",
            f"ss -ltnp 'sport = :{port}' shows who has it",
        )
    return Finding(option, OK, f"{host or '*'}:{port} is free")


def _socket(option: str, path: Path) -> Finding:
    folder = path.absolute().parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Finding(option, OK, str(path))
    return Finding(
        option,
        FAILURE,
        f"user {os.geteuid()} cannot make a socket in {folder}",
        "a directory of this user",
        "the server does not start with it",
        f"mkdir {folder}, or RuntimeDirectory= in the unit",
    )
