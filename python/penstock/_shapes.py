"""Whether the fields of an object are what their annotations say: for classes that do not check it themselves.

What annotations of messages are made of is understood here, and nothing else: a class whose annotations say more is
refused when it is first looked at.
"""

from collections.abc import Callable, Iterable
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["misfit"]

_Fits = Callable[[Any], bool]


def misfit(cls: type, made: object) -> str | None:
    """The first field of `made`, a `cls`, that is not what its annotation says, and what it is; None if all are."""
    for name, fits in _checks(cls):
        value = getattr(made, name)
        if not fits(value):
            return f"{name} is a {type(value).__name__}"
    return None


@cache
def _checks(cls: type) -> tuple[tuple[str, _Fits], ...]:
    return tuple((name, _fits(hint)) for name, hint in get_type_hints(cls).items())


def _fits(hint: Any) -> _Fits:
    """What tells whether a value is a `hint`.

    Raises:
        TypeError: nothing here knows.
    """
    known = _PLAIN.get(hint)
    if known is not None:
        return known
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        several = [_fits(argument) for argument in arguments]
        return lambda value: any(fits(value) for fits in several)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin is tuple and arguments[-1] is not Ellipsis:
        each = [_fits(argument) for argument in arguments]
        return lambda value: (
            type(value) is tuple
            and len(value) == len(each)
            and all(fits(part) for fits, part in zip(each, value, strict=True))
        )
    if origin is dict:
        key, member = (_fits(argument) for argument in arguments)
        return lambda value: (
            type(value) is dict and all(key(name) and member(part) for name, part in value.items())
        )
    if origin is tuple:
        part = _fits(arguments[0])
        return lambda value: type(value) is tuple and all(map(part, value))
    # A bare `list` or `dict` would say nothing of what is in it.
    if isinstance(hint, type) and (hasattr(hint, "_fields") or not issubclass(hint, Iterable)):
        return lambda value: isinstance(value, hint)
    raise TypeError(f"{hint!r}: no field of a message is annotated so")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_PLAIN: Final[dict[Any, _Fits]] = {
    Any: lambda _: True,
    type(None): lambda value: value is None,
    bool: lambda value: isinstance(value, bool),
    int: _is_int,
    float: lambda value: isinstance(value, float) or _is_int(value),
    str: lambda value: isinstance(value, str),
    bytes: lambda value: isinstance(value, bytes),
}
