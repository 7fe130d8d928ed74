"""The list of words fails on a word above a place's limit, and a limit never rises."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "words.py"
# Written in pieces, or this file would be counted.
WHO, NO, NONE = "who" + "ever", "no" + "body", "is " + "none"


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Documents that may have no listed word, code that may have two, and one folder of it none."""
    words = tomllib.loads(SCRIPT.with_suffix(".toml").read_text())["words"]
    listed = "".join(f'{pattern!r} = "{instead}"\n' for pattern, instead in words.items())
    limits = '"docs" = 0\n"code" = 2\n"code/new" = 0\n'
    (tmp_path / "words.toml").write_text(f"[words]\n{listed}\n[limits]\n{limits}")
    for name, text in {
        "docs/page.md": "The client waits.\n",
        "code/old.py": f"# {WHO.title()} waits.\n# {NO} waits\n",
        "code/new/module.rs": "/// The client waits.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def check(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(checkout, "--settings", str(checkout / "words.toml"), *options)


def test_what_is_within_the_limits_passes(checkout: Path) -> None:
    assert check(checkout).returncode == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/page.md", f"It goes to {WHO} asks.\n"),
        ("docs/page.md", f"{WHO.title()} asks gets it.\n"),
        # A phrase that goes on in the next line, also after the mark of a comment.
        ("docs/page.md", "Requests and those\nthat wait.\n"),
        ("code/new/module.rs", "/// Requests and those\n    /// that wait.\n"),
        ("code/new/module.rs", f'error("{NO} waits");\n'),
        ("code/old.py", f"# {WHO} {WHO} {WHO}\n"),
    ],
)
def test_one_word_more_fails_and_is_named(checkout: Path, name: str, text: str) -> None:
    (checkout / name).write_text(text)
    result = check(checkout)
    assert result.returncode == 1
    place = "code/new" if name.startswith("code/new") else name.partition("/")[0]
    assert f"words: {place} has" in result.stderr
    if place != "code":
        assert f"{name}:1: " in result.stderr


@pytest.mark.parametrize(
    "text",
    [f"value {NONE[:-4]}None\n", "a proxy in front, an origin behind a proxy\n", "the one that waits\n"],
)
def test_what_is_plain_passes(checkout: Path, text: str) -> None:
    (checkout / "docs/page.md").write_text(text)
    assert check(checkout).returncode == 0


def test_a_limit_falls_and_never_rises(checkout: Path) -> None:
    (checkout / "code/old.py").write_text(f"# {NO} waits\n")
    assert check(checkout, "--record").returncode == 0
    assert '"code" = 1\n' in (checkout / "words.toml").read_text()
    (checkout / "code/old.py").write_text(f"# {NO} waits, {NO} asks\n")
    assert check(checkout, "--record").returncode == 1
    assert '"code" = 1\n' in (checkout / "words.toml").read_text()


def test_what_was_released_is_not_counted(checkout: Path) -> None:
    settings = checkout / "words.toml"
    settings.write_text(settings.read_text() + '"CHANGELOG.md" = 0\n')
    (checkout / "CHANGELOG.md").write_text(f"## [Unreleased]\n\n## [0.1.0]\n\n- {WHO}\n")
    assert check(checkout).returncode == 0
    (checkout / "CHANGELOG.md").write_text(f"## [Unreleased]\n\n- {WHO}\n\n## [0.1.0]\n")
    assert check(checkout).returncode == 1


def test_a_place_that_is_gone_is_an_error(checkout: Path) -> None:
    (checkout / "docs/page.md").unlink()
    (checkout / "docs").rmdir()
    result = check(checkout)
    assert result.returncode == 1
    assert "docs" in result.stderr
