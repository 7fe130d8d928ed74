"""One relay, phase by phase: the request goes up (`headers`, `upload`), the head comes down, the body follows.

The caller (`gateway`) decides where it goes and by which rules. It keeps three promises. What is
relayed is the origin's, but for the fields of the hop. A body that did not arrive whole never ends as if it had.
And neither side outlives the other: the upstream request is cancelled when the client leaves (`disconnect`), the
client is cut off when the origin fails (`cutoff`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict, istr

from penstock import _native
from penstock._shared import Parent
from penstock.config import Overrides
from penstock.engine import OriginRequest
from penstock.exceptions import PenstockError
from penstock.serving.faults import log_failed_relay
from penstock.serving.relay_spec import HeaderEdits
from penstock.stream import FrameStream, Response

from .amendment import amend
from .body import Payload, copy_body
from .cutoff import cut_off
from .disconnect import ClientLink
from .failures import client_gone, note_failure, shown_target
from .handover import Asked, Handover, OnComplete, Rest, can_hand_over, engines, hand_over
from .inspection import Seen
from .prepared_relay import PreparedRelay
from .problem import problem_response
from .relay_response import TakenOver, has_signals, is_event_stream, relayed
from .topic_feed import Feeding, Meter
from .tunnel import Tunnel, offers_websocket, switched
from .upload import Pieces, request_body

__all__ = ["Order", "relay"]

_CONTENT_LENGTH: Final = istr(hdrs.CONTENT_LENGTH)

# How a relay ends when its client leaves: cancelled while it waits, or refused by the transport while it
# writes.
_LEAVING: Final = (PenstockError, ConnectionError, asyncio.CancelledError)


@dataclass(slots=True, eq=False)
class Order:
    """One request of a relay. No tuple and not frozen, because those take twice as long to make."""

    relay: PreparedRelay
    target: Callable[[], str]
    """The target at the origin."""
    forwarding: _native.Forwarding
    headers: tuple[tuple[str, str | None], ...] | None
    """Fields in place of those of the same names; None removes them."""
    overrides: Overrides | None = None
    on_complete: OnComplete | None = None
    tenant: str | None = None
    seen: Seen | None = None
    plan: bytes | None = None
    """Describes the relay to the parent of this worker process, which carries it out."""
    parent: Parent | None = None
    """The parent, if there is a `plan`."""
    permit: _native.Permit | None = None
    received: Sequence[tuple[bytes, bytes]] | None = None
    """The fields of the request, without what has let it in."""
    feeding: Feeding | None = None
    is_tunnel: bool = False


async def relay(request: web.Request, order: Order) -> web.StreamResponse:
    """Answer `request` as `order` says.

    Raises:
        PenstockError: the origin failed after its head was relayed, and before the body was left to the engine.
        CancelledError: the client left, or the task was cancelled from elsewhere.
    """
    transport = request.transport
    if transport is None:
        gone = client_gone(request, None)
        _asked(request, order).tell(order.on_complete, (None, 0, None, gone))
        raise asyncio.CancelledError from gone
    # Each `await` on the way is a frame more to resume: a phase is a coroutine only if it waits.
    under_way = _Relay(request, order, transport)
    try:
        return await under_way.run()
    except BaseException as error:
        answer = await under_way.fail(error)
        if answer is None:
            raise
        return answer
    finally:
        under_way.leave()


class _Relay:
    """A relay that is under way: both of its sides, and what is to be done when one of them ends."""

    __slots__ = (
        "asked",
        "body",
        "direct",
        "feeds",
        "handover",
        "inspector",
        "is_decoded",
        "length",
        "link",
        "order",
        "payload",
        "piped",
        "request",
        "response",
        "transport",
        "tunnel",
        "upstream",
    )

    def __init__(self, request: web.Request, order: Order, transport: asyncio.Transport) -> None:
        self.request = request
        self.transport = transport
        # The transport, if it is the engine's.
        self.direct = engines(transport)
        self.asked = _asked(request, order)
        self.link = ClientLink.of(transport)
        self.body, self.length, self.is_decoded = request_body(request, self.link)
        self.tunnel: Tunnel | None = None
        if self.body is None and offers_websocket(request):
            self.tunnel = Tunnel(request, self.link)
            self.body = self.tunnel.body
            # It is neither stored nor told apart into events, and goes past the parent of a worker.
            order = replace(order, overrides=None, plan=None, seen=None, feeding=None, is_tunnel=True)
        self.order = order
        self.payload = Payload(order.permit)
        self.upstream: Response | None = None
        # What is sent in the place of `upstream`, which it reads.
        self.piped: FrameStream | None = None
        self.response: web.StreamResponse | None = None
        self.handover: Handover | None = None
        self.inspector: _native.Inspector | None = None
        # The topic is fed, and that goes on whatever becomes of this request.
        self.feeds = False

    async def run(self) -> web.StreamResponse:
        """Ask the origin, and answer the client."""
        request, order = self.request, self.order
        self.link.task = asyncio.current_task(self.link.loop)
        expected = None if order.seen is None else await self._amend(order.seen)
        upstream = self.upstream = self._fetch(expected)
        # `await upstream` would be two frames more, and each property a call.
        # Interim responses pass, which HTTP/1.0 does not know (RFC 9110, section 15.2).
        write = None if request.version < HttpVersion11 else self.transport.write
        await _native.relay_head(upstream, order.forwarding, write)
        status, reason, _ = _native.status_line(upstream)  # type: ignore[misc] # (there is a head)
        if order.feeding is not None and await self._feed(order.feeding, upstream, status):
            return await order.feeding.stream(request)
        if self.tunnel is not None and status == 101:  # noqa: PLR2004 (Switching Protocols)
            response = await self._open(self.tunnel, upstream, reason)
        elif self.direct is not None and self._is_unseen():
            response = self._take_over(self.direct, upstream, status, reason)
        else:
            response = await self._pass_on(upstream, status, reason)
        # Of what was handed over the engine says the end.
        if self.handover is None:
            self.asked.tell(order.on_complete, (status, self.payload.bytes, upstream, None))
        elif self.tunnel is None and _is_sending(self.body):
            # The origin answers while it is still being sent the request, which is Python's to pass on.
            await self.handover.over(self.link.loop)
        return response

    def leave(self) -> None:
        """Leave the client's side."""
        self.link.task = None
        if isinstance(self.body, Pieces):
            self.body.stop()

    async def _amend(self, seen: Seen) -> _native.Expected | None:
        """Have the request amended and the response inspected. In a worker the parent inspects what it fetches."""
        request, order = self.request, self.order
        self.body, self.length, amended = await amend(request, self.body, self.length, self.is_decoded, seen)
        if order.plan is None:
            self.inspector = seen.inspector(order.relay.engine, amended, self.direct)
            self.asked = self.asked.seen_by(self.inspector)
            return None
        expected = _native.Expected(order.relay.engine.native, amended)
        self.asked = self.asked.seen_by(expected)
        return expected

    def _fetch(self, expected: _native.Expected | None) -> Response:
        """Send the request."""
        request, order = self.request, self.order
        origin, timeouts, _, _, caching, _ = order.relay.handles
        is_planned = order.plan is not None
        return order.relay.engine.fetch(
            OriginRequest(
                origin,
                request.method,
                order.target(),
                self._fields(),
                timeouts,
                self.body,
                self.length,
                None if order.is_tunnel or is_planned else caching,
                order.overrides,
                self.direct,
                order.plan,
                expected,
                is_planned and self._leaves_body(),
                order.is_tunnel,
            )
        )

    def _fields(self) -> _native.Fields:
        """The fields that go to the origin."""
        request, order = self.request, self.order
        headers = _without_coding(order.headers) if self.is_decoded else order.headers
        added = order.relay.spec.request.add or None
        if self.direct is None:
            return order.forwarding.request_fields(request, order.received, headers, added)
        return self.direct.request_fields(request, order.forwarding, order.received, headers, added)

    def _leaves_body(self) -> bool:
        """Whether the parent of this worker sends the rest of the request's body itself."""
        return (
            self.direct is not None
            and isinstance(self.body, Pieces)
            and not self.is_decoded
            and self.direct.leave_body(self.request.content.feed_eof)
        )

    def _is_unseen(self) -> bool:
        """Whether the engine can make the head of the response: nothing in Python changes it."""
        order = self.order
        return (
            order.relay.edits is None
            and order.permit is None
            and order.relay.handles.drain is None
            and self.tunnel is None
            and not has_signals(self.request)
        )

    def _take_over(
        self, direct: _native.Transport, upstream: Response, status: int, reason: str
    ) -> web.StreamResponse:
        """Have the engine send all of the response."""
        request, relay = self.request, self.order.relay
        taken = self.response = TakenOver(request, upstream, self.order.forwarding, status, reason)
        taken.begin(request, direct, relay.cut, self._rest(upstream, status, relay.handles.events))
        return taken

    async def _feed(self, feeding: Feeding, upstream: Response, status: int) -> bool:
        """Whether the response feeds the topic from now on."""
        order, asked, inspector = self.order, self.asked, self.inspector
        fed = CIMultiDict(_native.response_fields(upstream, order.forwarding))
        meter = None
        if order.on_complete is not None or inspector is not None:
            engine, framing = order.relay.engine, order.relay.framing
            meter = Meter(engine, asked, inspector, framing, order.on_complete, order.seen)
        self.feeds = await feeding.take(self.request, upstream, status, fed, meter)
        return self.feeds

    async def _open(self, tunnel: Tunnel, upstream: Response, reason: str) -> web.StreamResponse:
        """Relay a WebSocket to its end."""
        answered = self._answered(upstream)
        response = self.response = switched(reason, answered)
        writer = await response.prepare(self.request)
        assert writer is not None  # noqa: S101 (it is for a response that has ended)
        tunnel.begin(self.request)
        await copy_body(upstream, writer, self.transport, self.payload)
        return response

    async def _pass_on(self, upstream: Response, status: int, reason: str) -> web.StreamResponse:
        """Have aiohttp send the head, and then the engine or Python the body."""
        inspector, relay = self.inspector, self.order.relay
        drain, policy = relay.handles.drain, relay.handles.events
        answered = self._answered(upstream)
        rules = None if policy is None or _CONTENT_LENGTH in answered else policy
        events = is_event_stream(answered)
        if events and rules is not None:
            _add_missing(answered, rules.fields(), relay.edits)
        response = self.response = relayed(status, reason, answered)
        if self.tunnel is not None:
            # Bytes that the client has sent as the tunnel's are not to be taken for a request.
            response.force_close()
        writer = await response.prepare(self.request)
        assert writer is not None  # noqa: S101 (it is for a response that has ended)
        # Of what goes with a length the events are told apart as well, to be seen.
        cut = (inspector is not None and inspector.begin(upstream)) or events
        stream: FrameStream = upstream.frames(relay.framing) if cut else upstream
        direct = can_hand_over(writer, self.transport)
        if direct is not None and drain is None:
            hand_over(stream, writer, direct, self._rest(upstream, status, rules))
            return response
        rules = rules if events else None
        if rules is not None or inspector is not None:
            source = _native.relay_seen(relay.engine.native, stream, rules, drain, inspector)
            stream = self.piped = FrameStream(source)
        await copy_body(stream, writer, self.transport, self.payload)
        return response

    def _answered(self, upstream: Response) -> CIMultiDict[str]:
        """The fields that go to the client."""
        answered = CIMultiDict(_native.response_fields(upstream, self.order.forwarding))
        if self.order.relay.edits is not None:
            self.order.relay.edits.apply(answered)
        return answered

    def _rest(self, upstream: Response, status: int, rules: _native.EventPolicy | None) -> Rest:
        """How the engine sends the rest of the response."""
        order, asked = self.order, self.asked
        handover = self.handover = Handover(asked, status)
        account = None
        if order.on_complete is not None:
            handover.when_over(order.on_complete, upstream)
            if order.parent is not None and order.plan is not None:
                account = order.parent.account(order.on_complete, asked, status)
        return Rest(rules, self.inspector, handover, handover.is_awaited or _is_sending(self.body), account)

    async def fail(self, error: BaseException) -> web.StreamResponse | None:
        """End the side that is left, and tell the end. The answer to a failure of the origin's, if one can be given.

        Raises:
            CancelledError: the client left.
        """
        request, order = self.request, self.order
        left = self.link.lost or self.transport.is_closing()
        reads_on = await self._leave_origin(left=left)
        status = None
        if self.response is not None and request.writer.output_size:
            status = self.response.status
            cut_off(request, self.response)
        gone = client_gone(request, status) if left and isinstance(error, _LEAVING) else None
        if self.handover is None and not self.feeds:
            end = (status, self.payload.bytes, self.upstream, gone or error)
            self.asked.tell(order.on_complete, end, reads_on=reads_on)
        if gone is not None:
            raise asyncio.CancelledError from gone
        if not isinstance(error, PenstockError):
            return None
        note_failure(request, error, status)
        if status is not None:
            return None
        # It is answered here: neither the request nor a log handler need keep our frames alive.
        error.__traceback__ = None
        log_failed_relay(logging.WARNING, f"{request.method} {shown_target(request)}", error)
        return problem_response(error)

    async def _leave_origin(self, *, left: bool) -> bool:
        """Close the origin's side, or have it read on after a client that has `left`. Whether it is read on."""
        order, upstream, inspector = self.order, self.upstream, self.inspector
        drain, policy = order.relay.handles.drain, order.relay.handles.events
        if self.piped is not None:
            # The engine takes that for the client's leaving, and does as the policy says.
            await self.piped.aclose()
            return left
        if upstream is None or upstream.closed:
            return False
        # What the parent fetches is the parent's to read on.
        if left and (drain is not None or policy is not None) and order.plan is None:
            seen = None if inspector is None else (inspector, order.relay.cut)
            _native.read_on(order.relay.engine.native, upstream, drain, policy, seen)
            return True
        await upstream.aclose()
        return False


def _is_sending(body: object) -> bool:
    """Whether the request's body is Python's to send, and has not been sent."""
    return isinstance(body, Pieces) and not body.ended


def _asked(request: web.Request, order: Order) -> Asked:
    # The address is worked out at the first look, and few ask for it.
    client = None if order.on_complete is None else request.remote
    return Asked(request.method, request.raw_path, client, order.tenant, None)


def _add_missing(
    fields: CIMultiDict[str], defaults: list[tuple[str, str]], edits: HeaderEdits | None
) -> None:
    for name, value in defaults:
        if name not in fields and (edits is None or not edits.names(name)):
            fields.add(name, value)


def _without_coding(headers: tuple[tuple[str, str | None], ...] | None) -> tuple[tuple[str, str | None], ...]:
    return (*(headers or ()), ("Content-Encoding", None))
