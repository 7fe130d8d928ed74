"""What a worker declares, and the parent serves: its native routes, and what they are made of.

A description is the declaration itself, field by field. What is the parent's stands in it by its number, and what is the
application's code by its name: the parent asks for it to be called (`hooks`), and never has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from aiohttp import web

from penstock import _shared, cache, hub, origins, stats, tokens
from penstock.log import LogStats
from penstock.serving.relay_spec import HeaderEdits, RelaySpec
from penstock.web import decisions
from penstock.web.handover import OnComplete, RelayEnd
from penstock.web.inspection import Inspected
from penstock.web.native import NativeRoute, native_resources
from penstock.web.topics import TopicsRoute

from . import messages
from .descriptions import Reference, described, described_spec

__all__ = ["Registration", "RouteDescription", "RouteKey", "describe"]

RouteKey = tuple[str | None, str]
"""Host and prefix, which no two native routes of an application have in common."""


@dataclass(frozen=True, slots=True)
class RouteDescription:
    """A native route."""

    kind: str
    """`relay` or `topics`."""
    prefix: str
    """With those of the applications around the one that it was declared in."""
    fields: dict[str, Any]
    """What the route is made of."""

    @property
    def key(self) -> RouteKey:
        """What the route is known by when it is spoken of."""
        return self.fields["host"], self.prefix


@dataclass(frozen=True, slots=True)
class Registration:
    """The parts of an application that outlive its workers. Workers with the same code have equal ones."""

    routes: tuple[RouteDescription, ...]
    """All native routes."""
    kept: tuple[Reference, ...]
    """What is there without a route as well."""
    connections: dict[str, Any] = field(default_factory=dict)
    """What the application was told of connections (`Application(handler_args=...)`), which are the parent's."""


ROUTES: Final[dict[str, type[NativeRoute | TopicsRoute]]] = {"relay": NativeRoute, "topics": TopicsRoute}


def describe(
    app: web.Application,
    kept: Iterable[_shared.Shared],
    home: _shared.Parent,
    connections: dict[str, Any] | None = None,
) -> Registration:
    """Describe the native routes of `app` and of its sub-applications, and declare to `home` what they are made of.

    Before that, `kept` is declared, which is there without a route as well.

    Raises:
        PenstockError: the parent cannot make it.
        TypeError: it has something that may not go over a link.
        ConnectionError: the parent is gone.
    """
    references = tuple(Reference(home.number(shared)) for shared in kept)
    found = []
    for resource in native_resources(app):
        route = resource.route
        assert isinstance(route, NativeRoute | TopicsRoute)  # noqa: S101 (there are no others)
        kind = "relay" if isinstance(route, NativeRoute) else "topics"
        parts = {each.name: _described(getattr(route, each.name), home) for each in fields(route)}
        found.append(RouteDescription(kind, resource.prefix, parts))
    return Registration(tuple(found), references, connections or {})


def _described(part: object, home: _shared.Parent) -> Any:
    return described_spec(part, home) if isinstance(part, RelaySpec) else described(part, home)


def callables(app: web.Application) -> dict[RouteKey, OnComplete]:
    """What is told the ends of requests on native routes."""
    return {
        (resource.route.host, resource.prefix): resource.route.on_complete
        for resource in native_resources(app)
        if isinstance(resource.route, NativeRoute) and resource.route.on_complete is not None
    }


messages.allow(
    *(Registration, RouteDescription),
    *(HeaderEdits, origins.Place, tokens.SignedUrl, tokens.Jwt, tokens.Jwks, tokens.Key),
    *(decisions.Allow, decisions.Deny, stats.DecisionStats, stats.TenantStats, decisions.Revoked),
    *(origins.OriginsStats, origins.OriginState, cache.CacheStats, cache.StoredResponse, stats.DiskStats),
    *(stats.InspectionStats, stats.Histogram, stats.Timings, RelayEnd, Inspected),
    *(hub.HubStats, hub.HubCounts, hub.TopicStats, LogStats),
)
