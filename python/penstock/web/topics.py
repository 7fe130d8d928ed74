"""Routes by which the engine lets clients subscribe to the topics of a hub. Made by `penstock.Hub.native`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute, UrlDispatcher

from penstock import _native
from penstock.config import RouteLimits, Subscriptions
from penstock.engine import Engine
from penstock.exceptions import make_error

from .native import Changes, NativeResource, changes, checked_host
from .problem import problem_response
from .subscription import respond
from .target import Headers

if TYPE_CHECKING:
    from penstock.hub import Hub

__all__ = ["TopicsRoute", "topics_route"]

_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class TopicsRoute(web.AbstractRouteDef):
    """A route whose paths are topics of a hub. Made by `Hub.native`; given to `app.add_routes`.

    Among native routes the longest prefix wins, and a route with a host before one without.
    """

    hub: "Hub"
    prefix: str
    host: str | None
    subscriptions: Subscriptions
    limits: RouteLimits
    response: Changes
    name: str

    def register(self, router: UrlDispatcher) -> list[AbstractRoute]:
        """Add the route to an application; `app.add_routes` calls it."""
        resource = TopicsResource(self, router)
        router.register_resource(resource)
        return list(resource)

    def native(self, _: Engine, prefix: str | None = None) -> _native.Topics:
        """The route as an engine serves it, for a `prefix` that is longer in a sub-application."""
        return _native.Topics(
            self.name,
            self.host,
            self.prefix if prefix is None else prefix,
            self.hub.native_hub,
            self.subscriptions,
            self.limits,
            self.response.native(),
        )


class TopicsResource(NativeResource):
    """Such a route in an aiohttp router."""

    route: TopicsRoute

    def matches(self, request: web.Request) -> bool:
        """Whether `request` is one for this route: what is not a subscription is the application's."""
        return request.method in _METHODS and super().matches(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        route = self.route
        try:
            topic = unquote(request.rel_url.raw_path.removeprefix(self.prefix), errors="strict")
        except UnicodeDecodeError:
            return problem_response(make_error("BAD_TOPIC", "the rest of the path is not UTF-8"))
        return await respond(
            route.hub,
            request,
            topic,
            tenant=None,
            authorise=None,
            subscriptions=route.subscriptions,
            changes=route.response,
        )


def topics_route(
    hub: "Hub",
    prefix: str,
    *,
    host: str | None,
    subscriptions: Subscriptions,
    limits: RouteLimits,
    headers: Headers | None,
    add_headers: Iterable[tuple[str, str]],
    name: str,
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
        changes("response_headers", headers, add_headers),
        name,
    )
