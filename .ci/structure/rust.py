"""Reads the Rust crates: which file uses a name that which other file defines.

Tokens are read, not types: what is used by method calls alone draws no arrow. A re-export is followed to the file that
defines the name. Tests are left out.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

DEEPEST = 12  # re-exports of re-exports
LEFT_OUT = {"tests", "testing", "loom_models", "fuzz", "target"}
ITEM = re.compile(
    r"(?:\b(?:struct|enum|trait|type|const|static|union|fn)\s+(?:mut\s+)?|\bmacro_rules!\s*)([A-Za-z_]\w*)"
)
USE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.$])[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+")
TESTS = re.compile(r"#\[cfg\((?:(?:all|any)\()?(?:test|loom)\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*")


@dataclass
class Module:
    """One file."""

    path: str
    name: tuple[str, ...]
    code: str
    items: set[str] = field(default_factory=set)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class Crate:
    """A crate, its modules by their names."""

    name: str
    modules: dict[tuple[str, ...], Module]


def read(root: Path) -> dict[str, Crate]:
    """The crates of the workspace, by the name that code uses for them."""
    crates = {}
    for manifest in sorted((root / "rust").glob("*/Cargo.toml")):
        folder = manifest.parent
        if folder.name in LEFT_OUT:
            continue
        package = tomllib.loads(manifest.read_text())["package"]["name"].replace("-", "_")
        modules = {}
        for path in sorted((folder / "src").rglob("*.rs")):
            parts = path.relative_to(folder / "src").with_suffix("").parts
            if LEFT_OUT.isdisjoint(parts):
                name = () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts
                modules[name] = _module(
                    str(path.relative_to(root)), name, without_tests(plain(path.read_text()))
                )
        crates[package] = Crate(package, modules)
    return crates


def layer(path: str) -> tuple[str, str] | None:
    """The crate and its folder (or file of its own) that a file belongs to."""
    _rust, crate, _src, first, *_ = path.split("/")
    return None if first == "lib.rs" else (crate, first.removesuffix(".rs"))


def children(parent: str, child: str) -> bool:
    """Whether one file's module is within another's."""
    folder = re.sub(r"/(?:mod|lib)\.rs$|\.rs$", "", parent)
    return parent != child and child.startswith(folder + "/")


def arrows(crates: Mapping[str, Crate]) -> dict[str, dict[str, set[str]]]:
    """For each file, the files that it uses, and the names by which it does."""
    drawn: dict[str, dict[str, set[str]]] = {}
    for crate in crates.values():
        for module in crate.modules.values():
            targets = drawn.setdefault(module.path, {})
            for name in _names(crate, module):
                target = _resolve(crates, crate, module, name)
                if target and target != module.path:
                    targets.setdefault(target, set()).add(name[-1])
    return drawn


def _names(crate: Crate, module: Module) -> Iterator[tuple[str, ...]]:
    """Every path that the file writes: in `use`, and in code."""
    # A file that only names its children and hands on what they have draws no arrows to what it hands on.
    exported = module.path.endswith(("/lib.rs", "/mod.rs")) or any(
        len(name) > len(module.name) and name[: len(module.name)] == module.name for name in crate.modules
    )
    text = module.code
    for use in USE.finditer(text):
        if exported and use.group().startswith("pub"):
            continue
        for path, _alias in _expand(use.group(1)):
            yield path
    for match in PATH.finditer(USE.sub(";", text)):
        yield tuple(re.split(r"\s*::\s*", match.group()))


def _resolve(
    crates: Mapping[str, Crate], crate: Crate, module: Module, name: tuple[str, ...], depth: int = 0
) -> str | None:
    """The file that defines what a path names. None: it is of none of the crates, or it is a module as such."""
    if depth > DEEPEST:
        return None
    first, rest = name[0], name[1:]
    if first in {"crate", "self", "super"} or (first in crates and first not in module.uses):
        home, at = crate, module.name
        if first == "crate":
            at = ()
        elif first == "super":
            at = at[:-1]
        elif first in crates:
            home, at = crates[first], ()
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
        return _walk(crates, home, at, rest, depth)
    if (*module.name, first) in crate.modules:
        return _walk(crates, crate, (*module.name, first), rest, depth)
    if first in module.uses and rest:
        return _resolve(crates, crate, module, (*module.uses[first], *rest), depth + 1)
    return None


def _walk(
    crates: Mapping[str, Crate], crate: Crate, at: tuple[str, ...], rest: tuple[str, ...], depth: int
) -> str | None:
    while rest and (*at, rest[0]) in crate.modules:
        at, rest = (*at, rest[0]), rest[1:]
    module = crate.modules.get(at)
    if module is None or not rest:
        return None
    name = rest[0]
    if name in module.uses and name not in module.items:
        target = _resolve(crates, crate, module, (*module.uses[name], *rest[1:]), depth + 1)
        if target or len(rest) == 1:
            return target
    if name not in module.items:
        for path in module.globs:
            found = _resolve(crates, crate, module, (*path, *rest), depth + 1)
            if found:
                return found
    return module.path


def _module(path: str, name: tuple[str, ...], code: str) -> Module:
    module = Module(path, name, code)
    top, depth = [], 0
    for char in code:
        depth -= char == "}"
        top.append(char if depth == 0 or char == "\n" else " ")
        depth += char == "{"
    module.items = set(ITEM.findall("".join(top)))
    for use in USE.finditer(code):
        for target, alias in _expand(use.group(1)):
            if alias == "*":
                module.globs.append(target)
            elif alias != "_" and target != (alias,):
                module.uses.setdefault(alias, target)
    return module


def _expand(tree: str) -> list[tuple[tuple[str, ...], str]]:
    """The paths of a `use`, each with the name that it gets. A glob's name is `*`."""
    tree = tree.strip().removeprefix("::")
    if tree.endswith("}"):
        prefix, _, inner = tree[:-1].partition("{")
        start = tuple(part.strip() for part in prefix.strip().removesuffix("::").split("::") if part.strip())
        found = []
        for part in split(inner):
            for path, alias in _expand(part):
                if path == ("self",):
                    found.append((start, start[-1] if alias == "self" else alias))
                else:
                    found.append(((*start, *path), alias))
        return found
    path, _, alias = re.sub(r"\s+", " ", tree).partition(" as ")
    parts = tuple(part.strip() for part in path.split("::"))
    if parts[-1] == "*":
        return [(parts[:-1], "*")]
    return [(parts, alias.strip() or parts[-1])] if parts[-1] else []


def split(text: str) -> list[str]:
    """What commas part, outside brackets of any kind."""
    parts, depth, start = [], 0, 0
    previous = ""
    for at, char in enumerate(text):
        if char in "([{" or (char == "<"):
            depth += 1
        elif char in ")]}" or (char == ">" and previous not in "-="):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        previous = char
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


@cache
def plain(text: str) -> str:
    """The text with spaces in place of comments and of what stands in strings; lines stay where they are."""
    literal = re.compile(
        r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\".*?\"\1|\bb?c?\"(?:[^\"\\]|\\.)*\"|\"(?:[^\"\\]|\\.)*\"|b?'(?:[^'\\\n]|\\[^\n]{1,9}?)'",
        re.DOTALL,
    )
    return literal.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def without_tests(code: str) -> str:
    """The code without items under `#[cfg(test)]` and `#[cfg(loom)]`; lines stay where they are."""
    kept, at = [], 0
    for match in TESTS.finditer(code):
        if match.start() < at:
            continue
        kept.append(code[at : match.start()])
        # What begins with a capital is an arm of a match or a variant of an enum.
        end = closing(code, match.end(), is_member=code[match.end() : match.end() + 1].isupper())
        kept.append("\n" * code.count("\n", match.start(), end))
        at = end
    kept.append(code[at:])
    return "".join(kept)


def closing(code: str, start: int, *, is_member: bool = False) -> int:
    """The position after the item that starts here, which ends with `;` or a closing brace.

    A member ends with a comma as well, or before the end of what it is in.
    """
    depth = 0
    for at in range(start, len(code)):
        char = code[at]
        if char in "{([":
            depth += 1
        elif char in "})]":
            depth -= 1
            if depth < 0 and is_member:
                return at
            if depth == 0 and char == "}":
                return at + 1
        elif depth == 0 and (char == ";" or (char == "," and is_member)):
            return at + 1
    return len(code)
