"""The docstrings under the fields of public dataclasses, for `help()`: one mechanism for all of them.

Python drops a string that stands under a field. `document` has it read from the source again when it is asked for, so
that importing penstock costs nothing for it. `help(config.Pool)` then lists the fields with their texts, and
`help(config.Pool.memory)` prints one; both are what inspect makes of a `__slots__` that is a dictionary.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

__all__ = ["document", "texts_under_fields"]


def document(names: Iterable[object]) -> None:
    """Make the fields of the dataclasses among `names`, which have slots, say what stands under them."""
    for cls in names:
        if isinstance(cls, type) and is_dataclass(cls) and isinstance(vars(cls)["__slots__"], tuple):
            setattr(cls, "__slots__", _Texts(cls))  # noqa: B010 (no type has it)


def texts_under_fields(node: ast.ClassDef) -> dict[str, str]:
    """The docstring of each annotated name in a class, cleaned of its indentation."""
    found = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            found[statement.target.id] = inspect.cleandoc(following.value.value)
    return found


class _Texts(dict[str, str]):
    """The names of a class's slots, each with its text."""

    def __init__(self, cls: Any) -> None:
        super().__init__(dict.fromkeys(cls.__slots__, ""))
        self._cls = cls

    def __getitem__(self, name: str) -> str:
        return _texts(self._cls)[name]


@cache
def _texts(cls: Any) -> dict[str, str]:
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except OSError:
        # Installed without its source.
        return {field.name: _default(field) for field in fields(cls)}
    assert isinstance(node, ast.ClassDef)  # noqa: S101 (says it to mypy)
    under = texts_under_fields(node)
    both = {field.name: (under.get(field.name, ""), _default(field)) for field in fields(cls)}
    return {name: "\n".join(filter(None, texts)) for name, texts in both.items()}


def _default(field: Field[Any]) -> str:
    return "" if field.default is MISSING else f"Default: {field.default!r}."
