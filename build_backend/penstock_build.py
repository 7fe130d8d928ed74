"""The build backend: maturin, after a check that there is a toolchain.

pip calls it where no wheel fits the platform, and in a checkout. maturin alone would download a Rust toolchain without a
word if there is no cargo. Here a missing tool is an error that names it and says what to do.
"""

import os
import re
import shutil
import subprocess
from typing import Any

import maturin
import penstock_profile

# As `rust-version` in rust/Cargo.toml.
OLDEST_RUST = (1, 85)
_RUST = (
    f"Install Rust {OLDEST_RUST[0]}.{OLDEST_RUST[1]} or later (https://rustup.rs, or your distribution's packages), and "
    "have cargo and rustc on PATH."
)
_WHEELS = (
    "A wheel needs none of this. There are wheels for Linux on x86_64 and aarch64, with glibc 2.28 or later or musl "
    "1.2: if this machine is one, a newer pip finds them (python -m pip install --upgrade pip)."
)


def missing() -> str | None:
    """What the machine lacks to build penstock, and what to do; None if it lacks nothing."""
    rustc = shutil.which("rustc")
    if rustc is None or shutil.which("cargo") is None:
        name = "rustc" if rustc is None else "cargo"
        return f"there is no {name} on PATH. {_RUST}"
    said = subprocess.run([rustc, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"rustc (\d+)\.(\d+)", said.stdout)
    if found is None:
        return f"{rustc} does not run: {said.stderr.strip() or said.stdout.strip()}. {_RUST}"
    if (int(found[1]), int(found[2])) < OLDEST_RUST:
        return f"{rustc} is {found[1]}.{found[2]}. {_RUST} 'rustup update' updates it."
    if not any(shutil.which(name) for name in (os.environ.get("CC") or "cc", "gcc", "clang")):
        return "there is no C compiler (cc). Install one, as by 'apt-get install gcc' or 'dnf install gcc'."
    return None


def _checked(name: str, *arguments: object) -> Any:
    """Call maturin's function of that name if there is a toolchain.

    Raises:
        SystemExit: There is none. pip shows the text.
    """
    if what := missing():
        raise SystemExit(f"\npenstock cannot be built from source: {what}\n{_WHEELS}\n")
    # What is there is used: nothing is downloaded but what Cargo.lock names.
    os.environ["MATURIN_NO_INSTALL_RUST"] = "1"
    return getattr(maturin, name)(*arguments)


def _profiled(name: str, *arguments: object) -> Any:
    """As `_checked`, of a build: for this machine, by its recorded profile, unless a target is asked for."""
    if not missing() and not any(
        given in os.environ for given in ("CARGO_BUILD_TARGET", "MATURIN_PEP517_ARGS")
    ):
        target, version = penstock_profile.compiler()
        os.environ["MATURIN_PEP517_ARGS"] = f"--target {target}"
        os.environ["RUSTFLAGS"] = penstock_profile.rustflags(target, version)
    return _checked(name, *arguments)


def get_requires_for_build_wheel(config_settings: dict[str, object] | None = None) -> Any:
    """The first question of installers."""
    return _checked("get_requires_for_build_wheel", config_settings)


def get_requires_for_build_editable(config_settings: dict[str, object] | None = None) -> Any:
    """The same, of an editable install."""
    return _checked("get_requires_for_build_editable", config_settings)


def get_requires_for_build_sdist(config_settings: dict[str, object] | None = None) -> Any:
    """A source distribution takes cargo, which lists the files."""
    return _checked("get_requires_for_build_sdist", config_settings)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, object] | None = None
) -> Any:
    """The name, version and requirements."""
    return _checked("prepare_metadata_for_build_wheel", metadata_directory, config_settings)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: dict[str, object] | None = None
) -> Any:
    """The same, of an editable install."""
    return _checked("prepare_metadata_for_build_editable", metadata_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, object] | None = None,
    metadata_directory: str | None = None,
) -> Any:
    """Build with what Cargo.lock names."""
    return _profiled("build_wheel", wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, object] | None = None,
    metadata_directory: str | None = None,
) -> Any:
    """Build with what Cargo.lock names."""
    return _profiled("build_editable", wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: dict[str, object] | None = None) -> Any:
    """Pack the sources, Cargo.lock and this file."""
    return _checked("build_sdist", sdist_directory, config_settings)
