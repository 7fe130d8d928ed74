"""Streams of frames: the body of a response, a file, a pipe, or what a child process prints.

A stream has one consumer and three ends: done, an error with a stable code, or closed by its consumer. A body that
was cut short is never a clean end. Frames stay in the engine's memory; what a consumer holds counts against its
window, and the source is read only while the window has room.
"""

import codecs
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import cached_property
from typing import Any, Final, Protocol, Self

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from . import _native
from ._native import Frame
from ._native import FrameStream as _NativeStream
from .exceptions import WindowHeldError, make_error, status_error
from .framing import Framing, native_framing
from .stats import Timings

__all__ = ["Frame", "FrameStream", "Response", "register_pipe"]


class _Writable(Protocol):
    def write(self, data: memoryview) -> Any: ...


Pipe = Callable[["FrameStream", object], Awaitable[int] | None]
"""Sends all of a stream to a target without Python, and gives the number of bytes; None for any other target."""

_pipes: Final[list[Pipe]] = []

NO_HEAD: Final = "the response has no head yet: await it, or enter it with 'async with'"


def register_pipe(pipe: Pipe) -> None:
    """Have `FrameStream.pipe_to` try `pipe` first."""
    _pipes.append(pipe)


class FrameStream(_NativeStream):
    """An asynchronous iterator over frames.

    Use it in `async with`, or call `aclose()`: a stream that is dropped before its end warns and is closed.

    Concurrency: one task at a time; a second one that awaits raises `StreamBusyError`. Cancellation: a cancelled
    wait loses no frame, the stream can be awaited again.
    """

    async def __aenter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """End the stream from this side: the source is cancelled at once, waiting frames are freed. Idempotent."""
        self._close()

    def frames(self, framing: Framing) -> Self:
        """Cut the rest of a raw body by `framing`, including what has arrived and was not taken yet.

        Returns the stream itself, for `async for event in response.frames(framing.Events())`. The framing that the
        stream has already changes nothing.

        Raises:
            StateError: the stream has another framing, and is not `Raw` any more (ALREADY_FRAMED).
        """
        self._set_framing(native_framing(framing))
        return self

    async def batches(self, most: int = 64) -> AsyncIterator[list[Frame]]:
        """Iterate over lists of the frames that are ready: at least one, at most `most`.

        One await can bring many frames: worth it where frames are small and many.
        """
        batch = _native.next_batch(self, most)
        while True:
            try:
                yield await batch
            except StopAsyncIteration:
                return

    async def bytes(self) -> bytes:
        """Read the rest of the body into one object. The copy is counted as `python_bytes`.

        Raises:
            PenstockError: the body did not end well; nothing is returned then.
        """
        parts = [self._join(batch) async for batch in self.batches(most=256)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def pipe_to(self, target: _Writable) -> int:
        """Write every frame to `target` without a copy of its own, and return the number of bytes.

        `target` is a prepared `aiohttp.web.StreamResponse`, an `asyncio.StreamWriter`, or any object whose `write`
        takes a memoryview; where `write` returns an awaitable, or the object has a `drain` coroutine, they are
        awaited. The target is neither opened nor ended here.

        Raises:
            PenstockError: the source failed: do not end the target as if the body were whole.
        """
        for pipe in _pipes:
            piped = pipe(self, target)
            if piped is not None:
                return await piped
        written = 0
        drain = getattr(target, "drain", None)
        while True:
            try:
                async for frame in self:
                    written += len(frame)
                    result = target.write(memoryview(frame))
                    if inspect.isawaitable(result):
                        await result
                    elif drain is not None:
                        await drain()
            except WindowHeldError:
                # What the target has accepted and not sent is our whole window: wait until it has sent some.
                if drain is None:
                    raise
                await drain()
            else:
                return written

    @property
    def held(self) -> int:
        """Bytes that wait for this consumer or that it holds."""
        return self._held()[0]

    @property
    def window(self) -> int:
        """Bytes that may wait or be held before the source is no longer read."""
        return self._held()[1]


class Response(FrameStream):
    """The response to a request: status, headers and timings, and its body as a stream.

    It is returned at once; `await` it, or enter it with `async with`, to wait for the head. A task that is cancelled
    while it waits for the head cancels the request.

    Attributes:
        url: what was asked for.
        method: the method of the request.
        origin: `scheme://authority` of the origin that was asked; None where several stand in for one another.
    """

    url: str
    method: str
    origin: str | None = None
    # Not cached_property, which takes a lock on Python 3.11: that costs 2 µs.
    _line: tuple[int, str, int] | None = None
    _fields: CIMultiDictProxy[str] | None = None
    _is_entered = False

    def _status_line(self) -> tuple[int, str, int]:
        line = self._line
        if line is None:
            line = self._line = _native.entry_line(self)
            if line is None:
                raise AttributeError(NO_HEAD)
        return line

    def __await__(self) -> Generator[Any, None, Self]:
        return _native.entry(self).__await__()

    # What it returns is awaited as it is: a coroutine and a generator around it would cost every request both.
    def __aenter__(self) -> Awaitable[Self]:  # type: ignore[override]
        self._is_entered = True
        return _native.entry(self)

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        """Wait for the head if need be, and read the rest of the body as text.

        Args:
            encoding: in place of the charset of Content-Type. Without a charset, or with one that Python does not
                know, it is UTF-8.
            errors: how bytes that are not in the encoding are treated, as in `bytes.decode`.

        Raises:
            DecodeError: the body is not in the encoding (BODY_UNDECODABLE).
            PenstockError: the body did not end well.
        """
        body = await self._whole()
        encoding = encoding or self._charset() or "utf-8"
        try:
            return body.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise self._undecodable(f"is no text in {encoding}: {error}") from None

    async def json(
        self, encoding: str | None = None, loads: Callable[[str | bytes], Any] = json.loads
    ) -> Any:
        """Wait for the head if need be, and read the rest of the body as JSON. Its Content-Type is not looked at.

        Args:
            encoding: in place of the charset of Content-Type. Without a charset `loads` gets the bytes, in which
                `json.loads` finds UTF-8, UTF-16 and UTF-32 by itself.
            loads: makes the object.

        Raises:
            DecodeError: the body is no JSON (BODY_UNDECODABLE).
            PenstockError: the body did not end well.
        """
        body = await self._whole()
        encoding = encoding or self._charset()
        try:
            return loads(body if encoding is None else body.decode(encoding))
        except ValueError as error:
            kind = self.headers.get("Content-Type", "none")
            raise self._undecodable(
                f"is no JSON: {error} (status {self.status}, Content-Type {kind})"
            ) from None

    def raise_for_status(self) -> Self:
        """Raise an error if the status is 400 or above; else return the response itself.

        Inside `async with` the body can still be read then, for what the origin says about it. Elsewhere the response is
        closed.

        Raises:
            ResponseStatusError: the status is 400 or above (BAD_STATUS).
        """
        if self.status < 400:  # noqa: PLR2004 (RFC 9110, section 15: errors of the client and of the server)
            return self
        if not self._is_entered:
            self._close()
        detail = f"{self._request_line()} was answered {self.status} {self.reason}".rstrip()
        raise status_error(self.status, detail, self.origin)

    async def _whole(self) -> bytes:
        if _native.entry_line(self) is None:
            await self
        return await self.bytes()

    def _charset(self) -> str | None:
        """The charset of Content-Type, if Python knows it."""
        from email.message import Message  # noqa: PLC0415 (most bodies are read as bytes)

        kind = Message()
        kind["Content-Type"] = self.headers.get("Content-Type", "")
        charset = kind.get_content_charset()
        try:
            return None if charset is None else codecs.lookup(charset).name
        except (LookupError, ValueError):
            return None

    def _request_line(self) -> str:
        # Without the query, and without a password in the URL: what is secret does not belong into logs.
        return f"{self.method} {URL(self.url, encoded=True).raw_path}"

    def _undecodable(self, why: str) -> Exception:
        return make_error("BODY_UNDECODABLE", f"the body of {self._request_line()} {why}", self.origin)

    @property
    def status(self) -> int:
        """The status code."""
        return (self._line or self._status_line())[0]

    @property
    def reason(self) -> str:
        """The reason phrase as the origin sent it; it means nothing."""
        return self._status_line()[1]

    @property
    def version(self) -> tuple[int, int]:
        """The version of HTTP that the origin answered in."""
        return 1, self._status_line()[2]

    @cached_property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """Names and values as received, in order."""
        self._status_line()
        return self._headers()

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """Names and values as text, without regard to case. Bytes that are not UTF-8 become lone surrogates."""
        fields = self._fields
        if fields is None:
            self._status_line()
            fields = self._fields = CIMultiDictProxy(CIMultiDict(_native.field_texts(self)))
        return fields

    @property
    def trailers(self) -> CIMultiDictProxy[str]:
        """Fields that followed a chunked body; empty until it has ended."""
        return _fields(self._trailers())

    @property
    def timings(self) -> Timings:
        """How long each stage took."""
        self._status_line()
        timings = _native.timings_of(self)
        assert timings is not None  # noqa: S101 (a head has timings)
        return timings

    def __repr__(self) -> str:
        line = _native.status_line(self)
        state = "waiting" if line is None else str(line[0])
        return f"<penstock.Response {self.method} {self.url} {state}>"


def _fields(pairs: list[tuple[bytes, bytes]]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(
        CIMultiDict((name.decode("ascii"), value.decode("utf-8", "surrogateescape")) for name, value in pairs)
    )
