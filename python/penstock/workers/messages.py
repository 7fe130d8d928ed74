"""What goes over a link: pickles of plain data, of errors and of descriptions, which name no code.

A worker runs the application, so the parent must not run what a worker names. What is read knows one global: it makes
errors by their names, and descriptions of the classes that were allowed by their constructors, which check them.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from penstock import config
from penstock.exceptions import PenstockError, error_codes, make_error

__all__ = ["LENGTH", "MOST", "UnreadableError", "allow", "dump", "error_names", "length_of", "load"]

LENGTH: Final = 4
"""Bytes in front of a message, which say how many it has."""
MOST: Final = 16 << 20
"""Bytes of a message (arbitrary): a thousand routes with their keys are less than one MiB."""

_ERROR: Final = "error"
_classes: Final[dict[str, type]] = {}
_names: Final[dict[type, str]] = {}


class UnreadableError(Exception):
    """What has come is no message."""


def allow(*classes: type) -> None:
    """Let descriptions of `classes`, each a dataclass or a named tuple, go over links.

    Their constructors are called with whatever a worker sends for their fields, and must do no more than check it.
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
        ValueError: it is too long.
    """
    buffer = io.BytesIO(bytes(LENGTH))
    buffer.seek(LENGTH)
    _Pickler(buffer, protocol=5).dump(message)
    size = buffer.tell() - LENGTH
    if size > MOST:
        raise ValueError(f"a message of {size} bytes; a link takes {MOST} at most")
    buffer.seek(0)
    buffer.write(size.to_bytes(LENGTH))
    return buffer.getvalue()


@cache
def error_names() -> frozenset[str]:
    """The names of errors that may go over a link: all that are penstock's."""
    return frozenset(row.name for row in error_codes())


def length_of(head: bytes) -> int:
    """The length of the message behind `head`.

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
        UnreadableError: it is none, or names what may not be named, or describes what cannot be.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:
        # Whatever bytes make a pickle raise, they are no message.
        raise UnreadableError(f"{type(error).__name__}: {error}") from error


def _fields(cls: type) -> Callable[[Any], dict[str, Any]]:
    if is_dataclass(cls):
        names = [field.name for field in fields(cls) if field.init]
        return lambda value: {name: getattr(value, name) for name in names}
    if issubclass(cls, tuple) and hasattr(cls, "_asdict"):
        return lambda value: dict(value._asdict())
    raise TypeError(f"{cls.__qualname__} is neither a dataclass nor a named tuple")


def _made(name: str, values: dict[str, Any]) -> object:
    """Make what is called `name`. The one thing that a pickle may have called."""
    if name == _ERROR:
        return make_error(**values)
    return _classes[name](**values)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Called for all that is not plain data."""
        if value is _made:
            return NotImplemented
        if isinstance(value, PenstockError) and value.name in error_names():
            return _made, (_ERROR, {"name": value.name, "detail": value.detail, "origin": value.origin})
        name = _names.get(type(value))
        if name is None:
            raise TypeError(f"{value!r} may not go over a link")
        return _made, (name, _fields(type(value))(value))


class _Unpickler(pickle.Unpickler):  # noqa: S301 (it finds one function)
    def find_class(self, module: str, name: str) -> Any:
        """Called for every global that a pickle names."""
        if (module, name) == (__name__, _made.__name__):
            return _made
        raise pickle.UnpicklingError(f"it names {module}.{name}")


allow(
    *(cls for name in config.__all__ if is_dataclass(cls := getattr(config, name)) and isinstance(cls, type))
)
