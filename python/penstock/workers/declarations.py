"""The parent's side of what workers declare: one object for all workers that declare the same.

Objects outlive the workers: a new one that declares what is there already gets that, and so does a new generation. An
object that no worker declares any more goes, unless the application that is being served keeps it, or its routes
have it.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from penstock import _native
from penstock._shapes import misfit
from penstock._shared import Shared, methods_of
from penstock.cache import Cache
from penstock.engine import Engine
from penstock.exceptions import PenstockError, make_error
from penstock.framing import Events
from penstock.origins import Origins
from penstock.serving.relay_spec import RelaySpec, handles_of
from penstock.stream import FrameStream
from penstock.web.decisions import Answer, Decisions, NativeRequest, row_of
from penstock.web.gateway import Gateway
from penstock.web.handover import RelayEnd
from penstock.web.hub import Hub
from penstock.web.inspection import inspected

from . import plans
from .descriptions import Code, Reference, SpecDescription
from .ends import Ended, Ends, Hooks, Orphan
from .messages import UnreadableError
from .registration import ROUTES, Registration, RouteDescription

__all__ = ["Declarations"]

_KINDS: Final[dict[str, type[Shared]]] = {cls._KIND: cls for cls in (Cache, Decisions, Gateway, Hub, Origins)}
_METHODS: Final = {cls._KIND: methods_of(cls) for cls in (Cache, Decisions, Gateway, Hub, Origins)}


@dataclass(eq=False, slots=True)
class _Entry:
    kind: str
    declaration: dict[str, Any]
    made: Shared
    holders: set[int] = field(default_factory=set)
    """Workers that have declared it."""


class Declarations:
    """What workers have declared. Of the running loop.

    Args:
        engine: what serves it.
        hooks: who calls what is the application's.
        ends: bytes that ends of requests may take while they wait for a worker (`config.Edge.app_ends`).
    """

    def __init__(self, engine: Engine, hooks: Hooks, *, ends: int) -> None:
        self._engine = engine
        self._hooks = hooks
        self.ends = Ends(hooks, ends)
        self._numbers = itertools.count(1)
        self._entries: dict[int, _Entry] = {}
        # What is kept, and what the routes are made of, of what is served and of what will be: it stays whatever becomes
        # of the workers.
        self._served: frozenset[int] = frozenset()
        self._coming: frozenset[int] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()

    def handlers(self, worker: int) -> dict[str, Callable[..., Any]]:
        """What `worker` may call, by name, for its `Link`."""
        return {
            "declare": partial(self._declare, worker),
            "release": partial(self._release, worker),
            "shared": self._call,
            "has_cache": lambda: self._engine.cache is not None,
        }

    def left(self, worker: int) -> None:
        """Take note that a worker has ended."""
        for number in list(self._entries):
            self._release(worker, number)

    def joined(self) -> None:
        """Take note that a worker is ready: what waited for one goes on."""
        self.ends.resume()

    def routes(self, registration: Registration) -> list[_native.Route | _native.Topics]:
        """The routes of a registration, as the engine serves them.

        Raises:
            PenstockError: the engine cannot serve one of them.
        """
        try:
            self._coming = frozenset(self._meant(registration))
            return [self._route(description) for description in registration.routes]
        except PenstockError:
            raise
        except Exception as error:
            # A worker can declare anything of the right types, so that what makes routes of it can raise anything.
            text = f"a worker has declared what cannot be, or has gone meanwhile: {error}"
            raise make_error("BAD_CONFIGURATION", text) from error

    def serve(self, registration: Registration) -> None:
        """Take note that these routes are served from now on.

        What the hooks of other workers have said is forgotten, since it was another code that has said it: each is asked
        anew. Responses that run go on, and what tenants have had stays counted.
        """
        before, self._served = self._served, frozenset(self._meant(registration))
        self._coming = frozenset()
        # The first workers of a process forget nothing: it may have decisions of the process before.
        for number in self._served & before:
            made = self._entries[number].made
            if isinstance(made, Decisions) and made.has_hook:
                made.revoke(everybody=True, running="go on")
        for number in list(self._entries):
            self._drop_unused(number)

    def plan(self, description: bytes) -> _native.Plan:
        """What a worker's relay is fetched by, or its subscription served: for `_native.Workers`.

        That asks once for each description.

        Raises:
            PenstockError: the engine cannot do it.
        """
        try:
            plan = plans.read(description)
            if isinstance(plan, plans.Topics):
                return self._hub(plan.hub).native_hub.plan(plan.subscriptions)
            spec = self._spec(plan.spec)
            # Each has a length, which the engine would not ask for.
            Events(max_frame=spec.max_event or 0, blocks=True)
            handles = handles_of(spec, self._engine, self._counting(plan.gateway))
            return _native.Plan(_native.Relay(spec, handles, self._engine.native))
        except (UnreadableError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise make_error("BAD_CONFIGURATION", f"a worker asks for what is no relay: {error}") from error

    def feed(self, wanted: _native.FeedRequest) -> None:
        """Have a topic fed by what a worker has had fetched: for `_native.Workers`."""
        feeding = self._feed(wanted, FrameStream(wanted.source))
        self._keep(asyncio.get_running_loop().create_task(feeding))

    async def _feed(self, wanted: _native.FeedRequest, stream: FrameStream) -> None:
        answer = wanted.answer
        try:
            await self._hub(wanted.hub).feed(wanted.topic, stream, error_event=wanted.error_event)
        except PenstockError as error:
            await stream.aclose()
            answer.failed(error.name, error.detail, error.origin)
        except LookupError as error:
            await stream.aclose()
            answer.failed("BAD_CONFIGURATION", str(error), None)
        else:
            answer.done()

    def orphan(self, end: _native.OrphanEnd) -> None:
        """Have another worker told of the end of a relay whose own is gone: for `_native.Workers`."""
        seen = inspected(end.report)
        self.ends.add(Orphan(end.account, end.bytes, end.error, end.begun, end.timings, seen))

    async def told(self, seconds: float) -> None:
        """Wait until what has ended so far has been told, or `seconds` are over."""
        await self.ends.told(seconds)

    async def aclose(self) -> None:
        """Tell no more ends, and drop everything."""
        await self.ends.aclose()
        for number in list(self._entries):
            self._dismiss(number)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _declare(self, worker: int, kind: str, declaration: dict[str, Any]) -> int:
        for number, entry in self._entries.items():
            known = entry.kind == kind and entry.declaration == declaration
            if known and worker not in entry.holders:
                entry.holders.add(worker)
                return number
        cls = _KINDS.get(kind)
        if cls is None:
            raise make_error("BAD_CONFIGURATION", f"{kind!r} is nothing that a worker declares")
        number = next(self._numbers)
        arguments = {name: self._part(value, number) for name, value in declaration.items()}
        made = _make(cls, self._engine, arguments)
        made._declared()  # noqa: SLF001 (of the same package)
        self._entries[number] = _Entry(kind, declaration, made, {worker})
        return number

    def _release(self, worker: int, number: int) -> None:
        entry = self._entries.get(number)
        if entry is not None:
            entry.holders.discard(worker)
            self._drop_unused(number)

    def _drop_unused(self, number: int) -> None:
        kept = number in self._served or number in self._coming
        if not kept and not self._entries[number].holders:
            self._dismiss(number)

    def _dismiss(self, number: int) -> None:
        leaving = self._entries.pop(number).made._dismissed()  # noqa: SLF001 (of the same package)
        self._keep(asyncio.get_running_loop().create_task(leaving))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _call(self, number: int, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        entry = self._entry(number)
        function, made = _METHODS[entry.kind].get(method), entry.made
        if function is None:
            message = f"workers do not call {method!r}"
            raise LookupError(message)
        if isinstance(made, Cache):
            # It looks at all that is stored.
            return asyncio.to_thread(function, made, *arguments, **named)
        return function(made, *arguments, **named)

    def _counting(self, number: int | None) -> Callable[[str], _native.Counts]:
        """Where the gateway of that number counts the responses that it has inspected."""

        def counts(name: str) -> _native.Counts:
            gateway = None if number is None else self._object(number)
            if not isinstance(gateway, Gateway):
                raise TypeError("it is inspected by no gateway")
            counts = gateway._counts_of(name)  # noqa: SLF001 (of the same package)
            counts.add_to(self._engine.native)
            return counts

        return counts

    def _spec(self, description: SpecDescription) -> RelaySpec:
        parts: dict[str, Any] = {
            name: self._object(value.number) if isinstance(value, Reference) else value
            for name, value in description.fields.items()
        }
        spec = RelaySpec(**parts)
        wrong = misfit(RelaySpec, spec)
        if wrong is not None:
            raise TypeError(wrong)
        return spec

    def _object(self, number: int) -> Shared:
        return self._entry(number).made

    def _hub(self, number: int) -> Hub:
        made = self._object(number)
        if not isinstance(made, Hub):
            message = f"no hub is declared that is called {number}"
            raise LookupError(message)  # noqa: TRY004 (what a worker calls it is wrong)
        return made

    def _entry(self, number: int) -> _Entry:
        entry = self._entries.get(number)
        if entry is None:
            message = f"nothing is declared that is called {number}"
            raise LookupError(message)
        return entry

    def _part(self, value: object, number: int) -> Any:
        """An argument of the declaration that is called `number`."""
        if isinstance(value, Reference):
            return self._object(value.number)
        return _Asking(self._hooks, number) if isinstance(value, Code) else value

    def _route(self, description: RouteDescription) -> _native.Route | _native.Topics:
        parts: dict[str, Any] = {}
        for name, value in description.fields.items():
            if isinstance(value, Reference):
                parts[name] = self._object(value.number)
            elif isinstance(value, Code):
                parts[name] = partial(self._tell, description.key)
            elif isinstance(value, SpecDescription):
                parts[name] = self._spec(value)
            else:
                parts[name] = value
        return ROUTES[description.kind](**parts).native(self._engine, description.prefix)

    def _tell(self, route: tuple[str | None, str], end: RelayEnd) -> None:
        self.ends.add(Ended(route, end))

    def _meant(self, registration: Registration) -> Iterable[int]:
        """What is kept, what routes are made of, and what that is made of."""
        values = [value for route in registration.routes for value in route.fields.values()]
        values.extend(registration.kept)
        while values:
            value = values.pop()
            if isinstance(value, Reference):
                yield value.number
                values.extend(self._entry(value.number).declaration.values())
            elif isinstance(value, SpecDescription):
                values.extend(value.fields.values())


def _make(cls: type[Shared], engine: Engine, arguments: dict[str, Any]) -> Shared:
    """Make the parent's object for a declaration."""
    if issubclass(cls, Cache):
        assert engine.cache is not None  # noqa: S101 (workers know whether the parent has a cache)
        return engine.cache
    if issubclass(cls, Gateway | Hub):
        return cls(engine=engine, **arguments)
    return cls(**arguments)


class _Asking:
    """A hook, for the parent's engine: asks the application's."""

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks = hooks
        self._number = number

    async def __call__(self, request: NativeRequest) -> Answer:
        answer: Answer = await self._hooks.call("authorise", self._number, row_of(request))
        return answer
