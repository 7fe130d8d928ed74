"""Responses that are relayed: what aiohttp, its middlewares and its log see of them.

Where the engine sends the whole response (`TakenOver`) its head is made of the origin's without a look by Python: to
build the fields, complete them and write them out costs aiohttp more than all else in a relay. Elsewhere aiohttp
prepares the response as any other (`Relayed`). And if nothing in Python looks at the response, the engine is given the
request, before anything is fetched (`HandedOver`).
"""

from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final

from aiohttp import hdrs, web, web_app
from multidict import CIMultiDict, MultiMapping, istr

from penstock import _native
from penstock.stream import Response

from .handover import Rest, engines
from .prepared_relay import PreparedRelay

__all__ = [
    "HandedOver",
    "Relayed",
    "TakenOver",
    "hand_over_request",
    "has_signals",
    "is_event_stream",
    "is_unseen",
    "relayed",
]

_CONTENT_TYPE: Final = istr(hdrs.CONTENT_TYPE)
_CONTENT_ENCODING: Final = istr(hdrs.CONTENT_ENCODING)
# What the functions of an application refer to that are aiohttp's own.
_OF_AIOHTTP: Final = vars(web_app)


class Relayed(web.StreamResponse):
    """A response whose head waits for the first frames, which `copy_body` sends along, or for there being none."""

    _send_headers_immediately = False


class _Untyped(Relayed):
    """A response without Content-Type: aiohttp would give it one, and browsers would believe it."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.CONTENT_TYPE, None)


def relayed(status: int, reason: str, fields: CIMultiDict[str]) -> Relayed:
    """A response with these end-to-end fields, which has not been prepared."""
    cls = Relayed if hdrs.CONTENT_TYPE in fields else _Untyped
    return cls(status=status, reason=reason, headers=fields)


def has_signals(request: web.BaseRequest) -> bool:
    """Whether code of the application may change a response to `request` before it is sent."""
    # A plain server's requests have no application.
    match = getattr(request, "match_info", None)
    if match is not None:
        for app in match.apps:
            if app.on_response_prepare:
                return True
    return False


def is_event_stream(fields: MultiMapping[str]) -> bool:
    """Whether the body is a stream of events that can be found. Events of an encoded body cannot."""
    kind = fields.get(_CONTENT_TYPE, "").partition(";")[0].strip(" \t").lower()
    return kind == "text/event-stream" and _CONTENT_ENCODING not in fields


class TakenOver(web.StreamResponse):
    """A response that is the engine's from its first byte on; for aiohttp it has been prepared and ended.

    Its fields are those of the origin that go on to the client. They are built when they are first read.
    """

    # aiohttp asks each response for it, and `__getattr__` would answer.
    __http_exception__ = False

    def __init__(
        self,
        request: web.BaseRequest,
        upstream: Response,
        forwarding: _native.Forwarding,
        status: int,
        reason: str,
    ) -> None:
        super().__init__(status=status, reason=reason)
        del self._headers
        self._upstream = upstream
        self._forwarding = forwarding
        self._keep_alive = request.keep_alive

    def __getattr__(self, name: str) -> Any:
        if name != "_headers":
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)
        self._headers = CIMultiDict(_native.response_fields(self._upstream, self._forwarding))
        return self._headers

    def begin(
        self,
        request: web.BaseRequest,
        transport: _native.Transport,
        events: _native.Framing,
        rest: Rest,
    ) -> None:
        """Let the engine send it by `rest`; an event stream is cut by `events`.

        Raises:
            ConnectionResetError: the client left.
            StateError: the upstream response is closed.
        """
        writer: Any = request.writer
        writer.output_size += transport.relay(
            request, self._upstream, self._forwarding, events, not self._keep_alive, rest
        )
        self._req = request
        self._payload_writer = writer
        # aiohttp ends the response when the handler returns: there is nothing left for it to write.
        writer._eof = True  # noqa: SLF001


class HandedOver(web.StreamResponse):
    """A response that the engine makes and sends. For aiohttp it has been prepared and ended."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._keep_alive = request.keep_alive
        self._eof_sent = True


def is_unseen(request: web.BaseRequest, owner: object, method: object) -> bool:
    """Whether `method` of `owner` is itself the handler of `request`, and nothing in Python looks at what it returns.

    A middleware looks at it, a listener of `on_response_prepare`, aiohttp's access log, a request of a class of the
    application's own, and a tool that has put a function of its own in the place of one of aiohttp's. A handler may be a
    `functools.partial`.
    """
    match: Any = getattr(request, "match_info", None)
    if match is None or type(request) is not web.Request:
        return False
    handler = match.handler
    if type(handler) is partial:
        handler = handler.func
    if type(handler) is not MethodType or handler.__self__ is not owner or handler.__func__ is not method:
        return False
    for app in match.apps:
        if app.middlewares or app.on_response_prepare:
            return False
    protocol: Any = request.protocol
    # Where aiohttp closes after each response, the response says so.
    if protocol.access_logger is not None or protocol._close or not protocol._keepalive_timeout:  # noqa: SLF001
        return False
    serves = protocol._request_handler  # noqa: SLF001
    return (
        type(serves) is MethodType
        and serves.__self__ is match.apps[0]
        and type(serves.__func__) is FunctionType
        and serves.__func__.__globals__ is _OF_AIOHTTP
    )


def hand_over_request(
    request: web.BaseRequest, relay: PreparedRelay, target: str
) -> web.StreamResponse | None:
    """Have the engine answer `request` by `relay`. None if it cannot, and nothing has been done.

    It cannot for a request with a body, for one that asks for another protocol or waits to be told to go on, on a
    transport that is not its own, and in a worker process.
    """
    transport = engines(request.transport)
    headers = request.headers
    if transport is None or hdrs.UPGRADE in headers or hdrs.EXPECT in headers:
        return None
    handed = transport.hand_over(relay.native, target, relay.engine.native)
    return HandedOver(request) if handed else None
