"""Relays that are resumable: the first request of a topic has the origin asked, and all are answered by the topic.

Requests of one process wait for the first of them. Where processes share a log, or are workers of one parent, they look
there whether there is the topic; of several that ask their origins all at once, one feeds it, and the others drop what
they have been answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Literal
from weakref import WeakKeyDictionary

from aiohttp import web
from multidict import MultiMapping

from penstock import _native
from penstock.config import EventRelay, Subscriptions
from penstock.engine import Engine
from penstock.exceptions import PenstockError
from penstock.framing import Framing
from penstock.stream import FrameStream, Response

from .failures import note_failure
from .handover import Asked, OnComplete, engines
from .hub import Hub
from .inspection import Seen
from .problem import problem_response
from .relay_response import is_event_stream

__all__ = ["Feeding", "Meter"]

_FROM_THE_START: Final = Subscriptions(join="start", open=False)
_ERROR: Final = "error"

# Of a task that is not needed to feed a topic: another task does, or has.
_NOT_NEEDED: Final = ("BUSY", "TOPIC_FINISHED")

# Whether a topic is there, or why that could not be found out.
_Found = bool | PenstockError

_asking: Final[WeakKeyDictionary[Hub, dict[str, asyncio.Future[_Found]]]] = WeakKeyDictionary()
"""Topics whose first request looks for the topic or waits for its origin."""


class Meter:
    """What sees an answer that feeds a topic, and tells its end: once, however many read the topic.

    Args:
        engine: what reads it.
        asked: the request that it answers, which was the first of the topic.
        inspector: sees the events, if there is one.
        cut: how they are cut for that.
        on_complete: told the end.
        seen: how it is inspected, and where that is counted.
    """

    def __init__(
        self,
        engine: Engine,
        asked: Asked,
        inspector: _native.Inspector | None,
        cut: Framing,
        on_complete: OnComplete | None,
        seen: Seen | None,
    ) -> None:
        self._engine = engine
        self._asked = asked
        self._inspector = inspector
        self._cut = cut
        self._on_complete = on_complete
        self._seen = seen
        self._upstream: Response | None = None
        self._watched: _native.Watched | None = None

    def watch(self, upstream: Response) -> FrameStream:
        """The body of `upstream`, seen on its way."""
        self._upstream = upstream
        cut = self._inspector is not None and self._inspector.begin(upstream)
        stream: FrameStream = upstream.frames(self._cut) if cut else upstream
        source, self._watched = _native.watch(self._engine.native, stream, self._inspector)
        return FrameStream(source)

    def begin(self) -> None:
        """The topic is fed by it."""
        if self._watched is not None:
            self._watched.over().add_done_callback(self._end)

    def _end(self, _: "asyncio.Future[None]") -> None:
        outcome = None if self._watched is None else self._watched.outcome()
        if outcome is not None:
            size, error = outcome
            self._asked.tell(self._on_complete, (web.HTTPOk.status_code, size, self._upstream, error))
        if self._seen is not None and self._seen.report is not None:
            self._seen.report(self._seen.counts.stats())


class Feeding:
    """One request of a topic."""

    def __init__(
        self,
        hub: Hub,
        topic: str,
        tenant: str | None,
        subscriptions: Subscriptions | None,
        events: EventRelay | None,
    ) -> None:
        self._hub = hub
        self._topic = topic
        self._tenant = tenant
        terms = subscriptions or _FROM_THE_START
        # A topic that another process has just begun is not known here yet.
        self._subscriptions = replace(terms, open=True) if hub._is_shared else terms  # noqa: SLF001
        self._error_event = (events.error_event if events is not None else None) or _ERROR
        self._asked: asyncio.Future[_Found] | None = None

    async def respond(
        self, request: web.Request, relay: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer with the topic if it is there; otherwise ask the origin, or wait for the task that does."""
        # A task looks for the topic after it is known to be the first: what it finds may arrive after another task
        # has asked the origin and been answered, and be out of date.
        asking = _asking.setdefault(self._hub, {})
        while (first := asking.get(self._topic)) is not None:
            if found := await asyncio.shield(first):
                return await self._answer(request, found)
        self._asked = asking[self._topic] = asyncio.get_running_loop().create_future()
        try:
            found = await self._find()
            if not found:
                return await relay()
            self._found(found)
        finally:
            self._found(False)
        return await self._answer(request, found)

    async def _find(self) -> _Found:
        try:
            return await self._hub._has(self._topic)  # noqa: SLF001 (of the same package)
        except PenstockError as error:
            error.__traceback__ = None
            return error

    async def _answer(self, request: web.Request, found: Literal[True] | PenstockError) -> web.StreamResponse:
        if found is True:
            return await self.stream(request)
        note_failure(request, found, None)
        return problem_response(found)

    async def take(
        self,
        request: web.Request,
        upstream: Response,
        status: int,
        fields: MultiMapping[str],
        meter: Meter | None,
    ) -> bool:
        """Have the topic fed by the origin's answer, if its status and its fields say that it is one of events.

        `meter` is told how the answer ends, whichever clients listen by then.
        """
        if status != web.HTTPOk.status_code or not is_event_stream(fields):
            return False
        stream = upstream if meter is None else meter.watch(upstream)
        near = engines(request.transport)
        try:
            await self._hub._feed(self._topic, stream, self._error_event, near)  # noqa: SLF001
        except PenstockError as error:
            await stream.aclose()
            if error.name not in _NOT_NEEDED:
                raise
        else:
            if meter is not None:
                meter.begin()
        self._found(True)
        return True

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer with the topic."""
        return await self._hub.stream(
            request, self._topic, tenant=self._tenant, subscriptions=self._subscriptions
        )

    def _found(self, found: _Found) -> None:
        """Wake all waiters, once."""
        if self._asked is not None and not self._asked.done():
            del _asking[self._hub][self._topic]
            self._asked.set_result(found)
