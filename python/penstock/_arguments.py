"""What arguments are checked with: a wrong type is an error that says what to write, where the call is made.

Each check takes the name of the argument as the caller wrote it, and its value; None passes, unless it says otherwise.
What settings are checked with is in `config.checks`.
"""

import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from . import config
from .exceptions import make_error

__all__ = [
    "ACCESS",
    "CACHE",
    "CACHING",
    "CHECK",
    "EDGE",
    "EVENTS",
    "FLOW",
    "FORWARDING",
    "HEALTH",
    "HISTORY",
    "INSPECTION",
    "LIMITS",
    "ORIGIN_HTTP2",
    "ORIGIN_TLS",
    "OVERRIDES",
    "POOL",
    "READS",
    "RETRIES",
    "ROUTE_LIMITS",
    "STATUS",
    "SUBSCRIPTIONS",
    "TIMEOUTS",
    "Pairs",
    "bad",
    "call",
    "flag",
    "instance",
    "number",
    "pairs",
    "path",
    "sequence",
    "server_tls",
    "text",
    "whole",
]

_LONGEST: Final = 1e15

Pairs = tuple[tuple[Any, Any], ...]


def bad(name: str, value: object, rule: str, code: str = "BAD_CONFIGURATION") -> Exception:
    """The error for an argument: `rule` says what it must be, and what to write."""
    return make_error(code, f"{name} is {reprlib.repr(value)}; it must be {rule}")


def server_tls(name: str, value: object) -> None:
    """Check that it is the TLS of a server, or None.

    Raises:
        ConfigurationError: it is something else.
    """
    rule = "a penstock.web.TLS or None: write ssl_context=penstock.web.TLS('cert.pem', 'key.pem')"
    if any(cls.__name__ == "SSLContext" for cls in type(value).__mro__):
        rule += (
            "; an ssl.SSLContext does not tell its files. What load_cert_chain took is `cert` and `key`, "
            "load_verify_locations `client_ca`, verify_mode `clients`, minimum_version `min_version`"
        )
    instance(name, value, config.TLS, rule)


def instance(
    name: str, value: object, kinds: type | tuple[type, ...], rule: str, code: str = "BAD_CONFIGURATION"
) -> None:
    """Check that it is one of these."""
    if value is not None and not isinstance(value, kinds):
        raise bad(name, value, rule, code)


class _Settings(NamedTuple):
    """An argument that is settings of one class."""

    kind: type
    short: str = ""
    """The setting that a plain value most likely is meant for."""

    def __call__(self, name: str, value: object) -> None:
        if value is None or isinstance(value, self.kind):
            return
        plain = isinstance(value, int | float | str) and not isinstance(value, bool)
        inside = f"{self.short}={value!r}" if self.short and plain else "..." if plain or self.short else ""
        if isinstance(value, bool):
            inside = ""
        kind = f"penstock.config.{self.kind.__name__}"
        raise bad(name, value, f"a {kind} or None: write {name}={kind}({inside})")


POOL: Final = _Settings(config.Pool, "memory")
FLOW: Final = _Settings(config.Flow, "ceiling")
READS: Final = _Settings(config.Reads, "most")
TIMEOUTS: Final = _Settings(config.Timeouts, "total")
LIMITS: Final = _Settings(config.OriginLimits, "connections")
ORIGIN_HTTP2: Final = _Settings(config.OriginHttp2, "origins")
ORIGIN_TLS: Final = _Settings(config.OriginTls, "roots")
CACHE: Final = _Settings(config.Cache, "memory")
CACHING: Final = _Settings(config.Caching)
TRACING: Final = _Settings(config.Tracing, "endpoint")
OVERRIDES: Final = _Settings(config.Overrides)
FORWARDING: Final = _Settings(config.Forwarding)
EVENTS: Final = _Settings(config.EventRelay)
INSPECTION: Final = _Settings(config.Inspection)
SUBSCRIPTIONS: Final = _Settings(config.Subscriptions)
ACCESS: Final = _Settings(config.Access)
ROUTE_LIMITS: Final = _Settings(config.RouteLimits, "concurrency")
EDGE: Final = _Settings(config.Edge)
STATUS: Final = _Settings(config.Status)
HISTORY: Final = _Settings(config.History)
HEALTH: Final = _Settings(config.Health)
CHECK: Final = _Settings(config.Check, "path")
RETRIES: Final = _Settings(config.Retries, "tries")


def text(name: str, value: object, such_as: str = "", *, optional: bool = True) -> None:
    """Check a text."""
    if not (isinstance(value, str) or (optional and value is None)):
        example = f" such as {such_as}" if such_as else ""
        raise bad(name, value, f"a text{example}{' or None' if optional else ''}")


def path(name: str, value: object, *, optional: bool = True) -> None:
    """Check the path of a file."""
    if not (isinstance(value, str | os.PathLike) or (optional and value is None)):
        raise bad(name, value, f"a path: a text or a pathlib.Path{' or None' if optional else ''}")


def flag(name: str, value: object) -> None:
    """Check that it is True or False."""
    if not isinstance(value, bool):
        raise bad(name, value, "True or False")


def whole(name: str, value: object, least: int = 0, *, optional: bool = True) -> None:
    """Check a whole number."""
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not (is_whole or (optional and value is None)):
        raise bad(name, value, f"a whole number from {least} on{' or None' if optional else ''}")


def number(name: str, value: Any, what: str) -> None:
    """Check a number that is finite."""
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # No time is longer, and neither is one infinite, or no number at all.
    if not is_number or not abs(value) <= _LONGEST:
        raise bad(name, value, f"{what}, or None")


def call(name: str, value: object, what: str) -> None:
    """Check something to call."""
    if value is not None and not callable(value):
        raise bad(name, value, f"{what}, or None")


def sequence(name: str, value: object, what: str) -> tuple[Any, ...]:
    """Several things: a text is a sequence of letters too, which is not what was meant."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise bad(name, value, what)
    return tuple(value)


def pairs(
    name: str,
    value: Mapping[Any, Any] | Iterable[Any] | None,
    *,
    drops: bool = False,
    raw: bool = False,
    code: str = "BAD_CONFIGURATION",
) -> Pairs:
    """Header fields: of a mapping or of pairs. `drops`: a value may be None; `raw`: names and values may be bytes."""
    texts = str | bytes if raw else str
    example = f"{name}={{'X-Name': 'value'}}"
    rule = f"a mapping of names and values, or pairs of them: write {example}"
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise bad(name, value, rule, code)
    found = tuple(value.items() if isinstance(value, Mapping) else value)
    for pair in found:
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 (a pair)
            raise bad(name, value, rule, code)
        field, said = pair
        if not isinstance(field, texts):
            raise bad(f"a name in {name}", field, f"a text: write {example}", code)
        if not (isinstance(said, texts) or (drops and said is None)):
            must = "a text, or None to send none" if drops else f"a text: write {str(said)!r}"
            raise bad(f"{name}[{field!r}]", said, must, code)
    return tuple((field, said) for field, said in found)


Check = Callable[[str, object], None]
