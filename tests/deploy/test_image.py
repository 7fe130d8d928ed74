"""What can be said of the image without building it; `make test-image` builds and runs it."""

import json
import re

from penstock.cli import main
from support.documents import ROOT

DOCKERFILE = (ROOT / "packaging" / "image" / "Dockerfile").read_text()
# What runs: the last stage.
STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]


def instruction(name: str) -> str:
    (found,) = re.findall(rf"^{name} (.*)$", STAGE, re.MULTILINE)
    return str(found)


def test_it_runs_without_rights_and_without_what_builds() -> None:
    assert DOCKERFILE.count("\nFROM ") == 2
    assert instruction("USER") == "10001:10001"
    assert instruction("STOPSIGNAL") == "SIGTERM"
    assert "apt-get" not in STAGE
    assert "pip" not in STAGE


def test_it_runs_a_command_that_there_is() -> None:
    program, command = json.loads(instruction("ENTRYPOINT"))
    assert program == "penstock"
    assert command in main.commands
    volumes = json.loads(instruction("VOLUME"))
    assert f"chown 10001:10001 {' '.join(volumes)}" in STAGE
    assert re.search(r"XDG_RUNTIME_DIR=(\S+)", STAGE)[1] in volumes  # type: ignore[index]


def test_what_is_built_from_is_sent_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    kept = {line[1:].partition("/")[0] for line in lines if line.startswith("!")}
    # docs/man: manual pages are in the wheel.
    needed = {"LICENSE", "README.md", "build_backend", "docs", "pyproject.toml", "python", "rust"}
    assert kept == {"dist", *needed}
    assert "!docs/man" in lines
    assert "rust/target" in lines
