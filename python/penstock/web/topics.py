"""Routes by which the engine lets clients subscribe to the topics of a hub. Made by `penstock.Hub.native`."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute, UrlDispatcher

from penstock import _native
from penstock.config import RouteLimits, Subscriptions
from penstock.engine import Engine
from penstock.exceptions import make_error
from penstock.hub import BaseHub
from penstock.serving.relay_spec import HeaderEdits, Headers, checked_host, header_edits

from .decisions import Decisions
from .handler import engine_for
from .native import NativeResource
from .problem import problem_response
from .subscription import Authorise, respond

__all__ = ["TopicsRoute", "topics_route"]

_METHODS = ("GET", "HEAD")
# How soon after it was let in a subscription asks again at the earliest, in seconds. Arbitrary, as the engine's.
_LEAST = 1.0


@dataclass(frozen=True, slots=True)
class TopicsRoute(web.AbstractRouteDef):
    """A route whose paths are topics of a hub. Made by `Hub.native`; given to `app.add_routes`.

    Among native routes the longest prefix wins, and a route with a host before one without.
    """

    hub: BaseHub
    """Whose topics they are."""
    prefix: str
    """How paths begin that it is for; the rest is the name of a topic."""
    host: str | None
    """The host that it is for; None for every host."""
    subscriptions: Subscriptions
    """How subscribers are served."""
    limits: RouteLimits
    """What its requests may take, all together."""
    response: HeaderEdits
    """What is changed in the header fields of responses."""
    name: str
    """What it is called in logs and metrics."""
    decisions: Decisions | None = None
    """What is remembered of who may, where that is asked: to be revoked, and counted."""

    def register(self, router: UrlDispatcher) -> list[AbstractRoute]:
        """Add the route to an application; `app.add_routes` calls it."""
        resource = TopicsResource(self, router)
        router.register_resource(resource)
        return list(resource)

    def native(self, engine: Engine, prefix: str | None = None) -> _native.Topics:
        """The route as `engine` serves it, for a `prefix` that is longer in a sub-application."""
        gate = None if self.decisions is None else self.decisions._gate(engine, self.name, self.host)  # noqa: SLF001
        return _native.Topics(self.hub.native_hub, self, self.prefix if prefix is None else prefix, gate)

    def given_engine(self) -> Engine | None:
        """The engine that its hub was given."""
        return self.hub._given_engine  # noqa: SLF001


class TopicsResource(NativeResource):
    """Such a route in an aiohttp router."""

    route: TopicsRoute

    def matches(self, request: web.Request) -> bool:
        """Whether `request` is one for this route: what is not a subscription is the application's."""
        return request.method in _METHODS and super().matches(request)

    async def _answer(self, request: web.Request, permit: _native.Permit | None) -> web.StreamResponse:
        route = self.route
        try:
            path = request.rel_url.raw_path
            if permit is not None and permit.target is not None:
                path = permit.target.partition("?")[0]
            topic = unquote(path.removeprefix(self.prefix), errors="strict")
        except UnicodeDecodeError:
            return problem_response(make_error("BAD_TOPIC", "the rest of the path is not UTF-8"))
        return await respond(
            route.hub,
            request,
            topic,
            tenant=None if permit is None else permit.tenant,
            authorise=None if permit is None else self._renewing(permit),
            subscriptions=route.subscriptions,
            headers=route.response,
            admitted=permit,
        )

    def _renewing(self, permit: _native.Permit) -> Authorise:
        """What says for how long a subscription may go on: first by what it was let in by, and then by asking anew."""
        first: list[float] = [permit.left]
        decisions = self.route.decisions
        assert decisions is not None  # noqa: S101 (it has given the permit)

        async def renew(request: web.Request, _: str) -> float:
            if first:
                return max(first.pop(), _LEAST)
            route = self.route
            engine = engine_for(request, route.given_engine())
            again = await decisions._enter(engine, request, route.name, route.host, self.prefix)  # noqa: SLF001
            if isinstance(again, _native.Refused):
                return 0
            left = again.left
            again.leave()
            return max(left, _LEAST)

        return renew


def topics_route(
    hub: BaseHub,
    prefix: str,
    *,
    host: str | None,
    subscriptions: Subscriptions,
    limits: RouteLimits,
    headers: Headers | None,
    add_headers: Iterable[tuple[str, str]],
    name: str,
    decisions: Decisions | None,
) -> TopicsRoute:
    """Check what a route is made of, and make it.

    Raises:
        ConfigurationError: one of these cannot be.
    """
    return TopicsRoute(
        hub,
        prefix,
        checked_host(prefix, host),
        subscriptions,
        limits,
        header_edits("response_headers", headers, add_headers),
        name,
        decisions,
    )
