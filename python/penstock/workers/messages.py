"""What goes over a link: JSON whose reader constructs.

A worker runs the application, so what it sends must not name code, set fields that a constructor refuses, or take the
parent's memory. Plain data is read as it was written. An object is the name of a class that was allowed and its fields:
the constructor is called with them, so that its checks run; a class without checks (`__post_init__`) has its fields
compared with their annotations. An error is its name in the table of codes, and its text.

| value | JSON |
|---|---|
| None, bool, int, float, short str | themselves |
| tuple | an array |
| anything else | an object with one member, whose name says what it is |
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from penstock import config
from penstock._shapes import misfit
from penstock.exceptions import PenstockError, error_codes, make_error

__all__ = ["LENGTH", "MOST", "UnreadableError", "allow", "dump", "error_names", "length_of", "load"]

LENGTH: Final = 4
"""Bytes in front of a message, which say how many it has."""
MOST: Final = 16 << 20
"""Bytes of a message (arbitrary): a thousand routes with their keys are less than one MiB."""
DEPTH: Final = 64
"""Levels of a message (arbitrary). A registration has nine."""
VALUES: Final = 1 << 20
"""Values of a message (arbitrary). An empty one takes 64 bytes in memory, and three in a message."""
_SHORT: Final = 1024
"""Characters of a text that stands in a message as it is. A longer one is written as bytes, which have no commas."""

_ERROR: Final = "error"
_classes: Final[dict[str, type]] = {}
_names: Final[dict[type, str]] = {}


class UnreadableError(Exception):
    """What has come is no message."""


def allow(*classes: type) -> None:
    """Let objects of `classes`, each a dataclass or a named tuple, go over links.

    Their constructors are called with what a worker sends for their fields, and must do no more than check it.
    """
    for cls in classes:
        _fields(cls)
        name = f"{cls.__module__}.{cls.__qualname__}"
        _classes[name] = cls
        _names[cls] = name


def dump(message: object) -> bytes:
    """Write `message`, with its length in front.

    Raises:
        TypeError: something in it may not go over a link.
        ValueError: it is too long, or too deep.
    """
    data = json.dumps(_written(message, DEPTH), separators=(",", ":")).encode("ascii")
    if len(data) > MOST:
        raise ValueError(f"a message of {len(data)} bytes; a link takes {MOST} at most")
    if _values(data) > VALUES:
        raise ValueError(f"a message of {_values(data)} values; a link takes {VALUES} at most")
    return len(data).to_bytes(LENGTH) + data


@cache
def error_names() -> frozenset[str]:
    """The names of errors that may go over a link: all that are penstock's."""
    return frozenset(row.name for row in error_codes())


def length_of(head: bytes) -> int:
    """The length of the message that follows `head`.

    Raises:
        UnreadableError: it is too long.
    """
    size = int.from_bytes(head)
    if size > MOST:
        raise UnreadableError(f"a message of {size} bytes; a link takes {MOST} at most")
    return size


def load(data: bytes) -> Any:
    """Read a message.

    Raises:
        UnreadableError: it is not a message, or has an object that cannot be made.
    """
    if len(data) > MOST or _values(data) > VALUES:
        raise UnreadableError(f"{len(data)} bytes, {_values(data)} values: too long")
    try:
        return _read(json.loads(data), DEPTH)
    except Exception as error:
        # Bytes that are no JSON, levels without end, and what a constructor refuses, with whatever error.
        raise UnreadableError(f"{type(error).__name__}: {error}") from error


def _values(data: bytes) -> int:
    """The values of a message at most, without reading it."""
    return 1 + sum(map(data.count, (b",", b"[", b"{")))


def _fields(cls: type) -> Callable[[Any], dict[str, Any]]:
    if is_dataclass(cls):
        names = [field.name for field in fields(cls) if field.init]
        return lambda value: {name: getattr(value, name) for name in names}
    if issubclass(cls, tuple) and hasattr(cls, "_asdict"):
        return lambda value: dict(value._asdict())
    raise TypeError(f"{cls.__qualname__} is neither a dataclass nor a named tuple")


def _written(value: Any, depth: int) -> Any:
    """`value` as JSON has it."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return (
            str(value) if len(value) <= _SHORT else {"text": _base64(value.encode("utf-8", "surrogatepass"))}
        )
    if not depth:
        raise ValueError(f"a message of more than {DEPTH} levels")
    depth -= 1
    name = _names.get(type(value))
    if name is not None:
        return {name: {field: _written(each, depth) for field, each in _fields(type(value))(value).items()}}
    kind = type(value)
    if kind is tuple:
        return [_written(each, depth) for each in value]
    if kind in (list, set, frozenset):
        return {kind.__name__: [_written(each, depth) for each in value]}
    if kind is dict:
        return {"dict": [[_written(key, depth), _written(each, depth)] for key, each in value.items()]}
    if kind is bytes:
        return {"bytes": _base64(value)}
    if isinstance(value, PenstockError) and value.name in error_names():
        return {_ERROR: [value.name, _written(value.detail, depth), _written(value.origin, depth)]}
    raise TypeError(f"{value!r} may not go over a link")


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _read(node: Any, depth: int) -> Any:
    """What `_written` has written."""
    if not isinstance(node, dict | list):
        return node
    if not depth:
        raise ValueError(f"more than {DEPTH} levels")
    depth -= 1
    if isinstance(node, list):
        return tuple([_read(each, depth) for each in node])
    ((name, inner),) = node.items()
    read = _READERS.get(name)
    return _made(name, inner, depth) if read is None else read(inner, depth)


def _each(inner: Any, depth: int) -> list[Any]:
    if not isinstance(inner, list):
        raise TypeError(f"a {type(inner).__name__} where a list stands")
    return [_read(each, depth) for each in inner]


def _bytes(inner: Any, _: int) -> bytes:
    return b64decode(inner, validate=True)


def _error(inner: Any, depth: int) -> PenstockError:
    name, detail, origin = _each(inner, depth)
    if not isinstance(detail, str) or not isinstance(origin, str | None):
        raise TypeError("an error's text and its origin are texts")
    return make_error(name, detail, origin)


def _made(name: str, inner: Any, depth: int) -> object:
    """An object of the class that is called `name`."""
    cls = _classes.get(name)
    if cls is None:
        raise LookupError(f"it names {name}")
    if not isinstance(inner, dict):
        raise TypeError(f"a {type(inner).__name__} where fields stand")
    values = {field: _read(each, depth) for field, each in inner.items()}
    made: object = cls(**values)
    if not hasattr(cls, "__post_init__"):
        wrong = misfit(cls, made)
        if wrong is not None:
            raise TypeError(f"{cls.__qualname__}.{wrong}")
    return made


_READERS: Final[Mapping[str, Callable[[Any, int], Any]]] = {
    "list": _each,
    "set": lambda inner, depth: set(_each(inner, depth)),
    "frozenset": lambda inner, depth: frozenset(_each(inner, depth)),
    "dict": lambda inner, depth: dict(_each(inner, depth)),
    "bytes": _bytes,
    "text": lambda inner, depth: _bytes(inner, depth).decode("utf-8", "surrogatepass"),
    _ERROR: _error,
}

allow(
    *(cls for name in config.__all__ if is_dataclass(cls := getattr(config, name)) and isinstance(cls, type))
)
