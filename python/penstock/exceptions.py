"""Everything that penstock raises, with the stable code of each failure.

The table of codes is kept in Rust and read with `error_codes()`; here are the classes that its rows are
raised as. Each class also derives from the builtin of its kind, so that `except TimeoutError` catches what it
says::

    PenstockError
    ├── TimeLimitError (TimeoutError)             a limit on time was exceeded
    ├── ConnectionFailedError (ConnectionError)   a connection could not be made, or broke
    │   └── BodyTruncatedError                    0x10D: the origin closed before the end of the body
    ├── ProtocolError (ValueError)                a peer broke the rules of HTTP
    ├── FrameError (ValueError)                   the bytes do not make the frames asked for
    │   └── DecodeError                           0x304: the body is not the text or JSON it was read as
    ├── ResponseStatusError                       0x220: `raise_for_status` met a status of 400 or above
    ├── PoolError (MemoryError)                   no memory within the budget
    ├── StateError (RuntimeError)                 the call does not fit the state of the object
    │   ├── StreamBusyError                       0x502: another task is already awaiting the stream
    │   └── WindowHeldError                       0x402: the whole window is held, and more awaited
    ├── ArgumentError (ValueError)                an argument is wrong
    │   ├── ConfigurationError                    0x507: a setting is out of range, or contradicts
    │   └── RequestError                          0x503: URL, method or headers make no request
    └── SystemFailureError (OSError)              a file, a pipe, a process or a mapping failed

Match on `code` or `name` where the class is too coarse: a code keeps its meaning for ever, a text does not.
"""

from functools import cache
from typing import Any, Final, NamedTuple

__all__ = [
    "ArgumentError",
    "BodyTruncatedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DecodeError",
    "ErrorCode",
    "FrameError",
    "PenstockError",
    "PoolError",
    "ProtocolError",
    "RequestError",
    "ResponseStatusError",
    "StateError",
    "StreamBusyError",
    "SystemFailureError",
    "TimeLimitError",
    "WindowHeldError",
    "error_codes",
]


class PenstockError(Exception):
    """The base of everything that penstock raises on purpose.

    Attributes:
        code: the stable number, such as 0x102.
        name: the stable name, such as `IO_TIMEOUT`.
        source: whose behaviour it describes: `origin`, `client`, `pool` or `local`.
        retryable: whether the same request may succeed when it is sent again unchanged.
        detail: one sentence that says what happened; its wording is not stable.
        origin: `scheme://authority` of the origin concerned, or None.
    """

    code: int
    name: str
    source: str
    retryable: bool
    detail: str
    origin: str | None

    def __init__(
        self, detail: str, *, code: int, name: str, source: str, retryable: bool, origin: str | None = None
    ) -> None:
        at = "" if origin is None else f" (origin {origin})"
        super().__init__(f"0x{code:03X} {name}: {detail}{at}")
        self.code = code
        self.name = name
        self.source = source
        self.retryable = retryable
        self.detail = detail
        self.origin = origin

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which is the one text: errors cross process boundaries in
        # logs.
        return _unpickle, (type(self), self.__dict__.copy())


class TimeLimitError(PenstockError, TimeoutError):
    """A limit on time was exceeded; the name says which (see `penstock.config.Timeouts`)."""


class ConnectionFailedError(PenstockError, ConnectionError):
    """A connection could not be made, or broke."""


class BodyTruncatedError(ConnectionFailedError):
    """The origin closed the connection before the end of the body: what was received is not the whole."""


class ProtocolError(PenstockError, ValueError):
    """A peer broke the rules of HTTP; the connection has been closed."""


class FrameError(PenstockError, ValueError):
    """The bytes of the body do not make the frames that were asked for."""


class DecodeError(FrameError):
    """The body is not the text or the JSON that it was read as."""


class ResponseStatusError(PenstockError):
    """The origin answered with a status of 400 or above, and `Response.raise_for_status` was called.

    It is `retryable` for 408, 425, 429, 500, 502, 503 and 504.

    Attributes:
        status: the status.
    """

    status: int = 0


class PoolError(PenstockError, MemoryError):
    """No memory within the budget of the pool."""


class StateError(PenstockError, RuntimeError):
    """The call does not fit the state of the object."""


class StreamBusyError(StateError):
    """Another task is already awaiting this stream: a stream has one consumer."""


class WindowHeldError(StateError):
    """The consumer holds its whole window and awaits more: release frames, then go on."""


class ArgumentError(PenstockError, ValueError):
    """An argument is wrong; nothing was started."""


class ConfigurationError(ArgumentError):
    """A setting is out of range or contradicts another.

    Attributes:
        setting: the field of `penstock.config`, such as `Pool.memory`; None if it is no single one.
        rule: its value, and what it must be; None without a `setting`.
    """

    setting: str | None = None
    rule: str | None = None


class RequestError(ArgumentError):
    """The URL, method or headers cannot make a request."""


class SystemFailureError(PenstockError, OSError):
    """A file, a pipe, a child process or a mapping failed."""


class ErrorCode(NamedTuple):
    """One row of the table of codes.

    Attributes:
        number: the stable number, such as 0x102.
        name: the stable name, such as `IO_TIMEOUT`.
        kind: the family, which decides the class: `timeout`, `connection`, `protocol`, `frame`, `status`, `memory`,
            `state`, `value` or `system`.
        source: whose behaviour it describes: `origin`, `client`, `pool` or `local`.
        retryable: whether the same request may succeed when it is sent again unchanged.
        meaning: one sentence.
        status: the status of HTTP that answers a request which failed with it before its response began.
    """

    number: int
    name: str
    kind: str
    source: str
    retryable: bool
    meaning: str
    status: int


# What RFC 9110, section 15, RFC 6585, section 4, and RFC 8470, section 5.2, have a client try again, or what passes.
_PASSING: Final = frozenset((408, 425, 429, 500, 502, 503, 504))

_BY_KIND: Final[dict[str, type[PenstockError]]] = {
    "timeout": TimeLimitError,
    "connection": ConnectionFailedError,
    "protocol": ProtocolError,
    "frame": FrameError,
    "status": ResponseStatusError,
    "memory": PoolError,
    "state": StateError,
    "value": ArgumentError,
    "system": SystemFailureError,
}

_BY_NAME: Final[dict[str, type[PenstockError]]] = {
    "BODY_TRUNCATED": BodyTruncatedError,
    "BUSY": StreamBusyError,
    "BODY_UNDECODABLE": DecodeError,
    "WINDOW_HELD": WindowHeldError,
    "BAD_CONFIGURATION": ConfigurationError,
    "BAD_REQUEST": RequestError,
}


def from_native(
    code: int, name: str, kind: str, source: str, retryable: bool, detail: str, origin: str | None
) -> PenstockError:
    """Make the exception for an error of the engine. Only the native module calls this."""
    cls = _BY_NAME.get(name) or _BY_KIND[kind]
    return cls(detail, code=code, name=name, source=source, retryable=retryable, origin=origin)


def make_error(name: str, detail: str, origin: str | None = None) -> PenstockError:
    """Make the exception for row `name` of the table, for what is found wrong on the Python side."""
    row = _rows()[name]
    return from_native(row.number, row.name, row.kind, row.source, row.retryable, detail, origin)


def status_error(status: int, detail: str, origin: str | None) -> ResponseStatusError:
    """Make the exception for an answer with `status`."""
    error = make_error("BAD_STATUS", detail, origin)
    assert isinstance(error, ResponseStatusError)  # noqa: S101 (says it to mypy)
    error.status = status
    error.retryable = status in _PASSING
    return error


def error_codes() -> tuple[ErrorCode, ...]:
    """Every code that penstock can raise, in the order of their numbers."""
    return tuple(_rows().values())


def code_of(name: str) -> ErrorCode:
    """The row of one of them."""
    return _rows()[name]


@cache
def _rows() -> dict[str, ErrorCode]:
    # Imported on first use: the native module looks `from_native` up here; neither needs the other to load.
    from . import _native  # noqa: PLC0415

    return {row.name: row for row in _native.error_table()}


def _unpickle(cls: type[PenstockError], state: dict[str, Any]) -> PenstockError:
    parts = ("detail", "code", "name", "source", "retryable", "origin")
    error = cls(**{part: state[part] for part in parts})
    error.__dict__.update(state)
    return error
