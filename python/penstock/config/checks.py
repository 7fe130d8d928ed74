"""What all settings are checked with: each says what is wrong, and where.

A setting is checked once, in place, when its dataclass is made, and then has the form in which the engine reads it.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Final

from penstock.exceptions import make_error

Size = int | str
"""Bytes, as a number or as text such as `"64KiB"`."""

_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)

# The pool's unit of cutting, and the largest slab.
REGION: Final = 256 * 1024
PAGE: Final = 4 * 1024

# Longer than any exchange, and short enough for every clock that counts it.
_YEAR: Final = 365 * 24 * 3600.0


def parse_size(size: Size) -> int:
    """Read a size: a number of bytes, or text such as `"64KiB"`, `"1.5 GB"`, `"4096"`.

    KiB, MiB, GiB are powers of 1024; KB, MB, GB powers of 1000. Case does not matter.

    Raises:
        ConfigurationError: it is none of these, is negative, or is not a whole number of bytes.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise _no_size(size, "it is negative")
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise _no_size(size, "write bytes, or text such as '64KiB' or '256MiB'")
    whole, _, fraction = match[1].partition(".")
    numerator, denominator = int(whole + fraction) * unit, int("1" + "0" * len(fraction))
    if numerator % denominator:
        raise _no_size(size, "it is not a whole number of bytes")
    return numerator // denominator


def _no_size(size: object, rule: str) -> Exception:
    return make_error("BAD_CONFIGURATION", f"{size!r} is no size: {rule}")


def bad(settings: object, name: str, rule: str) -> Exception:
    """The error for a setting: `rule` says what it must be."""
    setting = f"{type(settings).__name__}.{name}"
    return make_error("BAD_CONFIGURATION", f"{setting} = {getattr(settings, name)!r}: {rule}")


def put(settings: object, name: str, value: object) -> None:
    """Give a setting, of a dataclass that is frozen, another form."""
    object.__setattr__(settings, name, value)


def flag(settings: object, name: str) -> None:
    """Check that a setting is True or False."""
    if not isinstance(getattr(settings, name), bool):
        raise bad(settings, name, "must be True or False")


def texts(settings: object, name: str) -> None:
    """Check a sequence of texts, which becomes a tuple."""
    value = getattr(settings, name)
    # A string is a sequence of strings too, and its letters are not what was meant.
    if isinstance(value, str) or not all(
        isinstance(text, str) and text and text.isprintable() for text in value
    ):
        raise bad(settings, name, "must be a sequence of printable texts")
    put(settings, name, tuple(value))


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
        number = parse_size(getattr(settings, name))
    except ValueError as error:
        raise bad(settings, name, getattr(error, "detail", str(error))) from None
    if not least <= number <= most:
        raise bad(settings, name, f"must be from {least} to {most} bytes")
    put(settings, name, number)
    return number
