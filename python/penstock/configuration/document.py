"""A configuration as it was said: a tree of values, each with its place, of a file and of options over it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock import _native

from .faults import Fault, FaultyConfigurationError, Place

__all__ = ["SHORT", "Document", "Node", "Place", "shown_path"]

# Keys of a file that are short for a key of a table, as they are for arguments of Python.
SHORT: Final = {"memory": ("pool", "memory"), "origin": ("origins", "default", "urls")}

# No operator writes a larger file; arbitrary.
_LARGEST: Final = 1 << 20


@dataclass(slots=True)
class Node:
    """A value, where its key is, and where itself."""

    value: Any
    """A dict of keys to nodes, a list of nodes, a text, a number, a truth value, or a tuple with the text of a time."""
    key: Place
    place: Place


Path_ = Sequence[str | int]


def shown_path(path: Path_) -> str:
    """A path as it is written in messages: `routes[0].gate`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class Document:
    """A tree of values.

    Attributes:
        root: the table of all.
        directory: what paths in the file are relative to.
        secrets: texts that were read from other files and from the environment.
    """

    def __init__(self, root: Node, directory: Path) -> None:
        self.root = root
        self.directory = directory
        self.secrets: list[str] = []

    @classmethod
    def empty(cls) -> "Document":
        """What no file says."""
        place = Place(option="the command line")
        return cls(Node({}, place, place), Path())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Document":
        """Read a file.

        Raises:
            FaultyConfigurationError: it cannot be read, or is no TOML.
        """
        name = os.fspath(path)
        top = Place(name, 1, 1)
        try:
            with Path(path).open("rb") as file:
                raw = file.read(_LARGEST + 1)
        except OSError as error:
            raise FaultyConfigurationError([Fault(top, "", f"cannot be read: {error.strerror}")]) from None
        if len(raw) > _LARGEST:
            raise FaultyConfigurationError([Fault(top, "", "is larger than 1 MiB")])
        return cls.parse(raw, name, Path(path).resolve().parent)

    @classmethod
    def parse(cls, raw: bytes, name: str, directory: Path) -> "Document":
        """Read the text of a file that is called `name`.

        Raises:
            FaultyConfigurationError: it is no TOML.
        """
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode()
            line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            fault = Fault(Place(name, line, column), "", "a byte that is not UTF-8")
            raise FaultyConfigurationError([fault]) from None
        table, problems = _native.parse_toml(text)
        if problems:
            raise FaultyConfigurationError(Fault(Place(name, *at), "", problem) for at, problem in problems)
        top = Place(name, 1, 1)
        document = cls(Node(_tree(table, name), top, top), directory)
        document._expand()
        return document

    def _expand(self) -> None:
        """Put what short keys say where it belongs."""
        faults = []
        for short, path in SHORT.items():
            node = self.root.value.get(short)
            if node is None:
                continue
            if self.find(path) is not None:
                text = f"it is short for {shown_path(path)}, which is given as well"
                faults.append(Fault(node.key, short, text))
                continue
            del self.root.value[short]
            self.put(path, node)
        if faults:
            raise FaultyConfigurationError(faults)

    def find(self, path: Path_) -> Node | None:
        """The node at `path`."""
        found = list(self._along(path))
        return found[-1] if path and len(found) == len(path) else None

    def _along(self, path: Path_) -> Iterator[Node]:
        node = self.root
        for part in path:
            value = node.value
            is_there = (
                part in value
                if isinstance(value, dict)
                else isinstance(value, list) and part in range(len(value))
            )
            if not is_there:
                return
            node = value[part]
            yield node

    def place(self, path: Path_) -> Place:
        """Where `path` was said, or the part of it that was."""
        found = [self.root, *self._along(path)]
        is_value = len(found) == len(path) + 1 and not isinstance(found[-1].value, dict)
        return found[-1].place if is_value else found[-1].key

    def redacted(self, text: str) -> str:
        """`text` without what was read from files and the environment."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            for form in (secret, repr(secret)[1:-1]):
                text = text.replace(form, "…") if form else text
        return text

    def put(self, path: Path_, node: Node) -> None:
        """Say `node` at `path`, in place of what is said there. What is no table on the way to it becomes one."""
        table = self.root
        for part in path[:-1]:
            inner = table.value.get(part)
            if inner is None or not isinstance(inner.value, dict):
                inner = table.value[part] = Node({}, node.key, node.place)
            table = inner
        table.value[path[-1]] = node

    def say(self, path: Path_, value: object, option: str) -> None:
        """Say `value`, which is a text, a number, a truth value or a list of them, by an option."""
        place = Place(option=option)
        if isinstance(value, list):
            value = [Node(each, place, place) for each in value]
        self.put(path, Node(value, place, place))

    def forget(self, path: Path_) -> None:
        """Say nothing at `path`."""
        *before, last = path
        table = self.find(before) if before else self.root
        if table is not None and isinstance(table.value, dict):
            table.value.pop(last, None)


def _tree(value: Any, name: str) -> Any:
    """The nodes of what the parser has returned for a table, a list or a single value."""
    if isinstance(value, dict):
        found = {}
        for key, (at, (place, inner)) in value.items():
            found[key] = Node(_tree(inner, name), Place(name, *at), Place(name, *place))
        return found
    if isinstance(value, list):
        nodes = []
        for place, inner in value:
            where = Place(name, *place)
            nodes.append(Node(_tree(inner, name), where, where))
        return nodes
    return value
