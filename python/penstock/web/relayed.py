"""Responses that are relayed: what aiohttp, its middlewares and its log see of them.

Where the engine sends the whole response (`TakenOver`) its head is made of the origin's without a look by Python: to
build the fields, complete them and write them out costs aiohttp more than all else in a relay. Elsewhere aiohttp
prepares the response as any other (`Relayed`).
"""

from typing import Any, Final

from aiohttp import hdrs, web
from multidict import CIMultiDict, MultiMapping, istr

from penstock import _native
from penstock.stream import Response

from .handover import Handover

__all__ = ["Relayed", "TakenOver", "has_signals", "is_event_stream", "relayed"]

_CONTENT_TYPE: Final = istr(hdrs.CONTENT_TYPE)
_CONTENT_ENCODING: Final = istr(hdrs.CONTENT_ENCODING)


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
    """Whether somebody is to be asked before a response to `request` is sent, who may change it."""
    # A plain server's requests have no application.
    match = getattr(request, "match_info", None)
    if match is not None:
        for app in match.apps:
            if app.on_response_prepare:
                return True
    return False


def is_event_stream(fields: MultiMapping[str]) -> bool:
    """Whether events can be told apart. Coded ones cannot, and are none of the gateway's business."""
    kind = fields.get(_CONTENT_TYPE, "").partition(";")[0].strip(" \t").lower()
    return kind == "text/event-stream" and _CONTENT_ENCODING not in fields


class TakenOver(web.StreamResponse):
    """A response that is the engine's from its first byte on; for aiohttp it has been prepared and ended.

    Its fields are those of the origin that go on to the client. They are built when somebody looks at them.
    """

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
        policy: _native.EventPolicy | None,
        inspector: _native.Inspector | None,
        handover: Handover,
        account: bytes | None,
    ) -> None:
        """Let the engine send it, seen by `inspector`; what is an event stream, cut by `events`, by `policy`.

        `account` is as in `handover.hand_over`.

        Raises:
            ConnectionResetError: the client left.
            StateError: the upstream response is closed.
        """
        writer: Any = request.writer
        writer.output_size += transport.relay(
            self._upstream,
            self._forwarding,
            events,
            policy,
            inspector,
            request.method,
            request.version,
            not self._keep_alive,
            handover,
            account,
        )
        self._req = request
        self._payload_writer = writer
        # aiohttp ends the response when the handler returns: there is nothing left for it to write.
        writer._eof = True  # noqa: SLF001
