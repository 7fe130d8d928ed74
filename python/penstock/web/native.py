"""Routes that the engine answers alone, declared where an application declares its others.

`Gateway.native` makes one, and `app.add_routes` takes it. On a `penstock.web.Site` the engine serves it without
waking Python; on every other server the same route is a handler, which relays by the same rules.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from aiohttp import web
from aiohttp.abc import AbstractRouter
from aiohttp.web_urldispatcher import (
    AbstractResource,
    AbstractRoute,
    ResourceRoute,
    UrlDispatcher,
    UrlMappingMatchInfo,
)
from yarl import URL

from penstock import _native
from penstock.config import RouteLimits, parse_size
from penstock.engine import MAKE_CACHE, Engine
from penstock.exceptions import PenstockError, make_error
from penstock.framing import Events
from penstock.serving.relay_spec import RelaySpec, handles_of

from .decisions import Decisions
from .handler import engine_for
from .handover import Asked, OnComplete, RelayEnd, call_on_complete
from .inspection import inspected
from .prepared_relay import PreparedRelay
from .problem import problem_response
from .target import has_dot_segments

__all__ = ["NativeRoute", "native_resources", "native_routes"]


class Relayer(Protocol):
    """A `Gateway`, as its native routes use it."""

    _engine: Engine | None
    _framing: Events

    def _counts_of(self, name: str) -> _native.Counts: ...

    async def _relay_native(
        self,
        request: web.Request,
        route: "NativeRoute",
        resource: "RelayResource",
        permit: _native.Permit | None,
    ) -> web.StreamResponse: ...


class AnyRoute(Protocol):
    """A native route of either kind: it relays, or its paths are topics."""

    @property
    def host(self) -> str | None: ...
    @property
    def prefix(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> RouteLimits: ...
    @property
    def decisions(self) -> Decisions | None: ...

    def native(self, engine: Engine, prefix: str | None = None) -> _native.Route | _native.Topics: ...

    def given_engine(self) -> Engine | None: ...


@dataclass(frozen=True, slots=True)
class NativeRoute(web.AbstractRouteDef):
    """A route that the engine answers alone. Made by `Gateway.native`; given to `app.add_routes`.

    The longest prefix wins among native routes, and a route with a host before one without; what matches none goes
    to the application.
    """

    gateway: Relayer
    """The gateway that made it."""
    host: str | None
    """The host that it is for; None for every host."""
    spec: RelaySpec
    """What is done with the requests whose path begins with its prefix."""
    on_complete: OnComplete | None
    """What is called with each `RelayEnd`."""
    tenant: str | None
    """On whose account requests are."""
    decisions: Decisions | None = None
    """What is remembered of who may, where that is asked: to be revoked, and counted."""

    def register(self, router: UrlDispatcher) -> list[AbstractRoute]:
        """Add the route to an application; `app.add_routes` calls it."""
        resource = RelayResource(self, router)
        router.register_resource(resource)
        return list(resource)

    @property
    def prefix(self) -> str:
        """How paths begin that it is for."""
        return self.spec.prefix

    @property
    def name(self) -> str:
        """Its name in logs and metrics."""
        return self.spec.name

    @property
    def limits(self) -> RouteLimits:
        """What its requests may take, all together."""
        return self.spec.limits

    def native(self, engine: Engine, prefix: str | None = None) -> _native.Route:
        """The route as `engine` serves it, for a `prefix` that is longer in a sub-application."""
        if self.spec.caching is not None and engine.cache is None:
            raise make_error(
                "BAD_CONFIGURATION",
                f"the route {self.name} has caching, and its engine no cache: {MAKE_CACHE}",
            )
        spec = self.spec if prefix is None else replace(self.spec, prefix=prefix)
        return _native.Route(
            spec,
            handles_of(spec, engine, self.gateway._counts_of),  # noqa: SLF001
            self.host,
            None if self.on_complete is None else partial(_tell, self.on_complete, self.tenant),
            None if self.decisions is None else self.decisions._gate(engine, self.name, self.host),  # noqa: SLF001
        )

    def given_engine(self) -> Engine | None:
        """The engine that its gateway was given."""
        return self.gateway._engine  # noqa: SLF001


def _tell(on_complete: OnComplete, tenant: str | None, end: _native.RequestEnd) -> None:
    """Take the end of a request from the engine."""
    call_on_complete(
        on_complete,
        RelayEnd(
            status=end.status,
            bytes=end.bytes,
            timings=end.timings,
            error=end.error,
            method=end.method,
            path=end.target,
            client=end.client,
            tenant=end.tenant or tenant,
            inspected=inspected(end.report),
        ),
    )


class NativeResource(AbstractResource):
    """A native route in an aiohttp router: what serves it on stock transports."""

    route: AnyRoute

    def __init__(self, route: AnyRoute, router: UrlDispatcher) -> None:
        super().__init__(name=None)
        self.route = route
        self._router = router
        self.prefix = route.prefix
        self._limiter = _native.Limiter(route.name, route.limits)
        self._route = ResourceRoute("*", self._handle, self)

    @property
    def canonical(self) -> str:
        """The prefix, as aiohttp's index wants it: without the slash at its end."""
        return self.prefix.rstrip("/") or "/"

    def add_prefix(self, prefix: str) -> None:
        """Take the prefix of a sub-application."""
        self.prefix = prefix + self.prefix

    def url_for(self, **_: str) -> URL:
        """The URL of the prefix."""
        return URL.build(path=self.prefix, encoded=True)

    def get_info(self) -> dict[str, object]:  # type: ignore[override] # (aiohttp's keys, without its private type)
        """For introspection."""
        return {"path": self.canonical}

    def raw_match(self, path: str) -> bool:
        """Whether the route is the one that was declared with `path`."""
        return self.canonical == path

    async def resolve(self, request: web.Request) -> tuple[UrlMappingMatchInfo | None, set[str]]:
        """Match like the engine: by how the path begins on the wire, and by the host, which comes first."""
        if not self.matches(request):
            return None, set()
        best = self
        if self.route.host is None:
            # aiohttp asks by the length of the path alone.
            named = [
                other
                for other in self._router.resources()
                if isinstance(other, NativeResource) and other.route.host and other.matches(request)
            ]
            best = max(named, key=lambda other: len(other.prefix), default=self)
        (route,) = best
        return UrlMappingMatchInfo({}, route), set()

    def matches(self, request: web.Request) -> bool:
        """Whether `request` is one for this route, if no other is preferred."""
        path = request.rel_url.raw_path
        if not path.startswith(self.prefix) or has_dot_segments(request.raw_path):
            return False
        host = self.route.host
        return host is None or (request.url.raw_host or "").lower() == host

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[AbstractRoute]:
        return iter((self._route,))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            self._check_size(request)
            entered = self._limiter.enter()
        except PenstockError as error:
            self._note_refusal(request, error)
            return problem_response(error)
        try:
            return await self._let_in(request)
        finally:
            entered.leave()

    async def _let_in(self, request: web.Request) -> web.StreamResponse:
        route = self.route
        if route.decisions is None:
            return await self._answer(request, None)
        engine = engine_for(request, route.given_engine())
        permit = await route.decisions._enter(engine, request, route.name, route.host, self.prefix)  # noqa: SLF001
        if isinstance(permit, _native.Refused):
            self._note_refusal(request, permit.error)
            return problem_response(permit.error, permit.status, permit.detail, permit.challenge)
        cut = permit.cut()
        cut.add_done_callback(partial(_cut, request))
        try:
            return await self._answer(request, permit)
        finally:
            cut.cancel()
            permit.leave()

    def _note_refusal(self, request: web.Request, error: PenstockError) -> None:
        """Report a request that exceeds the route's limits."""

    @abstractmethod
    async def _answer(self, request: web.Request, permit: _native.Permit | None) -> web.StreamResponse:
        """Answer a request that is within the limits, and was let in by `permit` where that is asked."""

    def _check_size(self, request: web.Request) -> None:
        most, size = self.route.limits.body, request.content_length
        if most is not None and size is not None and size > parse_size(most):
            raise make_error("REQUEST_TOO_LARGE", f"the request body exceeds {most} bytes")


def _cut(request: web.Request, cut: "asyncio.Future[None]") -> None:
    """End a response that may not go on. What leads to the client is ours no more when it is over."""
    if not cut.cancelled() and request.transport is not None:
        request.transport.abort()


class RelayResource(NativeResource):
    """A route that relays, in an aiohttp router."""

    route: NativeRoute

    def __init__(self, route: NativeRoute, router: UrlDispatcher) -> None:
        super().__init__(route, router)
        self._prepared: PreparedRelay | None = None

    def prepared(self, engine: Engine) -> PreparedRelay:
        """The relay as `engine` carries it out, where no site serves the route."""
        known = self._prepared
        if known is None or known.engine is not engine:
            spec, gateway = replace(self.route.spec, prefix=self.prefix), self.route.gateway
            handles = handles_of(spec, engine, gateway._counts_of)  # noqa: SLF001
            known = self._prepared = PreparedRelay(spec, engine, gateway._framing, handles)  # noqa: SLF001
        return known

    def _note_refusal(self, request: web.Request, error: PenstockError) -> None:
        route = self.route
        asked = Asked(request.method, request.raw_path, request.remote, route.tenant, None)
        asked.tell(route.on_complete, (None, 0, None, error))

    async def _answer(self, request: web.Request, permit: _native.Permit | None) -> web.StreamResponse:
        return await self.route.gateway._relay_native(request, self.route, self, permit)  # noqa: SLF001


def native_routes(app: web.Application, engine: Engine) -> list[_native.Route | _native.Topics]:
    """The native routes of `app` and of its sub-applications, as `engine` serves them."""
    return [resource.route.native(engine, resource.prefix) for resource in native_resources(app)]


def engine_of(app: web.Application) -> Engine | None:
    """The engine that the gateways and hubs of an application's routes were given, for a site that was given none.

    What is fetched for a native route is fetched by the engine that serves it. A handler may relay by any engine; one
    whose gateway was given the only engine is served by that too. None: they were given none, or handlers several.

    Raises:
        ConfigurationError: native routes were given several.
    """
    native = {id(engine): engine for each in native_resources(app) if (engine := each.route.given_engine())}
    if len(native) > 1:
        rule = f"native routes have {len(native)} different engines: give the one that serves as engine= to the site"
        raise make_error("BAD_CONFIGURATION", rule)
    relays = (getattr(getattr(route.handler, "__self__", None), "_engine", None) for route in _routes(app))
    found = native or {id(engine): engine for engine in relays if isinstance(engine, Engine)}
    return next(iter(found.values())) if len(found) == 1 else None


def native_resources(app: web.Application) -> "list[NativeResource]":
    """What stands for native routes in `app` and in its sub-applications, in the order of their declaration."""
    resources = dict.fromkeys(route.resource for route in _routes(app))
    return [resource for resource in resources if isinstance(resource, NativeResource)]


def _routes(app: web.Application) -> Iterable[web.AbstractRoute]:
    # A router of the application's own need not say what its routes are; then none of them is native.
    router: AbstractRouter = app.router
    return router.routes() if isinstance(router, web.UrlDispatcher) else ()
