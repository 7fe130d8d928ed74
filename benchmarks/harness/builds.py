"""The programs that are built from this directory: into the user's cache, so that nothing is left in the
tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent


class AbsentError(RuntimeError):
    """A program that a cell needs is not there; the message names the package to install."""


def require(program: str, package: str) -> str:
    """Return the path of `program`. Raises AbsentError, naming the package that has it."""
    # Debian keeps nginx and haproxy in sbin, which is not on every user's path.
    path = shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        raise AbsentError(f"{program} is not installed (package: {package})")
    return path


def _cache(name: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = root / "penstock-benchmarks" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _build(command: list[str], directory: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AbsentError(
            f"{directory.name} does not build: {' '.join(command)}\n{done.stderr.strip()[-2000:]}"
        )


@cache
def go(module: str, package: str = ".") -> str:
    """Build a Go program of benchmarks/`module` and return its path."""
    program = _cache("go") / f"{Path(module).name}-{Path(package).name or 'main'}"
    _build([require("go", "golang"), "build", "-o", str(program), package], BENCHMARKS / module)
    return str(program)


@cache
def rust(crate: str, binary: str) -> str:
    """Build a Rust program of benchmarks/`crate` and return its path."""
    target = _cache("cargo")
    cargo = require("cargo", "cargo, or rustup from rustup.rs")
    _build([cargo, "build", "--release", "--locked"], BENCHMARKS / crate, CARGO_TARGET_DIR=str(target))
    return str(target / "release" / binary)
