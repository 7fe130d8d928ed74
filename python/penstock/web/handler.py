"""aiohttp's protocol, as the engine's transport needs it: it says when its response has ended, and takes parsed heads.

The transport gives a protocol one request after the other, of whatever clients, as a reverse proxy does with a
connection to its upstream. So it must know when the one before is over, which aiohttp does not tell. The last thing
that `finish_response` does is to have the request logged, and there it is told: around `finish_response` itself it
would cost every request a coroutine.

A request without a body is not given to aiohttp's parser, if this is an aiohttp whose `start` is known
(`begin_request`): a parse, a future and a second task for each request are a seventh of what a small request costs.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Final

from aiohttp import __version__, web, web_protocol, web_response
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from penstock.engine import Engine, default_engine

from .plain_response import send_plain
from .plain_writer import PlainWriter, is_aiohttps_own
from .request_head import MOST_BYTES, MOST_FIELDS, plain_request

__all__ = ["engine_for", "handler_factory"]


class _Over:
    """What stands in the place of a protocol when a response has ended."""

    __slots__ = ()
    transport: Final = None


_OVER: Final = _Over()
# The attribute of a protocol's class that has the engine of its clients.
_ENGINE: Final = "_penstock_engine"
# The release of aiohttp whose `start` does for a request what `_respond` does. Patch releases differ too: the writers of
# 3.14.0 have other attributes.
_KNOWN_RELEASE: Final = "3.14.5"
# The methods of aiohttp's protocol that `_respond` stands for, or calls as `start` does.
_OF_PROTOCOL: Final = (
    "_handle_request",
    "_process_keepalive",
    "close",
    "data_received",
    "finish_response",
    "force_close",
    "start",
)
# The methods of aiohttp's responses that `send_plain` stands for.
_OF_RESPONSE: Final = ("_prepare_headers", "_start", "_write_headers", "prepare", "write_eof")
_OF_STREAM: Final = (*_OF_RESPONSE, "_start_compression")


def _is_known(handler: web.RequestHandler) -> bool:
    """Whether `begin_request` and `finish_response` do for `handler` what aiohttp does.

    Not if a subclass or a tool has put a method of its own in the place of one of aiohttp's, nor with limits on heads
    that `plain_request` does not apply.
    """
    if __version__ != _KNOWN_RELEASE:
        return False
    for cls, names, module in (
        (type(handler), _OF_PROTOCOL, web_protocol),
        (web.Response, _OF_RESPONSE, web_response),
        (web.StreamResponse, _OF_STREAM, web_response),
    ):
        for name in names:
            method = getattr(cls, name)
            if type(method) is not FunctionType or method.__globals__ is not vars(module):
                return False
    limits = min(handler.max_line_size, handler.max_field_size)
    return is_aiohttps_own() and limits >= MOST_BYTES and handler.max_headers >= MOST_FIELDS


def _begin_request(self: Any, head: bytes) -> None:
    """Begin with a request that has no body, whose head the engine has parsed and written anew."""
    waiter = self._waiter
    # Without it, or if it is done, `start` has not come back from the request before, and takes this one after it.
    idle = not (waiter is None or waiter.done() or self._close or self._force_close)
    message = plain_request(head) if idle else None
    if message is None:
        self.data_received(head)
        return
    # The timer of idle connections would take this one for idle until the task has begun.
    self._keepalive = False
    self._request_count += 1
    self._task_handler = self._loop.create_task(_respond(self, message, self._task_handler))


async def _respond(self: Any, message: RawRequestMessage, started: asyncio.Task[None] | None) -> None:
    """Answer a request as `start` does, which waits meanwhile: its own task, `started`, is not woken for it."""
    loop, manager = self._loop, self._manager
    waiter, self._waiter = self._waiter, None
    if manager is None:
        waiter.cancel()
        return
    manager.requests_count += 1
    begun = loop.time() if self._logging_enabled else None
    writer, task = PlainWriter(self, loop), self._task_handler
    request = self._request_factory(message, EMPTY_PAYLOAD, self, writer, task)
    try:
        response, is_reset = await self._handle_request(request, begun, self._request_handler)
        self._keepalive = not is_reset and bool(response.keep_alive)
    except ConnectionError:
        self.log_debug("Ignored premature client disconnection")
    except Exception as error:  # noqa: BLE001 (as `start`)
        self.log_exception("Unhandled exception", exc_info=error)
        self.force_close()
    except BaseException:
        self.force_close()
        raise
    finally:
        request._task = None
        if self._task_handler is task:
            self._task_handler = started
        _rest(self, waiter)


async def _finished(response: Any) -> tuple[Any, bool]:
    return response, False


def _rest(self: Any, waiter: asyncio.Future[None]) -> None:
    """Wait for the next request, or close."""
    if self._keepalive and not self._close and not self._force_close:
        self._waiter = waiter
        self._next_keepalive_close_time = until = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(until, self._process_keepalive)
        return
    waiter.cancel()
    if not self._force_close:
        self._task_handler = None
        if self.transport is not None:
            self.transport.close()


def _saying(cls: type[web.RequestHandler], engine: Engine, *, is_known: bool) -> type[web.RequestHandler]:
    """`cls` with a `log_access` that tells the transport, and that takes what comes while it drains.

    It has no more state: a handler is changed to it.
    """
    members = {
        "__slots__": (),
        "__module__": __name__,
        "close": _close_of(cls),
        "log_access": _log_access_of(cls),
        "data_received": _data_received_of(cls),
        _ENGINE: engine,
    }
    if is_known:
        members |= {"begin_request": _begin_request, "finish_response": _finish_response_of(cls)}
    saying: type[web.RequestHandler] = type(cls.__name__, (cls,), members)
    return saying


def _close_of(cls: type[web.RequestHandler]) -> Callable[[Any], None]:
    leave: Any = cls.close

    def close(self: Any) -> None:
        """Close, as aiohttp does, but not at the server's end: then the lane ends the protocol, and knows when.

        The lane may have given it a request that it has not begun with, or only half of one.
        """
        if self.transport is None or not self.transport.retires():
            leave(self)

    return close


def _log_access_of(cls: type[web.RequestHandler]) -> Callable[..., None]:
    log: Any = cls.log_access

    def log_access(self: Any, request: web.BaseRequest, response: Any, time: float | None) -> None:
        """Log the request, as aiohttp does, and tell the transport that the response has ended."""
        log(self, request, response, time)
        transport = self.transport
        if transport is None:
            return
        # finish_response logs what it could not send, too; and a handler's own error is current while the answer to
        # it is sent.
        if isinstance(sys.exception(), ConnectionError) and not response._eof_sent:
            return
        # After this the protocol belongs to another request: a handler that keeps this one cannot write through it.
        kept: Any = request
        kept._protocol = kept._payload_writer._protocol = _OVER
        # What makes aiohttp wait for another request; else it closes, as it does by itself with a timeout of 0.
        free = bool(response.keep_alive and not self._close and self._keepalive_timeout)
        transport.end_response(free)

    return log_access


def _data_received_of(cls: type[web.RequestHandler]) -> Callable[[Any, bytes], None]:
    receive: Any = cls.data_received

    def data_received(self: Any, data: bytes) -> None:
        """Take what the client sends, after `close` the rest of the request that it was given as well.

        aiohttp drops that: a handler that reads a body while its process drains would wait until it is cut off.
        """
        ends = (self._close, self._force_close)
        if not any(ends) or self.transport is None:
            receive(self, data)
            return
        self._close = self._force_close = False
        try:
            receive(self, data)
        finally:
            self._close |= ends[0]
            self._force_close |= ends[1]

    return data_received


def _finish_response_of(cls: type[web.RequestHandler]) -> Callable[..., Awaitable[tuple[Any, bool]]]:
    finish: Any = cls.finish_response

    def finish_response(
        self: Any, request: web.BaseRequest, response: Any, start_time: float | None
    ) -> Awaitable[tuple[Any, bool]]:
        """Send the rest of a response, or in one step one that is small and whole."""
        # What was handed over has ended, and aiohttp would find nothing to do.
        has_ended = getattr(response, "_eof_sent", False) or send_plain(request, response)
        if has_ended and not self._upgraded and request._post is None:
            self.log_access(request, response, start_time)
            return _finished(response)
        rest: Awaitable[tuple[Any, bool]] = finish(self, request, response, start_time)
        return rest

    return finish_response


def handler_factory(
    server: web.Server, engine: Engine, *, logs: bool = True
) -> Callable[[], web.RequestHandler]:
    """What makes protocols as `server` does, with all of its settings, for clients of `engine`.

    With `logs` false they log no requests.
    """
    classes: dict[tuple[type[web.RequestHandler], bool], type[web.RequestHandler]] = {}

    def make_handler() -> web.RequestHandler:
        handler = server()
        if not logs:
            handler.access_logger = None
            handler._logging_enabled = False
        kind = (type(handler), _is_known(handler))
        if kind not in classes:
            classes[kind] = _saying(kind[0], engine, is_known=kind[1])
        # Not by a subclass of Server: it is the runner that makes one, with arguments that are its own business.
        handler.__class__ = classes[kind]
        return handler

    return make_handler


def engine_for(request: web.BaseRequest, given: Engine | None) -> Engine:
    """The engine that serves `request`: `given`, or else the engine of the server that received the request.

    On a server of another kind it is the one that the process shares (`penstock.default_engine`).
    """
    if given is not None:
        return given
    engine = getattr(request.protocol, _ENGINE, None)
    return engine if isinstance(engine, Engine) else default_engine()
