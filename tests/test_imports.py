"""A test package imports its own modules and `support`, and no test imports another test."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.glob("**/*.py"))
OURS = {path.relative_to(TESTS).parts[0].removesuffix(".py") for path in FILES}


def imports_of(source: str, path: Path) -> Iterator[str]:
    """The absolute names of the modules that `source`, which stands at `path`, imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(path.parent.parts[: len(path.parent.parts) + 1 - node.level]) if node.level else []
            module = [*base, *([node.module] if node.module else [])]
            yield ".".join(module)
            yield from (".".join([*module, alias.name]) for alias in node.names)


def wrong(source: str, path: Path) -> list[str]:
    """Which imports of `source` break the rule."""
    own = path.parts[0].removesuffix(".py")
    found = []
    for name in imports_of(source, path):
        first, *rest = name.split(".")
        if first not in OURS:
            continue
        is_sibling = first not in {own, "support"}
        is_test = any(part.startswith("test_") for part in (first, *rest[:1]))
        if is_sibling or is_test:
            found.append(name)
    return found


def test_a_test_package_imports_no_sibling_and_no_test() -> None:
    found = {str(file): wrong(file.read_text(), file.relative_to(TESTS)) for file in FILES}
    assert not {path: names for path, names in found.items() if names}, "move what both need to tests/support"


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("from gateway.server import Serving", "edge/test_x.py"),
        ("import gateway.server", "edge/test_x.py"),
        ("from conftest import engine", "edge/test_x.py"),
        ("from test_cli import run", "edge/conftest.py"),
        ("from test_cli import run", "test_x.py"),
        ("from .test_requests import APP", "edge/test_x.py"),
        ("from . import test_requests", "edge/test_x.py"),
        ("def f():\n    from edge.corpus import CASES", "support/origins.py"),
    ],
)
def test_such_an_import_is_found(source: str, path: str) -> None:
    assert wrong(source, Path(path))


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("import asyncio, pytest", "edge/test_x.py"),
        ("from support.client import RawClient", "test_x.py"),
        ("from support.client import RawClient", "edge/test_x.py"),
        ("from .corpus import CASES", "edge/test_x.py"),
        ("from .waiting import until", "support/leaks.py"),
        ("from . import demos", "applications/run.py"),
    ],
)
def test_an_import_of_what_is_shared_is_allowed(source: str, path: str) -> None:
    assert not wrong(source, Path(path))
