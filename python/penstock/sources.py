"""Streams of what is not an HTTP body: files, descriptors, child processes."""

import os
from collections.abc import Mapping, Sequence

from .engine import Engine, default_engine
from .exceptions import make_error
from .framing import Framing, Raw
from .stream import FrameStream

__all__ = ["open_fd", "open_file", "open_process"]

_RAW = Raw()


def open_file(
    path: str | os.PathLike[str],
    *,
    offset: int = 0,
    length: int | None = None,
    framing: Framing = _RAW,
    engine: Engine | None = None,
) -> FrameStream:
    """Stream a file, or `length` bytes of it from `offset` on.

    The file is opened and read on a thread that may block. The stream raises `SystemFailureError` (FILE_FAILED) if
    that fails, or if the file is shorter than `length` says.

    Args:
        path: the file.
        offset: the first byte.
        length: how many bytes; all that follow by default.
        framing: how to cut them.
        engine: whose memory and threads; those of `default_engine()` by default.
    """
    if offset < 0 or (length is not None and length < 0):
        raise make_error("BAD_CONFIGURATION", f"offset {offset} and length {length} must not be negative")
    native = (engine or default_engine()).native
    return FrameStream(native.open_file(os.fspath(path), offset, length, framing._native()))  # noqa: SLF001


def open_fd(descriptor: int, *, framing: Framing = _RAW, engine: Engine | None = None) -> FrameStream:
    """Stream what can be read from a descriptor: a pipe, a FIFO, a socket, a terminal, an open file.

    The stream takes over what the descriptor is open on: it goes on with a duplicate, which is closed at its end, and
    the number itself is closed when this returns or raises. What is read is made non-blocking, for all that share it.

    Args:
        descriptor: an open descriptor that nobody else reads.
        framing: how to cut the bytes.
        engine: whose memory and threads; those of `default_engine()` by default.

    Raises:
        OSError: the descriptor is not open, or there are no descriptors left for the duplicate.
    """
    os.fstat(descriptor)
    try:
        native = (engine or default_engine()).native
        return FrameStream(native.open_fd(descriptor, framing._native()))  # noqa: SLF001
    finally:
        os.close(descriptor)


def open_process(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    directory: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    framing: Framing = _RAW,
    engine: Engine | None = None,
) -> FrameStream:
    """Run a program and stream its standard output.

    With `framing.Fixed(size)` each frame is read from the pipe straight into one piece of memory. The child has
    no standard input. If it ends with another status than 0, the stream ends with `SystemFailureError`
    (PROCESS_FAILED), which quotes its last words on standard error. Closing the stream kills it.

    Args:
        arguments: the program and its arguments; no shell is involved.
        directory: its working directory.
        environment: its whole environment; this process's by default.
        framing: how to cut the bytes.
        engine: whose memory and threads; those of `default_engine()` by default.
    """
    if not arguments:
        raise make_error("BAD_CONFIGURATION", "arguments is empty; it must begin with a program")
    native = (engine or default_engine()).native
    words = [os.fspath(word) for word in arguments]
    where = None if directory is None else os.fspath(directory)
    variables = None if environment is None else list(environment.items())
    return FrameStream(native.open_process(words, where, variables, framing._native()))  # noqa: SLF001
