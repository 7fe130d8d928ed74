"""The table: figures of the code, without its tests."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import python
import record
import rust
import sizes
from functions import Function, bracket

MANY = 8
WIDE = 3
SUPPRESSED = re.compile(
    r"#!?\[(?:allow|expect)\(|#\s*noqa|#\s*type:\s*ignore|#\s*pyright:\s*ignore|#\s*pragma:"
)
# A tuple where a type may stand: after an arrow, a colon or an angle bracket, or in an alias.
TUPLE = re.compile(r"(?:->|[:<,=])\s*\(")


def rows(
    root: Path,
    crates: Mapping[str, rust.Crate],
    modules: Mapping[str, python.Module],
    found: record.Found,
    functions: Sequence[Function],
) -> dict[str, int]:
    """What the table shows, by its label."""
    code = [module for crate in crates.values() for module in crate.modules.values()]
    boundary = [module for module in code if module.path.startswith("rust/python/")]
    sources = [(root / module.path).read_text() for module in [*code, *modules.values()]]
    stub = root / python.PACKAGE / "_native.pyi"
    circles = [
        [file.split("/")[1] if file.startswith("rust/") else "penstock" for file in circle]
        for circle in found.circles
    ]
    return {
        "circles of files in the engine": sum(
            "penstock" not in circle and "python" not in circle for circle in circles
        ),
        "circles of files in the boundary": sum("python" in circle for circle in circles),
        "circles of files in Python": sum("penstock" in circle for circle in circles),
        "files in circles": sum(map(len, circles)),
        "upward arrows of layers, Rust": len(_layers(found, rust.layer, "rust/")),
        "upward arrows of layers, Python": len(_layers(found, python.layer, "python/")),
        "lines of code, Rust": sum(_lines(module.code) for module in code),
        "lines of code, Python": sum(
            _statements(module, root) for module in modules.values() if module.path.endswith(".py")
        ),
        f"functions of more than {sizes.FUNCTION} lines": sum(
            function.lines > sizes.FUNCTION for function in functions
        ),
        f"functions of more than {MANY} parameters": sum(
            function.parameters > MANY for function in functions
        ),
        "rows (tuples of more than 3) in the boundary": sum(_tuples(module.code) for module in boundary),
        "rows in the stub": _stub_tuples(stub),
        "unsafe blocks and impls": sum(
            len(re.findall(r"\bunsafe\s*(?:\{|impl\b)", module.code)) for module in code
        ),
        "suppressions of lints": sum(len(SUPPRESSED.findall(text)) for text in sources),
    }


def show(now: Mapping[str, int], before: Mapping[str, int]) -> None:
    """Prints the table."""
    width = max(map(len, now))
    print(f"{'':{width}}  {'before':>7} {'now':>7}" if before else f"{'':{width}}  {'now':>7}")
    for label, count in now.items():
        print(
            f"{label:{width}}  {before.get(label, '-'):>7} {count:>7}"
            if before
            else f"{label:{width}}  {count:>7}"
        )


def _layers(found: record.Found, layer: Callable[[str], tuple[str, str] | None], root: str) -> set[object]:
    return {
        (layer(arrow.source), layer(arrow.target)) for arrow in found.upward if arrow.source.startswith(root)
    }


def _lines(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def _statements(module: python.Module, root: Path) -> int:
    """Lines that have code: neither blank, nor a comment, nor a docstring."""
    lines = (root / module.path).read_text().splitlines()
    documented: set[int] = set()
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
        for number, line in enumerate(lines, start=1)
    )


def _tuples(code: str) -> int:
    count = 0
    for match in TUPLE.finditer(code):
        start = match.end() - 1
        inner = code[start + 1 : bracket(code, start)]
        # Values and arguments of closures have other characters; a type consists of names, paths and references.
        parts = rust.split(inner)
        count += (
            len(parts) > WIDE
            and all(re.fullmatch(r"[\w&' :<>,()\[\];]+", part) for part in parts)
            and (any(re.search(r"\b(?:[A-Z]\w*|u\d+|i\d+|f64|usize|bool)\b", part) for part in parts))
        )
    return count


def _stub_tuples(path: Path) -> int:
    if not path.exists():
        return 0
    return sum(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "tuple"
        and isinstance(node.slice, ast.Tuple)
        and len(node.slice.elts) > WIDE
        for node in ast.walk(ast.parse(path.read_text()))
    )
