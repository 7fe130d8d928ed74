"""What users type-check: the Python of the documents and the examples, by mypy --strict and by pyright's strict mode.

pyright is basedpyright's here, whose package brings its own node. Blocks of one document are one function, so that the
names of one block are there in the next, at the lines where they stand in the document.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import ROOT, RUN, blocks, name

EXAMPLES = sorted(ROOT.glob("examples/*.py"))
# A document shows parts of a program: the names of a block may stand in the next as well, be unused, or be bound
# in a loop that surely runs.
SHOWN = ("Redeclaration", "UnusedVariable", "UnusedFunction", "UnusedExpression", "PossiblyUnbound")
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    **{f"report{rule}": False for rule in SHOWN},
}
PYRIGHT["reportPossiblyUnboundVariable"] = PYRIGHT.pop("reportPossiblyUnbound")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("mypy") is None or importlib.util.find_spec("basedpyright") is None,
        reason="mypy and basedpyright are in the group lint of pyproject.toml",
    ),
]


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module for each document that has Python."""
    there = tmp_path_factory.mktemp("snippets")
    for path in RUN:
        found = blocks(path)
        if not found:
            continue
        lines = [""] * (path.read_text().count("\n") + 1)
        lines[0] = "async def document() -> None:"
        for block in found:
            for number, line in enumerate(block.code.splitlines(), block.line - 1):
                lines[number] = f"    {line}" if line else ""
        (there / (name(path).replace("/", "_").replace(".", "_") + ".py")).write_text("\n".join(lines) + "\n")
    assert len(list(there.iterdir())) > 8
    return there


def test_documents_and_examples_pass_mypy_strict(snippets: Path) -> None:
    files = [*map(str, sorted(snippets.glob("*.py"))), *map(str, EXAMPLES)]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file", ""]
    command += ["--disable-error-code", "no-redef", *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=snippets)
    assert result.returncode == 0, result.stdout + result.stderr


def test_documents_and_examples_pass_pyright_strict(snippets: Path) -> None:
    settings = {**PYRIGHT, "include": [str(snippets), *map(str, EXAMPLES)]}
    (snippets / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "-p", str(snippets)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=snippets)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 errors" in result.stdout, result.stdout


WRONG = """\
import penstock

engine = penstock.Engine(memory="1MiB")
engine.get("http://origin", timeout=3)
engine.get("http://origin", headers=3)
penstock.no_such_name
penstock.web.no_such_name
penstock.config.Pool(memory=None)
"""


def test_mistakes_of_users_are_found(tmp_path: Path) -> None:
    """Types that accept anything would pass the tests above."""
    module = tmp_path / "wrong.py"
    module.write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file", "", str(module)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    found = {int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error: " in line}
    assert found == {4, 5, 6, 7, 8}, result.stdout
