"""The source distribution: what it holds, and what pip says where it cannot be built."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci" / "release"))

import building  # noqa: E402
import checking  # noqa: E402

MATURIN = Path(sys.executable).with_name("maturin")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a release makes it of this checkout."""
    if not MATURIN.exists() or shutil.which("cargo") is None:
        pytest.skip("needs maturin and cargo: 'make build' has both")
    return building.sdist(tmp_path_factory.mktemp("sdist"))


def test_it_holds_what_a_build_takes_and_nothing_else(sdist: Path) -> None:
    assert checking.contents(sdist) == []


def test_one_more_file_is_refused(sdist: Path, tmp_path: Path) -> None:
    """A key or a note that lies in the checkout is not to be published."""
    changed = tmp_path / sdist.name
    with tarfile.open(sdist) as source, tarfile.open(changed, "w:gz") as target:
        for member in source.getmembers():
            if not member.name.endswith("Cargo.lock"):
                target.addfile(member, source.extractfile(member))
        note = tarfile.TarInfo(f"{sdist.name.removesuffix('.tar.gz')}/rust/engine/src/key.pem")
        target.addfile(note)
    assert checking.contents(changed) == [
        f"{sdist.name} has no rust/Cargo.lock",
        f"{sdist.name} has rust/engine/src/key.pem, which is no part of it",
    ]


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_pip_says_what_is_missing_and_what_to_do(sdist: Path, tmp_path: Path) -> None:
    """And downloads no toolchain, as maturin alone would."""
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*pip, "--wheel-dir", tmp_path, sdist],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    output = " ".join((done.stdout + done.stderr).split())
    assert (
        "penstock cannot be built from source: there is no rustc on PATH. Install Rust 1.85 or later"
        in output
    )
    assert "A wheel needs none of this." in output
    assert "Traceback" not in output


def backend(code: str, path: Path) -> str:
    """What `code` prints that has the build backend, with the programs in `path` alone."""
    environment = {"PATH": str(path), "PYTHONPATH": str(ROOT / "build_backend")}
    command = [sys.executable, "-c", f"import penstock_build; print({code})"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("programs", "says"),
    [
        (
            {"rustc": "echo rustc 1.95.0"},
            "there is no cargo on PATH. Install Rust 1.85 or later (https://rustup.rs",
        ),
        ({"rustc": "echo rustc 1.63.0", "cargo": ""}, "rustc is 1.63. Install Rust 1.85 or later"),
        (
            {"rustc": "echo no default toolchain >&2; exit 1", "cargo": ""},
            "does not run: no default toolchain",
        ),
        ({"rustc": "echo rustc 1.95.0", "cargo": ""}, "there is no C compiler (cc). Install one"),
        ({"rustc": "echo rustc 1.85.0", "cargo": "", "cc": ""}, "None"),
        ({"rustc": "echo rustc 1.100.0-nightly", "cargo": "", "clang": ""}, "None"),
    ],
)
def test_each_tool_is_named_that_is_missing_or_too_old(
    tmp_path: Path, programs: dict[str, str], says: str
) -> None:
    for name, text in programs.items():
        script(tmp_path / name, text)
    assert says in backend("penstock_build.missing()", tmp_path)


def test_the_oldest_rust_is_the_one_of_the_crates(tmp_path: Path) -> None:
    oldest = backend("'{}.{}'.format(*penstock_build.OLDEST_RUST)", tmp_path).strip()
    assert f'rust-version = "{oldest}"' in (ROOT / "rust" / "Cargo.toml").read_text()
