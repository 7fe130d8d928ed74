"""Reads the Python package: which module imports which, in functions and under `TYPE_CHECKING` too."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "python/penstock"


@dataclass
class Module:
    """One file."""

    path: str
    name: str
    is_package: bool
    tree: ast.Module


def read(root: Path) -> dict[str, Module]:
    """The modules by their full names. Stubs are left out."""
    modules = {}
    base = (root / PACKAGE).parent
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(str(path.relative_to(root)), name, is_package, ast.parse(path.read_text()))
    # The boundary, as Python sees it.
    if (stub := root / PACKAGE / "_native.pyi").exists():
        modules["penstock._native"] = Module(
            str(stub.relative_to(root)), "penstock._native", False, ast.Module([], [])
        )
    return modules


def layer(path: str) -> tuple[str, str] | None:
    """The subpackage, or the module of the package itself, that a file belongs to."""
    first = path.removeprefix(PACKAGE + "/").split("/")[0].partition(".")[0]
    # What `python -m` runs stands above all, in a subpackage too.
    name = "__main__" if path.endswith("/__main__.py") else first
    return None if name == "__init__" else ("penstock", name)


def arrows(modules: Mapping[str, Module]) -> dict[str, dict[str, set[str]]]:
    """For each file, the files that it imports, and the names that it takes. What a package hands on is followed."""
    drawn: dict[str, dict[str, set[str]]] = {}
    for module in modules.values():
        targets = drawn.setdefault(module.path, {})
        for source, name in _imports(module):
            target = _defined(modules, source, name)
            if target and target != module.path:
                targets.setdefault(target, set()).add(name or source)
    return drawn


def _imports(module: Module) -> Iterator[tuple[str, str | None]]:
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parts, *([source] if source else [])])
            for alias in node.names:
                yield source, alias.name


def _defined(modules: Mapping[str, Module], source: str, name: str | None, depth: int = 0) -> str | None:
    """The file that a name comes from. None: it is of another package."""
    if name and f"{source}.{name}" in modules:
        return modules[f"{source}.{name}"].path
    module = modules.get(source)
    if module is None:
        return None
    if module.is_package and name and depth < 9:
        for inner, handed_on in _imports(module):
            if handed_on == name and inner in modules and inner != source:
                return _defined(modules, inner, name, depth + 1)
    return module.path
