"""What `make` says where something is missing that a build takes: one line, before anything else is done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What the Makefile itself runs.
SYSTEM = (
    "sh",
    "make",
    "find",
    "cut",
    "sort",
    "printf",
    "sed",
    "test",
    "touch",
    "mkdir",
    "env",
    "ls",
    "tail",
    "xargs",
    "rm",
)

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory with all that a build takes, in the place of PATH."""
    there = tmp_path / "bin"
    there.mkdir()
    for name in SYSTEM:
        if found := shutil.which(name):
            (there / name).symlink_to(found)
    for name, prints in (("cargo", "cargo 1.85.0"), ("rustc", "rustc 1.85.0 (abc 2025-02-17)"), ("cc", "cc")):
        script(there / name, f"echo '{prints}'")
    (there / "python3").symlink_to(sys.executable)
    return there


def script(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def make(tools: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tools), "HOME": str(tools), **variables}
    return subprocess.run(
        ["make", "-C", str(ROOT), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def said(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What was said, but for make's own notes on where it is."""
    lines = (result.stdout + result.stderr).splitlines()
    return [
        line
        for line in lines
        if not line.startswith(("make[", "make: ***", "make: Entering", "make: Leaving"))
    ]


def test_nothing_is_said_where_nothing_is_missing(tools: Path) -> None:
    result = make(tools, "toolchain")
    assert (result.returncode, said(result)) == (0, [])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("python3", "exit 1", "make: this takes Python 3.11 or later"),
        ("python3", None, "make: this takes Python 3.11 or later"),
        ("cargo", None, "make: this takes Rust 1.85 or later"),
        ("rustc", None, "make: this takes Rust 1.85 or later"),
        ("rustc", "echo rustc 1.84.1", "make: this takes Rust 1.85 or later"),
        ("cc", None, "make: this takes a C compiler"),
    ],
)
@pytest.mark.parametrize("target", ["toolchain", "build", "test-rust"])
def test_a_tool_that_is_missing_or_too_old_is_one_line(
    tools: Path, tmp_path: Path, name: str, text: str | None, says: str, target: str
) -> None:
    (tools / name).unlink()
    if text is not None:
        script(tools / name, text)
    result = make(tools, target, f"VENV={tmp_path}/venv")
    assert result.returncode == 2
    (line,) = said(result)
    assert line.startswith(says)
    assert not (tmp_path / "venv").exists()


def test_a_newer_toolchain_is_taken(tools: Path) -> None:
    script(tools / "rustc", "echo rustc 1.100.0-nightly")
    assert make(tools, "toolchain").returncode == 0


def test_no_network_is_one_line(tools: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    # A virtual environment whose pip finds no index.
    script(venv / "bin" / "python", f'exec {os.path.realpath(sys.executable)} "$@"')
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/", "PIP_RETRIES": "0", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    nowhere |= {
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
    }
    result = make(tools, f"VENV={venv}", f"{venv}/.tools", **nowhere)
    assert result.returncode == 2
    (line,) = (one for one in said(result) if not one.startswith("test -x"))
    assert line.startswith("make: Python packages cannot be fetched: is there a network")
    assert "No matching distribution" in (venv / "fetch.log").read_text()


def test_a_build_leaves_one_module(tools: Path, tmp_path: Path) -> None:
    """Built with other features it has another name, and the older one would be loaded."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    package, venv = tmp_path / "python" / "penstock", tmp_path / ".venv"
    for directory in (package, venv / "bin"):
        directory.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (venv / ".tools").touch()
    stale, module = package / "_native.cpython-311-x86_64-linux-gnu.so", package / "_native.abi3.so"
    stale.touch()
    os.utime(stale, (0, 0))
    script(venv / "bin" / "maturin", f"touch {module}")
    result = make(tools, "-C", str(tmp_path), "build", "RUST_SOURCES=")
    assert result.returncode == 0, result.stderr
    assert list(package.iterdir()) == [module]
