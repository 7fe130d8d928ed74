"""What a release consists of: the platforms, the wheels for each, and the name of every file."""

import platform
from typing import Final, NamedTuple

# glibc 2.28 is that of RHEL 8 and Debian 10, the oldest systems that still get fixes.
_MANYLINUX: Final = "manylinux_2_28"
_MUSLLINUX: Final = "musllinux_1_2"


class Platform(NamedTuple):
    """A system that wheels are built for."""

    triple: str
    """Rust's name."""
    policy: str
    """maturin's name of what the system has at least."""

    @property
    def tag(self) -> str:
        """The name that pip has for it."""
        return f"{self.policy}_{self.triple.partition('-')[0]}"


class Flavour(NamedTuple):
    """Which interpreters a wheel is for."""

    tags: str
    options: tuple[str, ...]
    """Of maturin."""


ABI3: Final = Flavour("cp311-abi3", ("--features", "abi3-py311"))
# Without a GIL there is no stable ABI before Python 3.15: one wheel for each version. maturin knows its layout, so that
# the interpreter itself need not be there.
FREE_THREADED: Final = Flavour("cp314-cp314t", ("-i", "python3.14t"))
FLAVOURS: Final = (ABI3, FREE_THREADED)
PLATFORMS: Final = (
    Platform("x86_64-unknown-linux-gnu", _MANYLINUX),
    Platform("aarch64-unknown-linux-gnu", _MANYLINUX),
    Platform("x86_64-unknown-linux-musl", _MUSLLINUX),
    Platform("aarch64-unknown-linux-musl", _MUSLLINUX),
)


def local() -> Platform:
    """The platform of this machine.

    Raises:
        LookupError: No wheels are built for it.
    """
    machine = platform.machine()
    system = "gnu" if platform.libc_ver()[0] == "glibc" else "musl"
    for one in PLATFORMS:
        if one.triple == f"{machine}-unknown-linux-{system}":
            return one
    raise LookupError(
        f"there is no wheel for {machine} with {system}: add it to PLATFORMS in .ci/release/targets.py"
    )


def wheel(version: str, flavour: Flavour, where: Platform) -> str:
    """The name of the file."""
    return f"penstock-{version}-{flavour.tags}-{where.tag}.whl"


def debug_file(wheel_name: str) -> str:
    """The name of the archive with the debug information of that wheel's library."""
    return f"{wheel_name.removesuffix('.whl')}-debug.tar.xz"


def sdist(version: str) -> str:
    """The name of the file."""
    return f"penstock-{version}.tar.gz"


def expected(version: str) -> set[str]:
    """Every file of a release, as paths below dist/; `debug/` is not for the package index."""
    wheels = {wheel(version, flavour, where) for flavour in FLAVOURS for where in PLATFORMS}
    return {sdist(version), *wheels, *(f"debug/{debug_file(name)}" for name in wheels)}
