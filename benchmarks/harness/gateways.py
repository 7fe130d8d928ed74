"""The gateways that are compared: what each is called, what it can relay and how it is started.

A command builder raises AbsentError when its program is missing. All of them run one worker, log nothing and
keep both sides' connections alive.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Literal

from harness.builds import BENCHMARKS, AbsentError, go, require, rust

Kind = Literal[
    "segments",
    "events",
    "handlers",
    "hits",
    "fan-out",
    "secured",
    "secured-hits",
    "secured-handlers",
    "secured-events",
]
PEERS = BENCHMARKS / "peers"


@dataclass(frozen=True)
class Launch:
    """Where a gateway shall listen and fetch from (HOST:PORT), what it will relay, and a directory of its
    own.
    """

    kind: Kind
    listen: str
    origin: str
    runtime: Path


@dataclass(frozen=True)
class Gateway:
    """One row of the tables. `own` marks penstock, whose figures may change during a day; a peer's may
    not.
    """

    name: str
    title: str
    command: Callable[[Launch], list[str]]
    versions: Callable[[], dict[str, str]]  # raises AbsentError
    kinds: frozenset[Kind] = frozenset({"segments", "events"})
    own: bool = False


def render_config(template: Path, runtime: Path, **values: str) -> str:
    """Fill in a configuration's placeholders, write it into `runtime` and return its path."""
    config = runtime / template.name
    # nginx's own variables, such as $http_host, are left as they are.
    config.write_text(Template(template.read_text()).safe_substitute(values, RUNTIME=str(runtime)))
    return str(config)


def nginx_command(template: Path, runtime: Path, **values: str) -> list[str]:
    """Return the command of an nginx with the given configuration. Raises AbsentError."""
    program = require("nginx", "nginx")
    # Started by root, workers would drop to a user who may not read the runtime directory.
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    config = render_config(template, runtime, USER=user, **values)
    return [program, "-e", "stderr", "-p", str(runtime), "-c", config]


def _nginx(launch: Launch) -> list[str]:
    buffering = "on" if launch.kind == "segments" else "off"
    return nginx_command(
        PEERS / "nginx.conf", launch.runtime, LISTEN=launch.listen, ORIGIN=launch.origin, BUFFERING=buffering
    )


def _haproxy(launch: Launch) -> list[str]:
    program = require("haproxy", "haproxy")
    config = render_config(PEERS / "haproxy.cfg", launch.runtime, LISTEN=launch.listen, ORIGIN=launch.origin)
    return [program, "-db", "-f", config]


def _go(launch: Launch) -> list[str]:
    return [go("peers/reverse_proxy"), "-listen", launch.listen, "-origin", f"http://{launch.origin}"]


def _tcp_relay(launch: Launch) -> list[str]:
    return [rust("peers/tcp_relay", "tcp-relay"), launch.listen, launch.origin]


def require_packages(*packages: str) -> None:
    """Raises AbsentError for the first of them that is not installed."""
    for package in packages:
        try:
            version(package)
        except PackageNotFoundError as error:
            raise AbsentError(f"{package} is not installed (pip install {package})") from error


def aiohttp_command(*options: str, needs: tuple[str, ...] = ()) -> Callable[[Launch], list[str]]:
    """Return what starts peers/aiohttp_proxy.py, which raises AbsentError."""

    def command(launch: Launch) -> list[str]:
        require_packages("aiohttp", "uvloop", *needs)
        origin = f"http://{launch.origin}"
        program = str(PEERS / "aiohttp_proxy.py")
        return [sys.executable, program, "--listen", launch.listen, "--origin", origin, *options]

    return command


def penstock_command(lane: str, *options: str) -> Callable[[Launch], list[str]]:
    """Return what starts peers/penstock_app.py, which raises AbsentError."""

    def command(launch: Launch) -> list[str]:
        require_packages("aiohttp", "uvloop")
        probe = subprocess.run(
            [sys.executable, "-c", "import penstock.web"], capture_output=True, text=True, check=False
        )
        if probe.returncode:
            raise AbsentError(
                f"penstock.web cannot be imported (make build): {probe.stderr.strip().splitlines()[-1]}"
            )
        where = ["--listen", launch.listen, "--origin", f"http://{launch.origin}"]
        return [sys.executable, str(PEERS / "penstock_app.py"), *where, "--lane", lane, *options]

    return command


def first_line(program: str, package: str, *arguments: str) -> str:
    """Return the first line of what a program says of itself. Raises AbsentError."""
    command = [require(program, package), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[0].strip()


def program_version(program: str, argument: str, package: str = "") -> Callable[[], dict[str, str]]:
    """Return what asks a program for its version, which raises AbsentError."""
    return lambda: {program: first_line(program, package or program, argument)}


def package_versions(*packages: str) -> Callable[[], dict[str, str]]:
    """Return what asks Python packages for their versions, which raises AbsentError."""

    def versions() -> dict[str, str]:
        require_packages(*packages)
        return {package: version(package) for package in packages}

    return versions


def _tokio_version() -> dict[str, str]:
    lines = (PEERS / "tcp_relay" / "Cargo.lock").read_text().splitlines()
    found = lines[lines.index('name = "tokio"') + 1]
    return {"tokio": found.split('"')[1], "rustc": first_line("rustc", "cargo", "--version")}


GATEWAYS = (
    Gateway("tcp-relay", "limit: bare TCP relay on tokio, no HTTP", _tcp_relay, _tokio_version),
    Gateway("nginx", "nginx", _nginx, program_version("nginx", "-v")),
    Gateway("haproxy", "HAProxy", _haproxy, program_version("haproxy", "-v")),
    Gateway("go", "Go ReverseProxy", _go, lambda: {"go": first_line("go", "golang", "version")}),
    Gateway(
        "aiohttp",
        "aiohttp + uvloop",
        aiohttp_command("--body", "chunk"),
        package_versions("aiohttp", "uvloop"),
        kinds=frozenset({"segments", "events", "handlers"}),
    ),
    Gateway(
        "aiohttp-lines",
        "aiohttp + uvloop, by line",
        aiohttp_command("--body", "line"),
        package_versions("aiohttp", "uvloop"),
        kinds=frozenset({"events"}),
    ),
    Gateway(
        "aiofastnet",
        "aiohttp + uvloop + aiofastnet",
        aiohttp_command("--body", "chunk", "--transport", "aiofastnet", needs=("aiofastnet",)),
        package_versions("aiohttp", "uvloop", "aiofastnet"),
    ),
    Gateway(
        "penstock-stock",
        "**penstock** on aiohttp's own transports",
        penstock_command("stock"),
        package_versions("penstock", "aiohttp", "uvloop"),
        own=True,
    ),
    Gateway(
        "penstock",
        "**penstock**, application's lane",
        penstock_command("app"),
        package_versions("penstock", "aiohttp", "uvloop"),
        kinds=frozenset({"segments", "events", "handlers"}),
        own=True,
    ),
    Gateway(
        "penstock-frames-stock",
        "**penstock**'s frames, by hand, on aiohttp's own transports",
        penstock_command("stock", "--body", "frames"),
        package_versions("penstock", "aiohttp", "uvloop"),
        own=True,
    ),
    Gateway(
        "penstock-frames",
        "**penstock**'s frames, by hand, application's lane",
        penstock_command("app", "--body", "frames"),
        package_versions("penstock", "aiohttp", "uvloop"),
        own=True,
    ),
    Gateway(
        "penstock-native",
        "**penstock**, native lane",
        penstock_command("native"),
        package_versions("penstock", "aiohttp", "uvloop"),
        own=True,
    ),
)
BY_NAME = {gateway.name: gateway for gateway in GATEWAYS}
