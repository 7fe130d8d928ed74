"""Streams of what is not an HTTP body: files, descriptors, child processes."""

import os
import shlex
from collections.abc import Mapping, Sequence

from . import _arguments, _native
from .engine import Engine, default_engine
from .exceptions import make_error
from .framing import Framing, Raw, native_framing
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
    _arguments.path("path", path, optional=False)
    _arguments.whole("offset", offset, optional=False)
    _arguments.whole("length", length)
    cut, native = native_framing(framing), _engine(engine)
    return FrameStream(native.open_file(os.fspath(path), offset, length, cut))


def open_fd(descriptor: int, *, framing: Framing = _RAW, engine: Engine | None = None) -> FrameStream:
    """Stream what can be read from a descriptor: a pipe, a FIFO, a socket, a terminal, an open file.

    The stream takes over what the descriptor is open on: it goes on with a duplicate, which is closed at its end, and
    the number itself is closed when this returns or raises. What is read is made non-blocking, for all that share it.

    Args:
        descriptor: an open descriptor that no other code reads.
        framing: how to cut the bytes.
        engine: whose memory and threads; those of `default_engine()` by default.

    Raises:
        OSError: the descriptor is not open, or there are no descriptors left for the duplicate.
    """
    if not isinstance(descriptor, int) or isinstance(descriptor, bool):
        raise _arguments.bad("descriptor", descriptor, "a number: write file.fileno() for that of a file")
    os.fstat(descriptor)
    try:
        cut, native = native_framing(framing), _engine(engine)
        return FrameStream(native.open_fd(descriptor, cut))
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
    rule = "a list of the program and its arguments, because no shell takes it apart"
    if isinstance(arguments, str):
        rule = f"{rule}: write {shlex.split(arguments)}"
    arguments = _arguments.sequence("arguments", arguments, rule)
    if not arguments:
        raise make_error("BAD_CONFIGURATION", "arguments is empty; it must begin with a program")
    for word in arguments:
        if not isinstance(word, str | os.PathLike):
            raise _arguments.bad("one of arguments", word, f"a text: write {str(word)!r}")
    _arguments.path("directory", directory)
    if environment is not None and not (
        isinstance(environment, Mapping)
        and all(isinstance(word, str) for pair in environment.items() for word in pair)
    ):
        rule = "a mapping of texts to texts: write {**os.environ, 'NAME': 'value'} to add one"
        raise _arguments.bad("environment", environment, rule)
    cut, native = native_framing(framing), _engine(engine)
    words = [os.fspath(word) for word in arguments]
    where = None if directory is None else os.fspath(directory)
    variables = None if environment is None else list(environment.items())
    return FrameStream(native.open_process(words, where, variables, cut))


def _engine(engine: Engine | None) -> _native.Engine:
    _arguments.instance("engine", engine, Engine, "a penstock.Engine, or None for the shared one")
    return (engine or default_engine()).native
