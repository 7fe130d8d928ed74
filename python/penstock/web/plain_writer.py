"""aiohttp's writer of responses, with less in the way of what needs no waiting, no compression and no chunks.

`StreamWriter.write` is a coroutine that calls others, each of which could wait. Most writes of a body of a known length,
and the ends of them, have nothing to wait for: here they are done in the call, and what is awaited then is over already.
`tests/lane/test_plain_writer.py` compares the two.
"""

from collections.abc import Generator
from types import FunctionType, coroutine
from typing import Any, Final

from aiohttp import http_writer
from aiohttp.http_writer import StreamWriter, _serialize_headers
from multidict import CIMultiDict

__all__ = ["PlainWriter", "is_aiohttps_own"]

# The methods of aiohttp's writer that this one stands for, or calls as they do.
_METHODS: Final = ("__init__", "_write", "drain", "send_headers", "write", "write_eof", "write_headers")


def is_aiohttps_own() -> bool:
    """Whether no tool has put a method of its own in the place of one of the writer's."""
    methods = (getattr(StreamWriter, name) for name in _METHODS)
    return all(type(method) is FunctionType and method.__globals__ is vars(http_writer) for method in methods)


@coroutine
def _nothing() -> Generator[Any, None, None]:
    return
    yield


_OVER: Final[Any] = _nothing()
"""What is awaited where there is nothing to wait for. It has ended, so that it has no frame to run, and any number of
tasks may await it again and again."""
next(_OVER, None)


class PlainWriter(StreamWriter):
    """A `StreamWriter` that writes heads and bodies in the call, if there is nothing to wait for."""

    # As in the original, which has its own types for what is written.
    def write(self, chunk: Any, *, drain: bool = True, LIMIT: int = 0x10000) -> Any:  # noqa: N803
        """Write a part of the body."""
        left = self.length
        if (
            left is None
            or self.chunked
            or self._headers_buf
            or self._compress is not None
            or self._on_chunk_sent is not None
            or self.on_body_write is not None
        ):
            return super().write(chunk, drain=drain, LIMIT=LIMIT)
        size = len(chunk)
        transport = self._protocol.transport
        if (
            not 0 < size <= left
            or (type(chunk) is memoryview and chunk.nbytes != size)
            or transport is None
            or transport.is_closing()
        ):
            return super().write(chunk, drain=drain, LIMIT=LIMIT)
        self.length = left - size
        self.output_size += size
        self.buffer_size = buffered = self.buffer_size + size
        transport.write(chunk)
        if drain and buffered > LIMIT:
            self.buffer_size = 0
            if self._protocol.writing_paused:
                return self.drain()
        return _OVER

    def write_eof(self, chunk: bytes = b"") -> Any:
        """End the body."""
        if chunk or self._eof or self.chunked or self._headers_buf or self._compress is not None:
            return super().write_eof(chunk)
        self._eof = True
        return _OVER

    def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> Any:
        """Make the head, which `send_headers` or the first part of the body sends."""
        if self._on_headers_sent is not None:
            return super().write_headers(status_line, headers)
        self._headers_buf = _serialize_headers(status_line, headers)
        self._headers_written = False
        return _OVER
