"""A subscription that an application lets in: a handler's response whose body is a topic's events.

On `penstock.web.Site` the engine sends it and the handler is done; elsewhere Python sends the frames. How long it may
go on can depend on a hook, which is asked again when its answer has run out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import hdrs, web
from multidict import CIMultiDict
from yarl import URL

from penstock import _native
from penstock._limited_log import LimitedLog
from penstock.config import Subscriptions
from penstock.exceptions import PenstockError
from penstock.hub import BaseHub
from penstock.serving.relay_spec import HeaderEdits, Headers, header_edits

from .body import Payload, copy_body
from .cutoff import cut_off
from .disconnect import ClientLink
from .failures import client_gone, note_failure
from .handover import (
    Asked,
    Handover,
    RelayEnd,
    can_hand_over,
    engines,
    hand_over_topic,
)
from .problem import problem_response

__all__ = ["Authorise", "respond"]

Authorise = Callable[[web.Request, str], Awaitable[bool | float]]
"""Whether a request may subscribe to a topic: True for as long as it likes, a number for so many seconds, after which
it is asked again, or False."""

# A hook that is asked in time answers within this, or the subscription ends behind a whole event: also where the
# interpreter hangs, because the engine keeps the time.
_GRACE: Final = 10.0

_FORBIDDEN: Final = 403
_PARAMETERS: Final = ("lastEventId", "last-event-id")

_log: Final = LimitedLog(logging.getLogger("penstock.web"))


class _Permit:
    """How long a subscription may last, and who decides it."""

    def __init__(self, authorise: Authorise | None, request: web.Request, topic: str) -> None:
        self._authorise = authorise
        self._request = request
        self._topic = topic
        self._task: asyncio.Task[None] | None = None
        self.lease: _native.Lease | None = None
        """None: for as long as it likes."""

    async def ask(self) -> bool:
        """Whether it may begin."""
        if self._authorise is None:
            return True
        answer = await self._authorise(self._request, self._topic)
        if answer is not True and answer > 0:
            self.lease = _native.Lease(answer + _GRACE)
            again = self._ask_again(self.lease, float(answer))
            self._task = asyncio.get_running_loop().create_task(again)
        return answer is True or answer > 0

    async def _ask_again(self, lease: _native.Lease, seconds: float) -> None:
        authorise = self._authorise
        assert authorise is not None  # noqa: S101 (it has answered)
        while True:
            await asyncio.sleep(seconds)
            try:
                answer = await authorise(self._request, self._topic)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is no permission)
                cause = ("subscription", type(error))
                message = "%s: the hook that authorises it has failed"
                _log.log(logging.ERROR, cause, message, self._topic, error=error)
                answer = False
            if answer is True:
                lease.renew(None)
                return
            if answer <= 0:
                lease.renew(0)
                return
            lease.renew(answer + _GRACE)
            seconds = float(answer)

    def over(self, _: RelayEnd | None = None) -> None:
        """No further question is needed."""
        if self._task is not None:
            self._task.cancel()


async def respond(
    hub: BaseHub,
    request: web.Request,
    topic: str,
    *,
    tenant: str | None,
    authorise: Authorise | None,
    subscriptions: Subscriptions,
    headers: HeaderEdits | Headers | None,
    admitted: _native.Permit | None = None,
) -> web.StreamResponse:
    """Answer `request` with `topic`; see `Hub.stream`. `admitted`: by what a route has let it in."""
    edits = headers if isinstance(headers, HeaderEdits) else header_edits("headers", headers, ())
    transport = request.transport
    if transport is None:
        raise asyncio.CancelledError from client_gone(request, None)
    permit = _Permit(authorise, request, topic)
    if not await permit.ask():
        return web.Response(status=_FORBIDDEN, text="403: Forbidden")
    handover: Handover | None = None
    admission: _native.Admission | None = None
    response: web.StreamResponse | None = None
    link = ClientLink.of(transport)
    link.task = asyncio.current_task(link.loop)
    try:
        admission = await hub._admit(  # noqa: SLF001 (of the same package)
            topic,
            _had(request),
            subscriptions,
            (tenant, request.remote),
            permit.lease,
            engines(transport),
        )
        status, fields = _head_of(admission, edits)
        if status != web.HTTPOk.status_code or request.method == hdrs.METH_HEAD:
            admission.close()
            return web.Response(status=status, headers=fields)
        response = web.StreamResponse(headers=fields)
        writer = await response.prepare(request)
        assert writer is not None  # noqa: S101 (it is for a response that has ended)
        handover = _hand_over(request, response, writer, admission, permit)
        if handover is None:
            async with hub._read(admission, engines(transport)) as events:  # noqa: SLF001
                await copy_body(events, writer, transport, Payload(admitted))
    except BaseException as error:
        permit.over()
        if admission is not None:
            admission.close()
        problem = _failed(request, response, error, left=link.lost or transport.is_closing())
        if problem is None:
            raise
        return problem
    else:
        return response
    finally:
        link.task = None
        if handover is None:
            permit.over()


def _head_of(admission: _native.Admission, edits: HeaderEdits) -> tuple[int, CIMultiDict[str]]:
    """Status and fields of the answer to a subscriber, who was admitted or not."""
    decided = admission.head()
    assert decided is not None  # noqa: S101 (it is)
    status, answered = decided
    fields = CIMultiDict(answered)
    edits.apply(fields)
    return status, fields


def _hand_over(
    request: web.Request,
    response: web.StreamResponse,
    writer: Any,
    admission: _native.Admission,
    permit: _Permit,
) -> Handover | None:
    """Let the engine serve the subscriber; None if it cannot."""
    direct = can_hand_over(writer, request.transport)
    if direct is None:
        return None
    handover = Handover(Asked(request.method, request.raw_path, None, None, None), response.status)
    if permit.lease is not None:
        # It keeps the request, for as long as the hook is asked again.
        handover.when_over(permit.over)
    hand_over_topic(admission, writer, direct, handover)
    return handover


def _failed(
    request: web.Request, response: web.StreamResponse | None, error: BaseException, *, left: bool
) -> web.Response | None:
    """Cut off the response if it has begun, and note `error`; the answer in its place, None if `error` is to be raised.

    Raises:
        CancelledError: the client `left`.
    """
    status = None
    if response is not None and request.writer.output_size:
        status = response.status
        cut_off(request, response)
    if left and isinstance(error, PenstockError | ConnectionError | asyncio.CancelledError):
        raise asyncio.CancelledError from client_gone(request, status)
    if isinstance(error, PenstockError):
        note_failure(request, error, status)
        if status is None:
            error.__traceback__ = None
            return problem_response(error)
    return None


def _had(request: web.Request) -> str | None:
    """What the client had before. The field says it later than the query, with which the client once began."""
    query = URL(request.rel_url).query
    said = (request.headers.get("Last-Event-ID"), *(query.get(name) for name in _PARAMETERS))
    after = next((text for text in said if text), None)
    # What is not UTF-8 is no id of ours, and is told of as well as can be.
    return None if after is None else after.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
