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
from penstock.stream import FrameStream, Response

from .amendment import amend
from .body import Payload, copy_body
from .cutoff import cut_off
from .disconnect import ClientLink
from .failures import client_gone, note_failure, shown_target
from .handover import Asked, Handover, OnComplete, Rest, can_hand_over, engines, hand_over, log_failed_relay
from .inspection import Seen
from .prepared_relay import PreparedRelay
from .problem import problem_response
from .relay_response import TakenOver, has_signals, is_event_stream, relayed
from .relay_spec import HeaderEdits
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
    spec, (origin, timeouts, drain, policy, caching, _) = order.relay.spec, order.relay.handles
    headers, added, edits = order.headers, spec.request.add or None, order.relay.edits
    transport = request.transport
    asked = _asked(request, order)
    if transport is None:
        gone = client_gone(request, None)
        asked.tell(order.on_complete, (None, 0, None, gone))
        raise asyncio.CancelledError from gone
    link = ClientLink.of(transport)
    body, length, decoded = request_body(request, link)
    tunnel: Tunnel | None = None
    if body is None and offers_websocket(request):
        tunnel = Tunnel(request, link)
        body = tunnel.body
        # It is neither stored nor told apart into events, and goes past the parent of a worker as the worker's own do.
        order = replace(order, overrides=None, plan=None, seen=None, feeding=None, is_tunnel=True)
    upstream: Response | None = None
    piped: FrameStream | None = None
    response: web.StreamResponse | None = None
    handover: Handover | None = None
    inspector: _native.Inspector | None = None
    # In a worker the parent sees what it fetches.
    expected: _native.Expected | None = None
    # The topic is fed, and that goes on whatever becomes of this request.
    feeds = False
    engine = order.relay.engine
    payload = Payload(order.permit)
    direct = engines(transport)
    link.task = asyncio.current_task(link.loop)
    try:
        if order.seen is not None:
            body, length, amended = await amend(request, body, length, decoded, order.seen)
            if order.plan is None:
                inspector = order.seen.inspector(engine, amended, direct)
                asked = asked.seen_by(inspector)
            else:
                expected = _native.Expected(engine.native, amended)
                asked = asked.seen_by(expected)
        if decoded:
            headers = _without_coding(headers)
        if direct is None:
            fields = order.forwarding.request_fields(request, order.received, headers, added)
        else:
            fields = direct.request_fields(request, order.forwarding, order.received, headers, added)
        goes_on = (
            order.plan is not None
            and direct is not None
            and isinstance(body, Pieces)
            and not decoded
            and direct.leave_body(request.content.feed_eof)
        )
        if order.is_tunnel or order.plan is not None:
            caching = None
        upstream = engine.fetch(
            OriginRequest(
                origin,
                request.method,
                order.target(),
                fields,
                timeouts,
                body,
                length,
                caching,
                order.overrides,
                direct,
                order.plan,
                expected,
                goes_on,
                order.is_tunnel,
            )
        )
        # `await upstream` would be two frames more to resume, and each property a call.
        # Interim responses pass, which HTTP/1.0 does not know (RFC 9110, section 15.2).
        write = None if request.version < HttpVersion11 else transport.write
        await _native.relay_head(upstream, order.forwarding, write)
        status, reason, _ = _native.status_line(upstream)  # type: ignore[misc] # (there is a head)
        if order.feeding is not None:
            fed = CIMultiDict(_native.response_fields(upstream, order.forwarding))
            metered = order.on_complete is not None or inspector is not None
            meter = (
                Meter(engine, asked, inspector, order.relay.framing, order.on_complete, order.seen)
                if metered
                else None
            )
            if await order.feeding.take(request, upstream, status, fed, meter):
                feeds = True
                return await order.feeding.stream(request)
        if tunnel is not None and status == 101:  # noqa: PLR2004 (Switching Protocols)
            answered = CIMultiDict(_native.response_fields(upstream, order.forwarding))
            if edits is not None:
                edits.apply(answered)
            response = switched(reason, answered)
            writer = await response.prepare(request)
            assert writer is not None  # noqa: S101 (it is for a response that has ended)
            tunnel.begin(request)
            await copy_body(upstream, writer, transport, payload)
        elif (
            direct is not None
            and edits is None
            and order.permit is None
            and drain is None
            and tunnel is None
            and not has_signals(request)
        ):
            handover = Handover(asked, status)
            if order.on_complete is not None:
                handover.when_over(order.on_complete, upstream)
            taken = response = TakenOver(request, upstream, order.forwarding, status, reason)
            account = _account(asked, order, status)
            is_awaited = handover.is_awaited or _is_sending(body)
            rest = Rest(policy, inspector, handover, is_awaited, account)
            taken.begin(request, direct, order.relay.cut, rest)
        else:
            answered = CIMultiDict(_native.response_fields(upstream, order.forwarding))
            if edits is not None:
                edits.apply(answered)
            rules = None if policy is None or _CONTENT_LENGTH in answered else policy
            events = is_event_stream(answered)
            if events and rules is not None:
                _add_missing(answered, rules.fields(), edits)
            response = relayed(status, reason, answered)
            if tunnel is not None:
                # Bytes that the client has sent as the tunnel's are not to be taken for a request.
                response.force_close()
            writer = await response.prepare(request)
            assert writer is not None  # noqa: S101 (it is for a response that has ended)
            # Of what goes with a length the events are told apart as well, to be seen.
            cut = (inspector is not None and inspector.begin(upstream)) or events
            stream: FrameStream = upstream.frames(order.relay.framing) if cut else upstream
            direct = can_hand_over(writer, transport)
            if direct is not None and drain is None:
                handover = Handover(asked, status)
                if order.on_complete is not None:
                    handover.when_over(order.on_complete, upstream)
                account = _account(asked, order, status)
                is_awaited = handover.is_awaited or _is_sending(body)
                hand_over(stream, writer, direct, Rest(rules, inspector, handover, is_awaited, account))
            else:
                rules = rules if events else None
                if rules is not None or inspector is not None:
                    source = _native.relay_seen(engine.native, stream, rules, drain, inspector)
                    stream = piped = FrameStream(source)
                await copy_body(stream, writer, transport, payload)
        if handover is not None and tunnel is None and _is_sending(body):
            # The origin answers while it is still being sent the request, which is Python's to pass on.
            await handover.over(link.loop)
    except BaseException as error:
        left = link.lost or transport.is_closing()
        reads_on = False
        if piped is not None:
            # The engine takes that for the client's leaving, and does as the policy says.
            await piped.aclose()
            reads_on = left
        elif upstream is not None and not upstream.closed:
            reads_on = left and (drain is not None or policy is not None)
            # What the parent fetches is the parent's to read on.
            reads_on = reads_on and order.plan is None
            if reads_on:
                seen = None if inspector is None else (inspector, order.relay.cut)
                _native.read_on(engine.native, upstream, drain, policy, seen)
            else:
                await upstream.aclose()
        status = None
        if response is not None and request.writer.output_size:
            status = response.status
            cut_off(request, response)
        if left and isinstance(error, _LEAVING):
            gone = client_gone(request, status)
            if handover is None and not feeds:
                asked.tell(order.on_complete, (status, payload.bytes, upstream, gone), reads_on=reads_on)
            raise asyncio.CancelledError from gone
        if handover is None and not feeds:
            asked.tell(order.on_complete, (status, payload.bytes, upstream, error), reads_on=reads_on)
        if isinstance(error, PenstockError):
            note_failure(request, error, status)
            if status is None:
                # It is answered here: neither the request nor a log handler need keep our frames alive.
                error.__traceback__ = None
                log_failed_relay(logging.WARNING, f"{request.method} {shown_target(request)}", error)
                return problem_response(error)
        raise
    else:
        # Of what was handed over the engine says the end.
        if handover is None:
            asked.tell(order.on_complete, (status, payload.bytes, upstream, None))
        return response
    finally:
        link.task = None
        if isinstance(body, Pieces):
            body.stop()


def _is_sending(body: object) -> bool:
    """Whether the request's body is Python's to send, and has not been sent."""
    return isinstance(body, Pieces) and not body.ended


def _account(asked: Asked, order: Order, status: int) -> bytes | None:
    if order.parent is None or order.plan is None or order.on_complete is None:
        return None
    return order.parent.account(order.on_complete, asked, status)


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
