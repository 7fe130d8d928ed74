"""The two ways between the parent and a worker: `Link`, which is awaited, and `Calls`, which blocks.

Both carry calls of named functions at the other end. What a function returns is the answer; what it raises is raised
by the call. The parent has a `Link` at the other end of either, and never waits for a worker without awaiting, so
that a worker's blocking call always gets its answer.
"""

import asyncio
import inspect
import itertools
import logging
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Self

from penstock.exceptions import PenstockError

from . import messages

__all__ = ["Calls", "Link"]

_log: Final = logging.getLogger("penstock.workers")

_GONE: Final = "the other end is gone"
_CLOSED: Final = "the link is closed"
# Characters of what was raised, beyond which it is not useful (arbitrary).
_TEXT: Final = 4096


class Link:
    """One end of a socket over which both ends call each other. Of the loop that runs when it is started.

    Args:
        sock: a connected stream socket, which is the link's from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._closed = asyncio.Event()
        self._reason = _CLOSED
        self.broken = False
        """Whether the other end has sent what is no message."""

    def beside(self, sock: socket.socket) -> "Link":
        """A link over another socket, whose calls are answered by the same functions."""
        link = Link(sock)
        link._handlers = self._handlers
        return link

    async def start(self) -> None:
        """Answer calls, and let calls be made, from now on."""
        reader, self._writer = await asyncio.open_connection(sock=self._sock)
        self._reading = asyncio.create_task(self._read(reader))

    async def aclose(self) -> None:
        """Close it. Calls under way raise ConnectionError, what answers the other end's is cancelled. Idempotent."""
        if self._writer is None:
            self._sock.close()
        self._end(_CLOSED)
        # A task that was cancelled keeps the frames that it ran in, and what those have.
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def handle(self, name: str, function: Callable[..., Any]) -> None:
        """Answer calls of `name` by what `function`, or the coroutine function, returns.

        Functions run one after the other in the order of the calls, coroutines beside one another. A coroutine is
        cancelled when its caller is, or is gone.
        """
        self._handlers[name] = function

    async def call(self, name: str, *arguments: object) -> Any:
        """Call `name` at the other end, and return its answer. Cancelling it cancels what runs there.

        Raises:
            PenstockError: what was raised there, with its code, text and origin.
            RuntimeError: something else was raised there, which the text shows, or nothing is called `name`.
            ConnectionError: the other end is gone, before the call or during it.
            TypeError: an argument may not go over a link (`messages.allow`).
            ValueError: the arguments are too long.
        """
        number = next(self._numbers)
        self._send(("call", number, name, arguments))
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            return await answer
        except asyncio.CancelledError:
            with suppress(ConnectionError):
                self._send(("cancel", number))
            raise
        finally:
            del self._asked[number]

    def tell(self, name: str, *arguments: object) -> None:
        """Call `name` at the other end, and do not wait for it. What it raises is logged there.

        Raises:
            ConnectionError: the other end is gone. If it goes later there is no error.
            TypeError: an argument may not go over a link.
            ValueError: the arguments are too long.
        """
        self._send(("call", None, name, arguments))

    async def wait_closed(self) -> None:
        """Wait until the other end is gone, or the link is closed."""
        await self._closed.wait()

    def _send(self, message: tuple[object, ...]) -> None:
        data = messages.dump(message)
        if self._writer is None or self._closed.is_set():
            raise ConnectionError(self._reason)
        self._writer.write(data)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        reason = _GONE
        try:
            while True:
                size = messages.length_of(await reader.readexactly(messages.LENGTH))
                self._take(messages.load(await reader.readexactly(size)))
        except messages.UnreadableError as error:
            reason = f"the other end has sent what is no message: {error}"
            self.broken = True
            _log.error("%s", reason)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._end(reason)

    def _take(self, message: object) -> None:
        match message:
            case ("call", (int() | None) as number, str() as name, tuple() as arguments):
                self._called(number, name, arguments)
            case ("cancel", int() as number):
                if number in self._serving:
                    self._serving[number].cancel()
            case ("answer" | "error" | "fault" as kind, int() as number, value):
                # It may have been cancelled meanwhile.
                answer = self._asked.get(number)
                if answer is not None and not answer.done():
                    _settle(answer, kind, value)
            case _:
                raise messages.UnreadableError("it has another form")

    def _called(self, number: int | None, name: str, arguments: tuple[object, ...]) -> None:
        try:
            function = self._handlers.get(name)
            if function is None:
                raise LookupError(f"nothing is called {name!r}")  # noqa: TRY301 (it is answered like all others)
            found = function(*arguments)
        except Exception as error:  # noqa: BLE001 (whatever it is, the caller gets it)
            self._failed(number, name, error)
            return
        if not inspect.iscoroutine(found):
            self._answer(number, name, found)
            return
        task = asyncio.create_task(self._serve(number, name, found))
        # Calls without an answer have numbers of their own, so that they are kept as well.
        key = -next(self._numbers) if number is None else number
        self._serving[key] = task
        task.add_done_callback(lambda _: self._serving.pop(key, None))

    async def _serve(self, number: int | None, name: str, work: Coroutine[Any, Any, Any]) -> None:
        try:
            found = await work
        except asyncio.CancelledError as error:
            self._failed(number, name, error)
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the caller gets it)
            self._failed(number, name, error)
        else:
            self._answer(number, name, found)

    def _answer(self, number: int | None, name: str, found: object) -> None:
        if number is None:
            return
        try:
            self._send(("answer", number, found))
        except ConnectionError:
            pass
        except (TypeError, ValueError) as error:
            self._failed(number, name, error)

    def _failed(self, number: int | None, name: str, error: BaseException) -> None:
        if number is None:
            _log.error("%s failed", name, exc_info=error)
            return
        known = isinstance(error, PenstockError) and error.name in messages.error_names()
        with suppress(ConnectionError):
            self._send(("error", number, error) if known else ("fault", number, repr(error)[:_TEXT]))

    def _end(self, reason: str) -> None:
        if self._closed.is_set():
            return
        self._reason = reason
        self._closed.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError(reason))
        for task in self._serving.values():
            task.cancel()
        if self._writer is not None:
            self._writer.close()


def _settle(answer: "asyncio.Future[Any]", kind: str, value: Any) -> None:
    try:
        answer.set_result(_result(kind, value))
    except Exception as error:  # noqa: BLE001 (it is the call's)
        answer.set_exception(error)


def _result(kind: str, value: Any) -> Any:
    """What a call returns that is answered by `value`, or raises."""
    if kind == "answer":
        return value
    if kind == "error" and isinstance(value, PenstockError):
        raise value
    raise RuntimeError(value)


class Calls:
    """A worker's blocking calls of the parent, from any thread, one after the other.

    Args:
        sock: a connected stream socket, whose other end the parent has a `Link` on. It is its own from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def call(self, name: str, *arguments: object) -> Any:
        """Call `name` at the other end, and wait for its answer without letting the loop run.

        Raises:
            PenstockError, RuntimeError, ConnectionError, TypeError, ValueError: as `Link.call` does.
        """
        with self._lock:
            if self._sock.fileno() < 0:
                raise ConnectionError(_CLOSED)
            number = next(self._numbers)
            self._sock.sendall(messages.dump(("call", number, name, arguments)))
            try:
                answer = self._answer(number)
            except messages.UnreadableError as error:
                self._sock.close()
                raise ConnectionError(f"the other end has sent what is no message: {error}") from error
        return _result(*answer)

    def close(self) -> None:
        """Close it. Idempotent."""
        with self._lock:
            self._sock.close()

    def _answer(self, number: int) -> tuple[str, Any]:
        while True:
            match messages.load(self._receive(messages.length_of(self._receive(messages.LENGTH)))):
                case ("answer" | "error" | "fault" as kind, int() as answered, value):
                    # A call that was interrupted has left its answer behind.
                    if answered == number:
                        return kind, value
                case _:
                    raise messages.UnreadableError("it has another form")

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise ConnectionError(_GONE)
            data += piece
        return bytes(data)
