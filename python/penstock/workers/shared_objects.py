"""A worker's side of what it shares with others: what its objects are called in the parent.

An object is declared when it is first used. The parent has one for all workers that declare the same; if a worker has
several that are the same, it is one for the first of each, one for the second, and so on.
"""

import asyncio
import logging
import threading
import weakref
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from penstock import _native, _shared
from penstock._limited_log import LimitedLog
from penstock._shared import Shared
from penstock.web.decisions import Answer, Decisions
from penstock.web.handover import Asked, OnComplete

from . import registration
from .descriptions import described
from .ends import Ended, Orphan, account_of
from .link import Calls, Link
from .plans import Plans
from .registration import Registration, RouteKey

__all__ = ["Declared", "join"]

_log: Final = LimitedLog(logging.getLogger("penstock.workers"))


def join(link: Link, calls: Calls) -> "Declared":
    """Have what is declared in this process from now on be the parent's; on the running loop, which `link` is of.

    Before anything of the application is imported.
    """
    declared = Declared(link, calls)
    _shared.join(declared)
    return declared


class Declared:
    """What this worker has declared, and how its parent calls what is the application's."""

    def __init__(self, link: Link, calls: Calls) -> None:
        self._link = link
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._numbers: weakref.WeakKeyDictionary[Shared, int] = weakref.WeakKeyDictionary()
        self._made: weakref.WeakValueDictionary[int, Shared] = weakref.WeakValueDictionary()
        # What was made before the application was described, in that order, so that it is the same in every worker.
        self._kept: list[weakref.ref[Shared]] | None = []
        self._ends: dict[RouteKey, OnComplete] = {}
        self._has_cache: bool | None = None
        self.lines: Final = _native.Lines()
        """What reaches the parent for no request."""
        link.handle("authorise", self._authorise)
        link.handle("ended", self._ended)

    @property
    def has_cache(self) -> bool:
        """Whether the parent's engine has a cache."""
        if self._has_cache is None:
            self._has_cache = bool(self._calls.call("has_cache"))
        return self._has_cache

    def describe(self, app: web.Application, connections: dict[str, Any] | None = None) -> Registration:
        """Describe `app`, and what it was told of `connections`, for the parent, which may call it from now on."""
        there = [shared for made in self._kept or () if (shared := made()) is not None]
        self._kept = None
        description = registration.describe(app, there, self, connections)
        self._ends = registration.callables(app)
        return description

    def keep(self, shared: Shared) -> None:
        """Take note of what was made that is to outlive the workers. What is made by the request is not."""
        if self._kept is not None:
            self._kept.append(weakref.ref(shared))

    def number(self, shared: Shared) -> int:
        """What `shared` is called in the parent."""
        known = self._numbers.get(shared)
        if known is not None:
            return known
        for earlier in self._before(shared):
            self.number(earlier)
        # Outside the lock: what it is made of may have to be declared as well.
        declaration = {name: described(value, self) for name, value in shared._declaration().items()}  # noqa: SLF001
        with self._lock:
            known = self._numbers.get(shared)
            if known is None:
                known = int(self._calls.call("declare", shared._KIND, declaration))  # noqa: SLF001
                self._numbers[shared] = known
                self._made[known] = shared
                weakref.finalize(shared, self._release, known).atexit = False
            return known

    def _before(self, shared: Shared) -> list[Shared]:
        """What is kept and was made before `shared`, which is kept as well."""
        kept = [one for made in self._kept or () if (one := made()) is not None]
        return kept[: kept.index(shared)] if shared in kept else []

    def plans(self, shared: Shared) -> Plans:
        """The descriptions of what the parent does for `shared`."""
        return Plans(self, shared)

    def account(self, on_complete: OnComplete, asked: Asked, status: int) -> bytes | None:
        """Describe how another worker calls `on_complete` if this one ends; see `ends.account_of`."""
        return account_of(on_complete, asked, status)

    def call(self, shared: Shared, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Have a method done in the parent, and wait for it; from any thread."""
        return self._calls.call("shared", self.number(shared), method, arguments, named)

    def ask(
        self, shared: Shared, method: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Awaitable[Any]:
        """The same of a coroutine function; from any loop."""
        if asyncio.get_running_loop() is self._loop:
            return self._link.call("shared", self.number(shared), method, arguments, named)
        return asyncio.to_thread(self.call, shared, method, arguments, named)

    def _release(self, number: int) -> None:
        # Wherever the collector runs, the link is the loop's; and when that is gone the parent knows anyway.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell_release, number)

    def _tell_release(self, number: int) -> None:
        with suppress(ConnectionError):
            self._link.tell("release", number)

    async def _authorise(self, number: int, row: tuple[Any, ...]) -> Answer:
        decisions = self._made.get(number)
        if not isinstance(decisions, Decisions):
            message = f"no decisions are declared here that are called {number}"
            raise LookupError(message)  # noqa: TRY004 (it has gone, mostly)
        return await decisions._asked(row)  # noqa: SLF001 (of the same package)

    def _ended(self, ends: list[Ended | Orphan]) -> None:
        for end in ends:
            try:
                end.tell(self._ends)
            except Exception as error:  # noqa: BLE001 (others are told as well)
                cause = ("on_complete", type(error))
                _log.log(logging.ERROR, cause, "an on_complete cannot be called", error=error)
