"""The functions of a file: their names, lines and parameters."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import python
import rust

FUNCTION = re.compile(r"\bfn\s+([A-Za-z_]\w*)")


class Function(NamedTuple):
    """One function."""

    path: str
    name: str
    lines: int
    parameters: int


def of_rust(module: rust.Module) -> Iterator[Function]:
    """The functions of a Rust file; `self` is no parameter."""
    code = module.code
    for match in FUNCTION.finditer(code):
        start = code.find("(", match.end())
        end = bracket(code, start)
        parameters = [
            part
            for part in rust.split(code[start + 1 : end])
            if not re.fullmatch(r"&?\s*(?:'\w+\s+)?(?:mut\s+)?self(?::.*)?", part)
        ]
        lines = code.count("\n", match.start(), rust.closing(code, match.start())) + 1
        yield Function(module.path, match.group(1), lines, len(parameters))


def of_python(module: python.Module) -> Iterator[Function]:
    """The functions of a Python file: docstrings are no lines, and parameters by keyword do not count in public ones."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            names = [*node.args.posonlyargs, *node.args.args]
            if node.name.startswith("_") and node.name != "__init__":
                names += node.args.kwonlyargs
            parameters = sum(argument.arg not in {"self", "cls"} for argument in names)
            yield Function(module.path, node.name, lines, parameters)


def bracket(code: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for at in range(start, len(code)):
        depth += code[at] in "([{"
        depth -= code[at] in ")]}"
        if depth == 0:
            return at
    return len(code)
