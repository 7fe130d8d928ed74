"""Makes `config.Server`, or another dataclass, of a document, and names all faults with their places.

A table is a dataclass, its keys are the fields, by whose annotations values are read, and a key that is not written has
the default of the field. `false` stands for None. The dataclasses check their values themselves; here types
are checked, unknown keys, and that files can be read.
"""

import os
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock import config
from penstock.exceptions import ConfigurationError

from .document import SHORT, Document, Node, Path_, shown_path
from .faults import Fault, Faults, suggestion
from .gates import KINDS, ServerGate, class_of
from .secrets import is_reference, read_reference

__all__ = ["ELSEWHERE", "read_server", "read_table", "settings_of"]

# Fields that a file says by another key, and by which.
ELSEWHERE: Final = {
    "Edge.tls": "the table [tls] says it",
    "Edge.http2": "the table [http2] says it",
    "Workers.stop_timeout": "the key drain says it",
    "OriginTls.certificates": "the key certificate of [origins.NAME] says it",
    "OriginHttp2.origins": "the key http2 of [origins.NAME] says it",
}
# Files that have to be there. The cache's directory and logs are made.
_READ: Final = frozenset(
    (
        *(f"TLS.{name}" for name in ("cert", "key", "directory", "client_ca", "crl", "ticket_keys")),
        *("ClientCertificate.cert", "ClientCertificate.key", "Edge.acme_dir"),
    )
)
# Texts that stand in the place of a path.
_NO_PATHS: Final = {"AccessLog.path": ("-",), "OriginTls.roots": ("system", "webpki")}
_ADDRESSES: Final = frozenset(("Server.listen", "Server.control", "ServerSite.listen", "Status.listen"))

_Table = TypeVar("_Table")

_NONE: Final = type(None)
_FAILED: Final = object()
_SEQUENCES: Final = (tuple, Collection, Iterable, Sequence)


def read_server(document: Document, faults: Faults) -> config.Server | None:
    """What a document says; None if it has faults, which are added to `faults`."""
    return read_table(config.Server, document, faults)


def read_table(cls: type[_Table], document: Document, faults: Faults) -> _Table | None:
    """The dataclass `cls`, of the whole of a document; None if it has faults, which are added to `faults`."""
    made = _Reader(document, faults).table(cls, document.root, ())
    return None if made is _FAILED else made


@cache
def settings_of(cls: type) -> dict[str, Any]:
    """The keys of the table that stands for `cls`, each with the type of its value."""
    hints = get_type_hints(cls)
    return {
        field.name: hints[field.name]
        for field in fields(cls)
        if field.init and f"{cls.__name__}.{field.name}" not in ELSEWHERE
    }


class _Reader:
    """Reads values by their types."""

    def __init__(self, document: Document, faults: Faults) -> None:
        self._document = document
        self._directory = document.directory
        self._faults = faults

    def _fault(self, node: Node, path: Path_, text: str, *, at_key: bool = False) -> object:
        place = node.key if at_key else node.place
        self._faults.append(Fault(place, shown_path(path), self._document.redacted(text)))
        return _FAILED

    def table(self, cls: type, node: Node, path: Path_, also: Mapping[str, Any] | None = None) -> Any:
        """The dataclass `cls`. `also` has keys of the table that are no fields, and are not read here."""
        if not isinstance(node.value, dict):
            return self._fault(node, path, f"must be a table, not {_kind(node.value)}")
        known = settings_of(cls)
        failed = is_strange = False
        found: dict[str, Any] = {}
        for key, child in node.value.items():
            where = (*path, key)
            if also is not None and key in also:
                continue
            if key not in known:
                names = [*known, *(also or ()), *(SHORT if cls is config.Server else ())]
                self._fault(child, where, _unknown(cls, key, names), at_key=True)
                is_strange = True
                continue
            name = f"{cls.__name__}.{key}"
            value = (
                self._gates(child, where)
                if name == "Server.gates"
                else self.value(known[key], child, where, name)
            )
            failed |= value is _FAILED
            found[key] = value
        for name in _needed(cls):
            if name not in node.value:
                self._fault(node, path, f"needs the key {name}", at_key=True)
                failed = True
        # With a strange key the rest is looked at as well: all faults are named at once.
        made = _FAILED if failed else self._made(cls, node, path, found)
        return _FAILED if is_strange else made

    def _made(self, cls: type, node: Node, path: Path_, found: dict[str, Any]) -> Any:
        try:
            return cls(**found)
        except ConfigurationError as error:
            name = "" if error.setting is None else error.setting.rpartition(".")[2]
            child = node.value.get(name)
            text = error.rule or error.detail
            if (child or node).place.file:
                text = text.replace(" or None", " or false")
            if child is None:
                # Its default is what does not go with the rest.
                text = text.removeprefix("None: ")
                return self._fault(node, (*path, name) if name else path, text, at_key=True)
            return self._fault(child, (*path, name), text)

    def _gates(self, node: Node, path: Path_) -> Any:
        if not isinstance(node.value, dict):
            return self._fault(node, path, f"must be a table, not {_kind(node.value)}")
        gates = {name: self._gate(child, (*path, name)) for name, child in node.value.items()}
        return _FAILED if _FAILED in gates.values() else gates

    def _gate(self, node: Node, path: Path_) -> Any:
        if not isinstance(node.value, dict):
            return self._fault(node, path, f"must be a table, not {_kind(node.value)}")
        kind, access = node.value.get("kind"), node.value.get("access")
        names = ", ".join(f"'{name}'" for name in KINDS)
        if kind is None:
            return self._fault(node, path, f"needs the key kind, one of {names}", at_key=True)
        if not isinstance(kind.value, str) or kind.value not in KINDS:
            return self._fault(kind, (*path, "kind"), f"{kind.value!r}: must be one of {names}")
        cls = class_of(kind.value)
        limits = config.Access() if access is None else self.table(config.Access, access, (*path, "access"))
        made = self.table(cls, node, path, dict.fromkeys(("kind", "access")))
        return _FAILED if _FAILED in (limits, made) else ServerGate(made, limits)

    def value(self, hint: Any, node: Node, path: Path_, name: str) -> Any:
        """A value of the type `hint`; `name` is that of the field, such as `TLS.cert`."""
        kinds = _members(hint)
        value = node.value
        if value is False and bool not in kinds and _NONE in kinds:
            return None
        if isinstance(value, dict):
            return self._of_table(kinds, node, path, name)
        if isinstance(value, list):
            for kind in kinds:
                if (get_origin(kind) or kind) in _SEQUENCES:
                    return self._sequence(kind, node, path, name)
        elif any(_is(value, kind) for kind in kinds):
            return self._single(kinds, node, path, name)
        return self._fault(node, path, _mismatch(value, kinds))

    def _single(self, kinds: Sequence[Any], node: Node, path: Path_, name: str) -> Any:
        value = node.value
        if isinstance(value, str):
            return self._text(kinds, node, path, name)
        if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
            # No time and no share is so large, and what is takes no float.
            return float(value)
        return value

    def _text(self, kinds: Sequence[Any], node: Node, path: Path_, name: str) -> Any:
        value, is_ours = node.value, bool(node.place.file)
        if is_ours and name in _ADDRESSES and value.startswith("unix:") and value != "unix:":
            return f"unix:{self._directory / value.removeprefix('unix:')}"
        if os.PathLike not in {get_origin(kind) or kind for kind in kinds} or value in _NO_PATHS.get(
            name, ()
        ):
            return value
        if "\0" in value or not value:
            return self._fault(node, path, f"{value!r}: must be a path")
        found = os.fspath(self._directory / value) if is_ours else value
        if name in _READ and not os.access(found, os.R_OK):
            there = "cannot be read" if Path(found).exists() else "does not exist"
            return self._fault(node, path, f"{found} {there}")
        return found

    def _of_table(self, kinds: Sequence[Any], node: Node, path: Path_, name: str) -> Any:
        if is_reference(node.value) and any(kind in (str, bytes) for kind in kinds):
            return self._secret(kinds, node, path)
        classes = [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]
        mappings = [kind for kind in kinds if get_origin(kind) is Mapping]
        if classes and not (mappings and not set(_needed(classes[0])) <= set(node.value)):
            return self.table(classes[0], node, path)
        if mappings:
            return self._mapping(get_args(mappings[0])[1], node, path, name)
        if Any in kinds:
            return _plain(node)
        return self._fault(node, path, _mismatch(node.value, kinds))

    def _secret(self, kinds: Sequence[Any], node: Node, path: Path_) -> Any:
        try:
            raw = read_reference(node.value, self._directory)
        except ValueError as error:
            return self._fault(node, path, str(error))
        text = raw.decode("utf-8", "surrogateescape")
        self._document.secrets.append(text)
        if bytes in kinds:
            return raw
        if "\ufffd" in text or any("\udc80" <= character <= "\udcff" for character in text):
            return self._fault(node, path, "what it leads to is not UTF-8")
        return text

    def _mapping(self, inner: Any, node: Node, path: Path_, name: str) -> Any:
        found = {key: self.value(inner, child, (*path, key), name) for key, child in node.value.items()}
        return _FAILED if any(value is _FAILED for value in found.values()) else found

    def _sequence(self, kind: Any, node: Node, path: Path_, name: str) -> Any:
        arguments = [each for each in get_args(kind) if each is not ...]
        is_row = get_origin(kind) is tuple and ... not in get_args(kind)
        if is_row and len(node.value) != len(arguments):
            return self._fault(node, path, f"must have {len(arguments)} values, and has {len(node.value)}")
        found = tuple(
            self.value(arguments[at if is_row else 0], child, (*path, at), name)
            for at, child in enumerate(node.value)
        )
        return _FAILED if any(value is _FAILED for value in found) else found


def _needed(cls: type) -> list[str]:
    """The keys of a table that have no default."""
    return [
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING and field.name in settings_of(cls)
    ]


def _members(hint: Any) -> tuple[Any, ...]:
    """The types that a value may be of."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for each in get_args(hint) for kind in _members(each))
    return (hint,)


def _is(value: object, kind: Any) -> bool:
    """Whether a single value is of the type `kind`."""
    if kind is Any:
        return not isinstance(value, tuple)
    if get_origin(kind) is Literal:
        # True is 1, and no text.
        return any(value == known and type(value) is type(known) for known in get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, bytes):
        return isinstance(value, str)
    return kind is bool and isinstance(value, bool)


def _plain(node: Node) -> Any:
    """A value without its places."""
    if isinstance(node.value, dict):
        return {key: _plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child) for child in node.value]
    return node.value[0] if isinstance(node.value, tuple) else node.value


def _kind(value: object) -> str:
    """What a value is called in TOML."""
    names = {
        bool: "a truth value",
        dict: "a table",
        float: "a number",
        int: "a number",
        list: "an array",
        str: "a text",
        tuple: "a time",
    }
    return names[type(value)]


def _wanted(kinds: Sequence[Any]) -> str:
    """What a value may be."""
    words = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            words += [repr(known) for known in get_args(kind)]
        elif kind is float:
            words.append("a number")
        elif kind is int:
            words.append("a whole number")
        elif kind is bool:
            words.append("true or false")
        elif kind in (str, bytes):
            words.append("a text")
        elif kind is _NONE:
            words.append("false")
        elif (get_origin(kind) or kind) in _SEQUENCES:
            words.append("an array")
        elif get_origin(kind) is Mapping or (isinstance(kind, type) and is_dataclass(kind)):
            words.append("a table")
    words = list(dict.fromkeys(words))
    return " or ".join(words)


def _mismatch(value: object, kinds: Sequence[Any]) -> str:
    shown = "" if isinstance(value, dict | list | tuple) else f"{_literal(value)}: "
    text = f"{shown}must be {_wanted(kinds)}, not {_kind(value)}"
    words = [known for kind in kinds if get_origin(kind) is Literal for known in get_args(kind)]
    if isinstance(value, str) and words:
        text = f"{value!r}: must be one of {', '.join(str(word) for word in words)}"
        return text + suggestion(value, [str(word) for word in words])
    if value in ("none", "off") and _NONE in kinds:
        text += "; false stands for no such value"
    return text


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _unknown(cls: type, key: str, known: Iterable[str]) -> str:
    elsewhere = ELSEWHERE.get(f"{cls.__name__}.{key}")
    if elsewhere is not None:
        return f"is not written here: {elsewhere}"
    return "is no setting" + suggestion(key, known)
