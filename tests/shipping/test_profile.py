"""The recorded profile of the engine: which compiler is given it, and what is said to any other."""

import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build_backend"))

import penstock_profile  # noqa: E402

TARGET, VERSION = "x86_64-unknown-linux-gnu", "1.95.0"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a profile of one compiler."""
    monkeypatch.setattr(penstock_profile, "RECORDED", tmp_path / "profiles")
    monkeypatch.setattr(penstock_profile, "UNPACKED", tmp_path / "target")
    path = penstock_profile.recorded(TARGET, VERSION)
    path.parent.mkdir()
    path.write_bytes(lzma.compress(b"counts"))
    return path


def unpacked(flags: list[str]) -> Path:
    return Path(flags[0].removeprefix("-Cprofile-use="))


def test_its_compiler_is_given_what_was_recorded(recorded: Path) -> None:
    assert unpacked(penstock_profile.flags(TARGET, VERSION)).read_bytes() == b"counts"


def test_another_one_is_another_file_so_that_cargo_builds_anew(recorded: Path) -> None:
    before = unpacked(penstock_profile.flags(TARGET, VERSION))
    assert unpacked(penstock_profile.flags(TARGET, VERSION)) == before
    recorded.write_bytes(lzma.compress(b"other counts"))
    after = unpacked(penstock_profile.flags(TARGET, VERSION))
    assert (after == before, after.read_bytes()) == (False, b"other counts")


@pytest.mark.parametrize("compiler", [("aarch64-unknown-linux-gnu", VERSION), (TARGET, "1.96.0")])
def test_any_other_compiler_is_named_and_given_none(
    recorded: Path, compiler: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert penstock_profile.flags(*compiler) == []
    said = capsys.readouterr().err
    assert "without a profile" in said
    assert all(word in said for word in compiler)


def test_the_command_prints_flags_alone_to_its_output(tmp_path: Path) -> None:
    """A Makefile passes its output on."""
    rustc = tmp_path / "rustc"
    rustc.write_text("#!/bin/sh\necho 'rustc 1.0.0'\necho 'host: none'\necho 'release: 1.0.0'\n")
    rustc.chmod(0o755)
    done = subprocess.run(
        [sys.executable, penstock_profile.__file__],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
    assert "rustc 1.0.0" in done.stderr
