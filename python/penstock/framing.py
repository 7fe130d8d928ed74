"""How a body is cut into frames.

Pass one of these as `framing=` to a request or a source, or to `stream.frames(...)`. The same bytes give the same
frames however the network cut them. A frame is contiguous: one that arrived in pieces is joined once, and
`PoolStats.bytes_copied["frame_join"]` counts it.
"""

from dataclasses import dataclass
from typing import Literal

from . import _native
from ._field_docs import document
from .config import parse_size
from .exceptions import ConfigurationError, make_error

__all__ = ["Events", "Fixed", "Framing", "LengthPrefixed", "Lines", "Raw"]


@dataclass(frozen=True, slots=True)
class Raw:
    """As it arrives: a frame is what one read gave. Never copied."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Frames of `size` bytes, such as raw video pictures.

    A body that ends within a frame raises `FrameError` (FRAME_TRUNCATED).
    """

    size: int
    """Bytes of each frame."""

    def __post_init__(self) -> None:
        _positive("size", self.size)


@dataclass(frozen=True, slots=True)
class LengthPrefixed:
    """A number of `width` bytes, then as many bytes as it says. Frames come without the number.

    Raises `FrameError` when a number exceeds `max_frame` (FRAME_TOO_LARGE) and when the body ends within a frame
    (FRAME_TRUNCATED).
    """

    width: Literal[1, 2, 4, 8] = 4
    """Bytes of the number: 4, as gRPC and most others have it."""
    byteorder: Literal["big", "little"] = "big"
    """The order of these bytes; big is the order of networks."""
    max_frame: int | str = "16MiB"
    """Bytes of the longest frame: a wrong length must not take the pool."""

    def __post_init__(self) -> None:
        if self.width not in (1, 2, 4, 8) or isinstance(self.width, bool):
            raise make_error("BAD_CONFIGURATION", f"width is {self.width!r}; it can be 1, 2, 4 or 8 bytes")
        if self.byteorder not in ("big", "little"):
            raise make_error(
                "BAD_CONFIGURATION", f"byteorder is {self.byteorder!r}; it can be 'big' or 'little'"
            )
        _size("max_frame", self.max_frame)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that end in LF or CRLF. Frames come without the end; the last line needs none.

    A line above `max_frame` raises `FrameError` (FRAME_TOO_LARGE).
    """

    max_frame: int | str = "1MiB"
    """Bytes of the longest line: far above what people and loggers write."""

    def __post_init__(self) -> None:
        _size("max_frame", self.max_frame)


@dataclass(frozen=True, slots=True)
class Events:
    """Server-sent events, as the HTML standard has them (section 9.2).

    A frame is the block of lines of one event, with its blank line and its bytes unchanged; its fields are
    `frame.event`, `frame.id`, `frame.data` and `frame.retry`. With `blocks=False` only blocks that dispatch an event
    become frames, and what follows the last blank line is dropped, as the standard says. With `blocks=True` every
    byte of the body becomes part of a frame: what a relay wants. A blank line, or a line with a comment, that comes
    before the first field of a block is then a frame of its own, so that a heartbeat passes when it arrives.

    A block above `max_frame` raises `FrameError` (FRAME_TOO_LARGE).
    """

    max_frame: int | str = "1MiB"
    """Bytes of the longest block, with its line ends. An event of a model's answer has some hundred."""
    blocks: bool = False
    """Whether every byte of the body becomes part of a frame, for relays."""

    def __post_init__(self) -> None:
        _size("max_frame", self.max_frame)
        if not isinstance(self.blocks, bool):
            raise make_error("BAD_CONFIGURATION", f"blocks is {self.blocks!r}; it must be True or False")


Framing = Raw | Fixed | LengthPrefixed | Lines | Events


def native_framing(framing: Framing) -> _native.Framing:
    """The engine's form of `framing`.

    Raises:
        ConfigurationError: it is not a framing.
    """
    given: object = framing
    if not isinstance(given, Framing):
        rule = "one of penstock.framing: write framing=penstock.framing.Lines(), for instance"
        raise make_error("BAD_CONFIGURATION", f"framing is {given!r}; it must be {rule}")
    match framing:
        case Raw():
            return _native.Framing.raw()
        case Fixed(size):
            return _native.Framing.fixed(size)
        case LengthPrefixed(width, byteorder, max_frame):
            return _native.Framing.length_prefixed(width, byteorder == "little", parse_size(max_frame))
        case Lines(max_frame):
            return _native.Framing.lines(parse_size(max_frame))
        case Events(max_frame, blocks):
            return _native.Framing.events(parse_size(max_frame), blocks)


def _positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise make_error(
            "BAD_CONFIGURATION", f"{name} is {value!r}; it must be a whole number of bytes from 1 on"
        )


def _size(name: str, value: int | str) -> None:
    try:
        _positive(name, parse_size(value))
    except ConfigurationError as error:
        raise make_error("BAD_CONFIGURATION", f"{name}: {error.detail}") from None


document(globals()[name] for name in __all__)
