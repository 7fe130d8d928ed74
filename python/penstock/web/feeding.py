"""Relays that are resumable: the first request of a topic has the origin asked, and all are answered by the topic.

Requests of one process wait for the first of them. Where processes share a log, or are workers of one parent, they look
there whether there is the topic; of several that ask their origins all at once, one feeds it, and the others drop what
they have been answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from aiohttp import web
from multidict import MultiMapping

from penstock.config import EventRelay, Subscriptions
from penstock.exceptions import PenstockError
from penstock.hub import Hub
from penstock.stream import Response

from .failures import note_failure
from .handover import engines
from .problem import problem_response
from .relayed import is_event_stream

__all__ = ["Feeding"]

_FROM_THE_START: Final = Subscriptions(join="start", open=False)
_ERROR: Final = "error"

# Of one who is not needed to feed a topic: another one does, or has.
_NOT_NEEDED: Final = ("BUSY", "TOPIC_FINISHED")

_asking: Final[WeakKeyDictionary[Hub, dict[str, asyncio.Future[None]]]] = WeakKeyDictionary()
"""Topics whose first request waits for its origin."""


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
        self._asked: asyncio.Future[None] | None = None

    async def respond(
        self, request: web.Request, relay: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer with the topic if it is there; otherwise ask the origin, or wait for the one who does."""
        asking = _asking.setdefault(self._hub, {})
        while True:
            try:
                if await self._hub._has(self._topic):  # noqa: SLF001 (of the same package)
                    break
            except PenstockError as error:
                note_failure(request, error, None)
                error.__traceback__ = None
                return problem_response(error)
            other = asking.get(self._topic)
            if other is None:
                self._asked = asking[self._topic] = asyncio.get_running_loop().create_future()
                try:
                    return await relay()
                finally:
                    self._answered()
            await asyncio.shield(other)
        return await self.stream(request)

    async def take(
        self, request: web.Request, upstream: Response, status: int, fields: MultiMapping[str]
    ) -> bool:
        """Have the topic fed by the origin's answer, if its status and its fields say that it is one of events."""
        if status != web.HTTPOk.status_code or not is_event_stream(fields):
            return False
        try:
            near = engines(request.transport)
            await self._hub._feed(self._topic, upstream, self._error_event, near)  # noqa: SLF001
        except PenstockError as error:
            if error.name not in _NOT_NEEDED:
                raise
            await upstream.aclose()
        self._answered()
        return True

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer with the topic."""
        return await self._hub.stream(
            request, self._topic, tenant=self._tenant, subscriptions=self._subscriptions
        )

    def _answered(self) -> None:
        """Those who wait look again."""
        if self._asked is not None and not self._asked.done():
            del _asking[self._hub][self._topic]
            self._asked.set_result(None)
