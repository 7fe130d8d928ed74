"""What became of requests, on its way from the parent to the application's `on_complete` in a worker."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

from penstock._limited_log import LimitedLog
from penstock.exceptions import PenstockError
from penstock.stats import Timings
from penstock.web.handover import Asked, OnComplete, RelayEnd, call_on_complete
from penstock.web.inspection import Inspected

from . import messages

__all__ = ["Ended", "Ends", "Hooks", "Orphan", "account_of"]

_log: Final = logging.getLogger("penstock.workers")
_limited: Final = LimitedLog(_log)

# Bytes of an end besides what a client has sent: objects of Python, roughly counted.
_ROW: Final = 1024
# Ends that one call takes along: a message stays short, and the calls are few (arbitrary).
_AT_ONCE: Final = 256


class Hooks(Protocol):
    """What the application has to say, in whichever worker."""

    async def call(self, name: str, *arguments: object) -> Any:
        """Call `name` in a live worker of the newest generation, and in another one if that dies meanwhile.

        Raises:
            ConnectionError: there is no worker.
        """


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a request on a native route."""

    route: tuple[str | None, str]
    end: RelayEnd

    def tell(self, told: Mapping[tuple[str | None, str], OnComplete]) -> None:
        """Call what the route has declared. A newer code may not have it any more."""
        on_complete = told.get(self.route)
        if on_complete is not None:
            call_on_complete(on_complete, self.end)


@dataclass(frozen=True, slots=True)
class Orphan:
    """The end of a relay whose worker is gone."""

    account: bytes
    sent: int
    error: PenstockError | None
    begun: bool
    timings: Timings | None
    inspected: Inspected | None

    def tell(self, _: Mapping[tuple[str | None, str], OnComplete]) -> None:
        """Call what the relay was given, which another worker finds by its name."""
        account = messages.load(self.account)
        if not isinstance(account, Account):
            raise TypeError(f"an account is a {type(account).__name__}")
        on_complete = account.found(import_module(account.module))
        end = RelayEnd(
            status=account.status if self.begun else None,
            bytes=self.sent,
            timings=self.timings,
            error=self.error,
            method=account.method,
            path=account.target,
            client=account.client,
            tenant=account.tenant,
            inspected=self.inspected,
        )
        call_on_complete(on_complete, end)


class Account(NamedTuple):
    """What a worker says of a relay to the one that tells its end in its place."""

    module: str
    path: str
    """Of its `on_complete`, in the module."""
    method: str
    target: str
    client: str | None
    tenant: str | None
    status: int

    def found(self, module: ModuleType) -> Any:
        """The `on_complete`.

        Raises:
            LookupError: what is there was not made there. So a worker names functions of the application, and none that
                a module has only imported.
        """
        found = _found(module, self.path)
        made = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
        if made != (self.module, self.path):
            message = f"{self.module}.{self.path} is no function of that module"
            raise LookupError(message)
        return found


messages.allow(Account, Ended, Orphan)


def _found(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found


def account_of(on_complete: OnComplete | None, asked: Asked, status: int) -> bytes | None:
    """What another worker needs to call `on_complete`; None without one, or if it has no name in its module."""
    if on_complete is None:
        return None
    module, path = getattr(on_complete, "__module__", None), getattr(on_complete, "__qualname__", "<")
    if not isinstance(module, str) or "<" in path:
        return None
    try:
        found = _found(sys.modules[module], path)
    except (AttributeError, KeyError):
        return None
    if found is not on_complete:
        return None
    account = Account(module, path, asked.method, asked.path, asked.client, asked.tenant, status)
    return messages.dump(account)[messages.LENGTH :]


class Ends:
    """Ends that are to be told, in their order. One that a dying worker was being told may be told twice.

    Args:
        hooks: who is told.
        most: bytes that they may take while they wait; more are dropped, and the log says how many.
    """

    def __init__(self, hooks: Hooks, most: int) -> None:
        self._hooks = hooks
        self._most = most
        self._waiting: deque[Ended | Orphan] = deque()
        self._bytes = 0
        self._dropped = 0
        self._telling: asyncio.Task[None] | None = None

    def add(self, end: Ended | Orphan) -> None:
        """Have `end` told. On the running loop."""
        size = _size(end)
        if self._bytes + size > self._most:
            self._dropped += 1
            return
        self._waiting.append(end)
        self._bytes += size
        self.resume()

    def resume(self) -> None:
        """Go on: there may be a worker."""
        if self._telling is None and self._waiting:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def told(self, seconds: float) -> None:
        """Wait until all ends so far have been told, or `seconds` are over."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=seconds)

    async def aclose(self) -> None:
        """Give up what waits."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})
        self._dropped += len(self._waiting)
        self._waiting.clear()
        self._say_dropped()

    async def _tell(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting[at] for at in range(min(_AT_ONCE, len(self._waiting)))]
                try:
                    await self._hooks.call("ended", batch)
                except ConnectionError:
                    # They stay until there is a worker.
                    return
                except Exception as error:  # noqa: BLE001 (it is told to the log, and the next ones are told)
                    message = "%d ends of requests could not be told"
                    _limited.log(logging.ERROR, ("ends", type(error)), message, len(batch), error=error)
                for end in batch:
                    self._waiting.popleft()
                    self._bytes -= _size(end)
                self._say_dropped()
        finally:
            self._telling = None

    def _say_dropped(self) -> None:
        if self._dropped:
            _log.error("%d ends of requests were dropped: no worker took them in time", self._dropped)
            self._dropped = 0


def _size(end: Ended | Orphan) -> int:
    """About what an end takes."""
    if isinstance(end, Orphan):
        usage = None if end.inspected is None else end.inspected.usage
        return _ROW + len(end.account) + len(repr(usage))
    return _ROW + len(end.end.path)
