"""Checks of settings: each says what is wrong, and where.

A setting is checked once, in place, when its dataclass is made, and then has the form in which the engine reads it.
"""

import ipaddress
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from penstock.exceptions import ConfigurationError, make_error

Size = int | str
"""Bytes, as a number or as text such as `"64KiB"`."""

_PORTS: Final = {"http": 80, "https": 443}

_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)

# The pool's unit of cutting, and the largest slab.
REGION: Final = 256 * 1024
PAGE: Final = 4 * 1024

_HIGHEST_PORT: Final = 65535

# What needs no resolver. All interfaces are those of IPv4: it is one socket.
_KNOWN: Final = {"": "0.0.0.0", "localhost": "127.0.0.1"}

# Longer than any exchange, and short enough for every clock that counts it.
_YEAR: Final = 365 * 24 * 3600.0


def parse_size(size: Size) -> int:
    """Read a size: a number of bytes, or text such as `"64KiB"`, `"1.5 GB"`, `"4096"`.

    KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000. Case does not matter.

    Raises:
        ConfigurationError: it has another form, is negative, or is not a whole number of bytes.
    """
    try:
        return _bytes(size)
    except _NoSizeError as error:
        raise make_error("BAD_CONFIGURATION", f"{size!r} {error}") from None


class _NoSizeError(ValueError):
    """Why something is no size."""


def _bytes(size: object) -> int:
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise _NoSizeError("is no size: it is negative")
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise _NoSizeError("is no size: write bytes, or text such as '64KiB', '256MiB' or '1TiB'")
    whole, _, fraction = match[1].partition(".")
    numerator, denominator = int(whole + fraction) * unit, int("1" + "0" * len(fraction))
    if numerator % denominator:
        raise _NoSizeError("is no size: it is not a whole number of bytes")
    return numerator // denominator


def in_words(size: int) -> str:
    """A number of bytes as people write it, if it is whole in a larger unit: `256KiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit.upper()] == 0:
            return f"{size // _UNITS[unit.upper()]}{unit}"
    return f"{size} bytes"


def parse_address(text: str) -> tuple[str, int] | str:
    """Parse an address to listen on: host and port, or the path of a Unix socket.

    `HOST:PORT`, `[ADDRESS]:PORT`, and `PORT`, `:PORT` or `*:PORT` for all interfaces, whose host is empty; or
    `unix:PATH`.

    Raises:
        ValueError: it has another form. The text says what it must be.
    """
    kind, _, path = text.partition(":")
    if kind == "unix" and path:
        return path
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "/" in host:
        # An address of IPv6 without brackets, or a URL, could be read in two ways.
        port = ""
    if not (port.isascii() and port.isdigit()) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"must be HOST:PORT, [ADDRESS]:PORT, a PORT up to {_HIGHEST_PORT} or unix:PATH")
    return "" if host == "*" else host, int(port)


def is_token(text: object) -> bool:
    """Whether it is a token, such as the name of a field (RFC 9110, section 5.6.2)."""
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def bad(settings: object, name: str, rule: str) -> Exception:
    """The error for a setting: `rule` says what it must be."""
    value = getattr(settings, name)
    setting = f"{type(settings).__name__}.{name}"
    error = make_error("BAD_CONFIGURATION", f"{setting} = {value!r}: {rule}")
    assert isinstance(error, ConfigurationError)  # noqa: S101 (says it to mypy)
    error.setting, error.rule = setting, f"{value!r}: {rule}"
    return error


def put(settings: object, name: str, value: object) -> None:
    """Give a setting, of a dataclass that is frozen, another form."""
    object.__setattr__(settings, name, value)


def flag(settings: object, name: str) -> None:
    """Check that a setting is True or False."""
    if not isinstance(getattr(settings, name), bool):
        raise bad(settings, name, "must be True or False")


def of_their_types(settings: object) -> None:
    """Check that each field is of the type of its annotation, with what is in it. A list becomes a tuple."""
    for name, hint in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if isinstance(value, list):
            put(settings, name, tuple(value))
        if not _is_of(getattr(settings, name), hint):
            raise bad(settings, name, f"must be {str(hint).replace('typing.', '')}")


def _is_of(value: object, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin is tuple:
        if not isinstance(value, tuple | list) or (... not in parts and len(value) != len(parts)):
            return False
        return all(_is_of(each, parts[0]) for each in value)
    if origin is Mapping:
        kinds = value.items() if isinstance(value, Mapping) else ((None, None),)
        return all(_is_of(key, parts[0]) and _is_of(each, parts[1]) for key, each in kinds)
    if parts:
        return any(_is_of(value, part) for part in parts)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return hint is Any or isinstance(value, hint)


def texts(settings: object, name: str) -> None:
    """Check a sequence of texts, which becomes a tuple."""
    several = sequence(settings, name, "must be a sequence of printable texts")
    if not all(isinstance(text, str) and text and text.isprintable() for text in several):
        raise bad(settings, name, "must be a sequence of printable texts")
    put(settings, name, several)


def sequence(settings: object, name: str, rule: str) -> tuple[Any, ...]:
    """A setting that is several things; `rule` says what."""
    value = getattr(settings, name)
    # A text is a sequence of texts too, and its letters are not what was meant.
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise bad(settings, name, rule)
    return tuple(value)


def text(settings: object, name: str) -> None:
    """Check a text that is not empty."""
    value = getattr(settings, name)
    if not isinstance(value, str) or not value:
        raise bad(settings, name, "must be a text that is not empty")


def path(settings: object, name: str) -> None:
    """Check the path of a file, which becomes a text."""
    value = getattr(settings, name)
    if not isinstance(value, str | os.PathLike):
        raise bad(settings, name, "must be a path: a text or a pathlib.Path")
    put(settings, name, os.fspath(value))


def place(settings: object, name: str) -> tuple[str, int] | str:
    """A setting that is where to listen: address and port, or the path of a Unix socket. It needs no resolver."""
    value = getattr(settings, name)
    if not isinstance(value, str):
        raise bad(settings, name, "must be text")
    try:
        found = parse_address(value)
    except ValueError as error:
        raise bad(settings, name, str(error)) from None
    if isinstance(found, str):
        return found
    address = _KNOWN.get(found[0], found[0])
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise bad(settings, name, "must have an address: a name would have to be resolved") from None
    return address, found[1]


def json_object(settings: object, name: str) -> str:
    """A setting that is an object of JSON, as text."""
    value = getattr(settings, name)
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(parsed, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise bad(settings, name, f"must be an object of JSON, or text of one: {error}") from None
    if not isinstance(parsed, Mapping):
        raise bad(settings, name, "must be an object of JSON, or text of one")
    return text


def word(settings: object, name: str, known: Iterable[str]) -> None:
    """Check a setting that is one of a few words."""
    if getattr(settings, name) not in known:
        raise bad(settings, name, f"must be one of {', '.join(known)}")


def count(settings: object, name: str, least: int, most: int = 1 << 31) -> None:
    """Check a whole number."""
    value = getattr(settings, name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise bad(settings, name, f"must be a whole number from {least} to {most}")


def seconds(settings: object, name: str, *, optional: bool = False, zero: bool = False) -> None:
    """Check a time, which becomes a float."""
    value = getattr(settings, name)
    if value is None and optional:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= _YEAR or (value == 0 and not zero):
        allowed = " or None" if optional else ""
        least = "from 0 on" if zero else "above 0"
        raise bad(settings, name, f"must be seconds {least} and at most a year{allowed}")
    put(settings, name, float(value))


def rate(settings: object, name: str) -> None:
    """A setting that is requests a second, or None."""
    value = getattr(settings, name)
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= 1e9:  # noqa: PLR2004 (beyond that it is no limit)
        raise bad(settings, name, "must be requests a second above 0, or None")
    put(settings, name, float(value))


def size(settings: object, name: str, least: int, most: int = 1 << 48) -> int:
    """Check a size, which becomes a number of bytes and is returned."""
    try:
        number = _bytes(getattr(settings, name))
    except _NoSizeError as error:
        raise bad(settings, name, str(error)) from None
    if not least <= number <= most:
        raise bad(settings, name, f"must be from {in_words(least)} to {in_words(most)}")
    put(settings, name, number)
    return number


def collection(settings: object, name: str, what: str) -> None:
    """Check a collection of texts, which one text is as well."""
    value = getattr(settings, name)
    if isinstance(value, str) or not isinstance(value, Collection):
        raise bad(settings, name, f"must be a collection of {what}")


class OriginPlace(NamedTuple):
    """An origin, without a path."""

    scheme: str
    host: str
    port: int


def origin(settings: object, name: str, url: object, schemes: tuple[str, ...]) -> OriginPlace:
    """The origin at `url`, for a field that has such URLs."""
    try:
        parts = urlsplit(str(url))
        port = parts.port
    except ValueError as error:
        raise bad(settings, name, f"{url!r} is no URL: {error}") from None
    if parts.scheme not in schemes or not parts.hostname or parts.path.strip("/") or parts.query:
        shown = " or ".join(f"'{scheme}://host:port'" for scheme in schemes)
        raise bad(settings, name, f"{url!r} must be like {shown}")
    return OriginPlace(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])
