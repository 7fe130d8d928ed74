"""What a server without an application serves: the sites, routes, origins and gates of a `config.Server`.

Names are looked up here, and everything that needs no engine is made, so that a configuration is known to be good before
anything of it is used. What a later configuration says in the same way is carried over: origins with what is known of
their health, and gates with their keys and tenants.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock import _native
from penstock.config import (
    Caching,
    Edge,
    Forwarding,
    OriginHttp2,
    OriginTls,
    Server,
    ServerOrigin,
    ServerRoute,
)
from penstock.config.listen import Listen, parse_listen
from penstock.config.server import DEFAULT_ORIGIN
from penstock.configuration import Document, Fault, Faults, ServerGate, shown_path, suggestion
from penstock.engine import Engine
from penstock.exceptions import ConfigurationError
from penstock.origins import Origins, parse_origin, place_of

from .gates import Gates
from .relay_spec import RelaySpec, checked_host, handles_of, header_edits, is_prefix

__all__ = ["Plan", "RoutePlan", "SitePlan", "plan_of"]

_Path = tuple[str | int, ...]

# What an application does itself, and what it has an engine of its own for unless there are workers.
_WITHOUT_APP: Final = (
    *("lane", "routes", "origins", "gates", "sites", "caching", "forwarding", "timeouts"),
    *("origin_http2",),
)
_WITHOUT_ENGINE: Final = (*("threads", "pool", "flow", "reads", "cache", "limits", "origin_tls", "tracing"),)


class KnownOrigin(NamedTuple):
    """An origin by its name."""

    said: ServerOrigin
    made: str | Origins
    """A URL, or several origins that stand in for one another."""
    bases: tuple[str, ...]
    """The URLs without paths."""


class KnownGate(NamedTuple):
    """A gate by its name."""

    said: ServerGate
    made: Gates


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A route of a site."""

    host: str | None
    spec: RelaySpec
    gate: str | None
    """The name of its gate."""


@dataclass(frozen=True, slots=True)
class SitePlan:
    """A listener, and its routes."""

    listen: str
    edge: Edge
    routes: tuple[RoutePlan, ...]

    @property
    def place(self) -> Listen:
        """Host and port, the path of a Unix socket, or sockets that are there already."""
        return parse_listen(self.listen)

    @property
    def takes_free_port(self) -> bool:
        """Whether it listens at whatever port is free."""
        return isinstance(self.place, tuple) and self.place[1] == 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is served."""

    server: Server
    sites: tuple[SitePlan, ...]
    origins: dict[str, KnownOrigin]
    gates: dict[str, KnownGate]
    origin_tls: OriginTls
    origin_http2: OriginHttp2

    def natives(self, site: SitePlan, engine: Engine) -> list[_native.Route]:
        """The routes of `site` as `engine` serves them; on the running loop, which fetches the keys of gates."""
        return [self._native(route, engine) for route in site.routes]

    def _native(self, route: RoutePlan, engine: Engine) -> _native.Route:
        spec, gate = route.spec, None
        if engine.cache is None:
            # Another configuration than that of the start: it takes a restart to have a cache.
            spec = replace(spec, caching=None)
        if route.gate is not None:
            known = self.gates[route.gate]
            known.said.verifying._attend(engine)  # noqa: SLF001 (what the protocol is)
            gate = known.made.gate(engine, spec.name, route.host)
        return _native.Route(spec, handles_of(spec, engine, _native.Counts), route.host, None, gate)


def plan_of(server: Server, document: Document, faults: Faults, before: Plan | None = None) -> Plan | None:
    """What `server`, which `document` says, serves. None if it has faults, which are added to `faults`.

    Args:
        server: the configuration.
        document: has the places of what it says.
        faults: receives what is wrong.
        before: what is served now: what is said in the same way is the same object.
    """
    return _Planner(server, document, faults, before).plan()


class _Planner:
    def __init__(self, server: Server, document: Document, faults: Faults, before: Plan | None) -> None:
        self._server: Final = server
        self._document = document
        self._faults = faults
        self._before = before
        self._origins: dict[str, KnownOrigin] = {}
        self._gates: dict[str, KnownGate] = {}

    def _fault(self, path: _Path, text: str, *, is_combination: bool = False) -> None:
        place, text = self._document.place(path), self._document.redacted(text)
        self._faults.append(Fault(place, shown_path(path), text, is_combination))

    def plan(self) -> Plan | None:
        server, found = self._server, len(self._faults)
        self._check_parts()
        if server.app is None:
            if not server.routes and DEFAULT_ORIGIN not in server.origins:
                self._fault((), "it serves nothing: it has neither origin nor routes nor app")
            self._make_origins()
            self._make_gates()
        if server.cache is not None and not server.cache.fits(server.pool):
            is_option = bool(self._document.place(("cache", "memory")).option)
            text = f"at most half of {'--memory' if is_option else 'memory'}"
            self._fault(("cache", "memory"), text, is_combination=True)
        edge = replace(server.edge, tls=server.tls, http2=server.http2)
        sites = [SitePlan(server.listen, edge, self._routes(server.routes, ()))]
        for number, site in enumerate(server.sites):
            edge = replace(site.edge or server.edge, tls=site.tls, http2=site.http2)
            path: _Path = ("sites", number) if site.routes else ()
            made = SitePlan(site.listen, edge, self._routes(site.routes or server.routes, path))
            if made.place in [other.place for other in sites] and not made.takes_free_port:
                self._fault(("sites", number, "listen"), f"{site.listen!r}: another site listens there")
            sites.append(made)
        tls, http2 = self._origin_settings()
        if len(self._faults) > found:
            return None
        return Plan(server, tuple(sites), self._origins, self._gates, tls, http2)

    def _check_parts(self) -> None:
        """Refuse what has no effect with what else there is."""
        server = self._server
        if server.app is None:
            if server.workers is not None:
                self._fault(("workers",), "only with app; they are for the code of an application")
            if server.lane == "app":
                self._refuse(("routes", "sites", "gates"), "only with the lane native")
        else:
            self._refuse(_WITHOUT_APP, "only without app; an application makes its own gateways and routes")
            if server.workers is None:
                self._refuse(
                    _WITHOUT_ENGINE, "only without app, or with workers; an application makes its own engine"
                )

    def _refuse(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if self._document.find((name,)) is not None:
                self._fault((name,), why, is_combination=True)

    def _make_origins(self) -> None:
        for name, said in self._server.origins.items():
            known = None if self._before is None else self._before.origins.get(name)
            if known is None or known.said != said:
                try:
                    known = _known_origin(said)
                except ConfigurationError as error:
                    self._fault(("origins", name, "urls"), error.detail)
                    continue
            self._origins[name] = known
            if said.certificate is not None and not any(base.startswith("https:") for base in known.bases):
                where = ("origins", name, "certificate", "cert")
                self._fault(where, "only with an https origin", is_combination=True)

    def _make_gates(self) -> None:
        for name, said in self._server.gates.items():
            known = None if self._before is None else self._before.gates.get(name)
            if known is None or known.said != said:
                known = KnownGate(said, Gates(said.access, said.verifying._verifier()))  # noqa: SLF001 (the protocol)
            self._gates[name] = known

    def _origin_settings(self) -> tuple[OriginTls, OriginHttp2]:
        """Those of the engine: with the certificates, and the origins that are asked by HTTP/2."""
        shown = {
            base: known.said.certificate
            for known in self._origins.values()
            for base in known.bases
            if known.said.certificate is not None and base.startswith("https:")
        }
        by_http2 = [base for known in self._origins.values() if known.said.http2 for base in known.bases]
        server = self._server
        return (
            replace(server.origin_tls, certificates=shown),
            replace(server.origin_http2, origins=tuple(by_http2)),
        )

    def _routes(self, said: tuple[ServerRoute, ...], path: _Path) -> tuple[RoutePlan, ...]:
        if self._server.app is not None:
            return ()
        if not said:
            said = (ServerRoute(),) if DEFAULT_ORIGIN in self._origins else ()
        routes: list[RoutePlan] = []
        for number, each in enumerate(said):
            where = (*path, "routes", number)
            route = self._route(each, where)
            if route is None:
                continue
            if (route.host, route.spec.prefix) in [(other.host, other.spec.prefix) for other in routes]:
                self._fault((*where, "prefix"), f"{each.prefix!r}: another route has this prefix")
            routes.append(route)
        return tuple(routes)

    def _route(self, said: ServerRoute, path: _Path) -> RoutePlan | None:
        server, found = self._server, len(self._faults)
        if said.gate is not None and said.gate not in server.gates:
            self._fault((*path, "gate"), _no_such(said.gate, "gate", server.gates))
        origin = self._origin(said, (*path, "origin"))
        try:
            host = checked_host(said.prefix, said.host)
        except ConfigurationError as error:
            self._fault((*path, "prefix" if error.detail.startswith("prefix") else "host"), error.detail)
        rewrite = said.prefix if said.rewrite is None else said.rewrite
        if not is_prefix(rewrite):
            self._fault((*path, "rewrite"), f"{rewrite!r}: must be like '/vod/'")
        edits = []
        for replaced, added in (("headers", "add_headers"), ("response_headers", "add_response_headers")):
            try:
                edits.append(header_edits(replaced, getattr(said, replaced), getattr(said, added)))
            except ConfigurationError as error:
                self._fault((*path, replaced), error.detail)
        if len(self._faults) > found or origin is None:
            return None
        place = place_of(origin.made)
        spec = RelaySpec(
            name=said.name or said.prefix,
            origin=place,
            unix=None,
            prefix=said.prefix,
            replacement=f"{place.base}{rewrite}",
            forwarding=self._forwarding(said),
            timeouts=said.timeouts or origin.said.timeouts or server.timeouts,
            limits=said.limits,
            request=edits[0],
            response=edits[1],
            drain=said.drain,
            events=said.events,
            max_event=None,
            caching=self._caching(said),
            inspect=None,
        )
        return RoutePlan(host, spec, said.gate)

    def _origin(self, said: ServerRoute, path: _Path) -> KnownOrigin | None:
        if said.origin in self._server.origins:
            # None: it has a fault of its own.
            return self._origins.get(said.origin)
        if "://" not in said.origin:
            self._fault(path, _no_such(said.origin, "origin", self._server.origins))
            return None
        try:
            return _known_origin(ServerOrigin(urls=said.origin))
        except ConfigurationError as error:
            self._fault(path, error.detail)
            return None

    def _forwarding(self, said: ServerRoute) -> Forwarding:
        return said.forwarding or self._server.forwarding

    def _caching(self, said: ServerRoute) -> Caching | None:
        if self._server.cache is None or said.caching is False:
            return None
        return self._server.caching if said.caching is True else said.caching


def _known_origin(said: ServerOrigin) -> KnownOrigin:
    """Make what a route asks.

    Raises:
        ConfigurationError: a text is no URL, or the URLs do not go together.
    """
    urls = (said.urls,) if isinstance(said.urls, str) else said.urls
    texts = [url if isinstance(url, str) else url.url for url in urls]
    known = ServerOrigin(
        urls=said.urls, timeouts=said.timeouts, http2=said.http2, certificate=said.certificate
    )
    made: str | Origins
    if len(urls) == 1 and isinstance(urls[0], str) and known == said:
        made = urls[0]
    else:
        made = Origins(
            urls,
            balance=said.balance,
            key=said.key,
            health=said.health,
            check=said.check,
            retries=said.retries,
            name=said.name,
        )
    return KnownOrigin(said, made, tuple(_base(url) for url in texts))


def _base(url: str) -> str:
    """The URL of an origin without its path."""
    place = parse_origin(url)
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{place.scheme}://{host}:{place.port}"


def _no_such(name: str, what: str, known: Iterable[str]) -> str:
    return f"{name!r}: there is no [{what}s.{name}]" + suggestion(name, known)
