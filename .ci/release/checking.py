"""Says what keeps a directory of files from being a release. Each function returns complaints; none is good."""

import csv
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 6_000_000
"""Of a wheel: a gateway is installed into images that are pulled by every node."""
SUMS: Final = "SHA256SUMS"
# What a wheel must have besides Python: types, the demo, licences and the list of dependencies.
_IN_WHEEL: Final = (
    r"penstock/_native\.(abi3|cpython-314t-.*)\.so",
    r"penstock/py\.typed",
    r"penstock/_native\.pyi",
    r"penstock/demo/media/init\.mp4",
    r"penstock-.*\.dist-info/licenses/LICENSE",
    r"penstock-.*\.dist-info/sboms/.*\.cyclonedx\.json",
    r"penstock-.*\.dist-info/entry_points\.txt",
)
_IN_SDIST: Final = (
    "pyproject.toml",
    "rust/Cargo.lock",
    "rust/Cargo.toml",
    "build_backend/penstock_build.py",
    "build_backend/penstock_profile.py",
    "LICENSE",
    "PKG-INFO",
)
_MAY_BE_IN_SDIST: Final = re.compile(
    r"(PKG-INFO|LICENSE|README\.md|pyproject\.toml|build_backend/\w+\.py|rust/Cargo\.(lock|toml)|rust/\w+/Cargo\.toml"
    r"|rust/\w+/(src|tests|examples)/[\w/-]+\.(rs|html|css|js)|rust/[\w/]+/golden\.txt|rust/load/tests/sabre/ours\.json"
    r"|python/penstock/(py\.typed|_native\.pyi|[\w/]+\.(py|css)|demo/(media|static)/[\w.]+)"
    r"|rust/profiles/[\w.-]+\.profdata\.xz"
    r"|docs/man/data/share/man/man1/penstock[\w-]*\.1)"
)


def version(root: Path) -> str:
    """The one of rust/Cargo.toml, which the package takes as well."""
    manifest = tomllib.loads((root / "rust" / "Cargo.toml").read_text())
    return str(manifest["workspace"]["package"]["version"])


def versions(root: Path, tag: str | None) -> list[str]:
    """Whether tag, Cargo.toml, Cargo.lock and CHANGELOG.md agree; without a tag, of the first two files alone."""
    ours = version(root)
    lock = tomllib.loads((root / "rust" / "Cargo.lock").read_text())
    complaints = [
        f"rust/Cargo.lock has {one['name']} {one['version']}, and rust/Cargo.toml {ours}: run 'cargo update --workspace'"
        for one in lock["package"]
        if one["name"].startswith("penstock-") and one["version"] != ours
    ]
    if tag is None:
        return complaints
    if tag != f"v{ours}":
        complaints.append(f"the tag is {tag}, and rust/Cargo.toml has {ours}: the tag of that is v{ours}")
    changes = (root / "CHANGELOG.md").read_text()
    heading = re.search(rf"^## \[{re.escape(ours)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)
    if heading is None:
        complaints.append(f"CHANGELOG.md has no line '## [{ours}] - YYYY-MM-DD'")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        complaints.append(f"CHANGELOG.md has changes under [Unreleased]: move them to [{ours}]")
    return complaints


def files(folder: Path, wanted: set[str]) -> list[str]:
    """Whether there is each file of a release, and no other."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {SUMS}
    missing = [f"{name} is missing" for name in sorted(wanted - there)]
    return missing + [f"{name} is no file of this release" for name in sorted(there - wanted)]


def contents(path: Path) -> list[str]:
    """Whether a wheel or a source distribution holds what it must, and is small enough."""
    if path.name.endswith(".tar.gz"):
        return _sdist(path)
    complaints = []
    if path.stat().st_size > MOST_BYTES:
        complaints.append(f"{path.name} has {path.stat().st_size} bytes: at most {MOST_BYTES} are allowed")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        complaints += [
            f"{path.name} has no {wanted}"
            for wanted in _IN_WHEEL
            if not any(re.fullmatch(wanted, name) for name in names)
        ]
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        lines = [line[0] for line in csv.reader(io.StringIO(archive.read(record).decode()))]
        if sorted(lines) != sorted(names):
            complaints.append(f"RECORD of {path.name} names other files than there are")
        complaints += [
            f"{name} of {path.name} has debug information"
            for name in names
            if name.endswith(".so") and b".debug_info\0" in archive.read(name)
        ]
    return complaints


def _sdist(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    missing = [f"{path.name} has no {name}" for name in _IN_SDIST if name not in names]
    return missing + [
        f"{path.name} has {name}, which is no part of it"
        for name in names
        if not _MAY_BE_IN_SDIST.fullmatch(name)
    ]


def by_tools(root: Path, paths: list[Path]) -> list[str]:
    """What validate-pyproject, twine, check-wheel-contents, abi3audit and auditwheel say."""
    tools = Path(sys.executable).parent
    wheels = [path for path in paths if path.suffix == ".whl"]
    commands: list[list[str | Path]] = [
        [tools / "validate-pyproject", root / "pyproject.toml"],
        [tools / "twine", "check", "--strict", *paths],
    ]
    if wheels:
        commands.append([tools / "check-wheel-contents", *wheels])
    abi3 = [path for path in wheels if "-abi3-" in path.name]
    if abi3:
        commands.append([tools / "abi3audit", "--strict", *abi3])
    complaints = []
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            complaints.append(f"{Path(command[0]).name}: {done.stdout}{done.stderr}")
    for path in wheels:
        done = subprocess.run(
            [tools / "auditwheel", "show", path], capture_output=True, text=True, check=False
        )
        policy = path.stem.rpartition("-")[2].partition("_")[0]
        # The library may do with an older libc than the name says. maturin has refused one that needs a newer.
        if done.returncode or f'tag: "{policy}_' not in " ".join(done.stdout.split()):
            complaints.append(f"auditwheel: {path.name}: {done.stdout}{done.stderr}")
    return complaints


def sums(folder: Path, names: set[str]) -> str:
    """Lines for `sha256sum --check`."""
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names)
    ]
    return "".join(lines)
