"""aiohttp's protocol, as the engine's transport needs it: one that says when its response has ended.

The transport gives a protocol one request after the other, of whatever clients, as a reverse proxy does with a
connection to its upstream. So it must know when the one before is over, which aiohttp does not tell. The last thing
that `finish_response` does is to have the request logged, and there it is told: around `finish_response` itself it
would cost every request a coroutine.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from penstock.engine import Engine, default_engine

__all__ = ["engine_for", "handler_factory"]


class _Over:
    """What stands in the place of a protocol when a response has ended."""

    __slots__ = ()
    transport: Final = None


_OVER: Final = _Over()
# The attribute of a protocol's class that has the engine of its clients.
_ENGINE: Final = "_penstock_engine"


def _saying(cls: type[web.RequestHandler], engine: Engine) -> type[web.RequestHandler]:
    """`cls` with a `log_access` that tells the transport. It has no more state: a handler is changed to it."""
    log: Any = cls.log_access

    def log_access(self: Any, request: web.BaseRequest, response: Any, time: float | None) -> None:
        """Log the request, as aiohttp does, and tell the transport that the response has ended."""
        log(self, request, response, time)
        transport = self.transport
        if transport is None:
            return
        # finish_response logs what it could not send, too; and a handler's own error is current while the answer to
        # it is sent.
        if isinstance(sys.exception(), ConnectionError) and not response._eof_sent:  # noqa: SLF001
            return
        # After this the protocol belongs to another request: a handler that keeps this one cannot write through it.
        kept: Any = request
        kept._protocol = kept._payload_writer._protocol = _OVER  # noqa: SLF001
        # What makes aiohttp wait for another request; else it closes, as it does by itself with a timeout of 0.
        free = bool(response.keep_alive and not self._close and self._keepalive_timeout)
        transport.end_response(free)

    members = {"__slots__": (), "__module__": __name__, "log_access": log_access, _ENGINE: engine}
    saying: type[web.RequestHandler] = type(cls.__name__, (cls,), members)
    return saying


def handler_factory(
    server: web.Server, engine: Engine, *, logs: bool = True
) -> Callable[[], web.RequestHandler]:
    """What makes protocols as `server` does, with all of its settings, for clients of `engine`.

    With `logs` false they log no requests.
    """
    classes: dict[type[web.RequestHandler], type[web.RequestHandler]] = {}

    def make_handler() -> web.RequestHandler:
        handler = server()
        if not logs:
            handler.access_logger = None
            handler._logging_enabled = False  # noqa: SLF001 (which says whether it takes times)
        made = type(handler)
        if made not in classes:
            classes[made] = _saying(made, engine)
        # Not by a subclass of Server: it is the runner that makes one, with arguments that are its own business.
        handler.__class__ = classes[made]
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
