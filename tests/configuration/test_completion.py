"""Completion in shells, by bash itself, and the manual pages, by mandoc."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import run
from support.documents import ROOT

PAGES = ROOT / "docs" / "man" / "data" / "share" / "man" / "man1"


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None and not os.environ.get("CI"):
        pytest.skip(f"{program} is not installed: apt-get install {program}")
    assert found is not None, f"{program} is missing"
    return found


def completed(line: str, directory: Path) -> list[str]:
    """What bash offers for the last word of `line`."""
    words = line.split(" ")
    command = f"""
        set -e
        PATH={directory}:$PATH
        eval "$(penstock completion bash)"
        complete -p penstock >/dev/null
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        # It runs the program by the name that it is given.
        _penstock_completion "{directory}/penstock"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    program = directory / "penstock"
    # As the program that is installed.
    code = "from penstock.cli import main; main(prog_name='penstock')"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", command], capture_output=True, text=True, check=False, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    assert completed("penstock ch", tmp_path) == ["check"]
    assert set(completed("penstock serve --cache-", tmp_path)) == {
        "--cache-disk",
        "--cache-disk-size",
        "--cache-stale",
    }
    assert completed("penstock serve --log-level w", tmp_path) == ["warning"]


@pytest.mark.parametrize(("shell", "has"), [("zsh", "#compdef penstock"), ("fish", "complete --no-files")])
def test_other_shells_have_a_script_too(shell: str, has: str) -> None:
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert has in done.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=done.stdout, text=True, check=False)
        assert checked.returncode == 0


def test_the_manual_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate_manual.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_manual_has_no_fault_of_form() -> None:
    pages = sorted(str(path) for path in PAGES.glob("*.1"))
    assert len(pages) >= 10
    done = subprocess.run(
        [needs("mandoc"), "-T", "lint", *pages], capture_output=True, text=True, check=False
    )
    # A page has no date, so that it is the same whenever it is written.
    lines = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert lines == []
    shown = subprocess.run(
        ["mandoc", "-T", "utf8", str(PAGES / "penstock-serve.1")], capture_output=True, text=True, check=True
    ).stdout
    assert "--worker-start-timeout" in _plain(shown)
    assert "PENSTOCK_CACHE_DISK" in _plain(shown)


def _plain(text: str) -> str:
    """What a terminal shows: a character, a backspace and the same again is bold."""
    return "".join(
        character
        for at, character in enumerate(text)
        if text[at : at + 1] != "\b" and text[at + 1 : at + 2] != "\b"
    )
