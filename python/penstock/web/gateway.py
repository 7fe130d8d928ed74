"""The gateway: answers a request of an aiohttp application with what an origin answers.

It decides where a request goes and by what rules: what it was made with, or what a relay or a route says instead.
How that is carried out is in `relay`, and on native routes in the engine.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from aiohttp import web

from penstock import _arguments, _native
from penstock._shared import Shared, shared
from penstock.config import (
    Access,
    Caching,
    Drain,
    EventRelay,
    Forwarding,
    Inspection,
    Overrides,
    RouteLimits,
    Subscriptions,
    Timeouts,
    parse_size,
)
from penstock.engine import MAKE_CACHE, Engine
from penstock.exceptions import RequestError, make_error
from penstock.framing import Events
from penstock.origins import Origins, Place, place_of
from penstock.serving.relay_spec import (
    NO_EDITS,
    HeaderEdits,
    RelaySpec,
    checked_host,
    event_handles,
    handle_of,
    handles_of,
    header_edits,
)
from penstock.stats import InspectionStats

from .access import TENANT, note
from .decisions import Authoriser, Decisions, Verifying, decisions_of
from .handler import engine_for
from .handover import OnComplete, engines
from .hub import Hub
from .inspection import Seen, check_one, plain_headers, route_path
from .native import NativeRoute, RelayResource
from .options import RelayOptions, RouteOptions, check_size
from .prepared_relay import PreparedRelay
from .relay import Order, relay
from .relay_response import hand_over_request, is_unseen
from .target import raw_target, replaced_target
from .topic_feed import Feeding
from .tunnel import offers_websocket

__all__ = ["Gateway"]


class Gateway(Shared):
    """An origin, and how requests are relayed to it.

    Args:
        origin: `http://host:port` or `https://host`; a path stands in front of the paths that are asked for. Or several
            that stand in for one another.
        engine: what fetches; by default that of the `Site` or `run_app` that a request came by, and on other servers
            the one that the process shares (`penstock.default_engine`).
        forwarding: what each side is told of the other.
        timeouts: limits on time in place of the engine's.
        prefix: what stands in front of the origin's paths here and is not sent, such as `/live`.
        max_event: the longest event of a text/event-stream that is relayed, in bytes.
        unix: path of a Unix socket to reach the origin by, if it is a single one.
        caching: how all of it uses the engine's cache, where a route or a relay does not say otherwise. By default
            nothing does.
        events: what is done with event streams besides relaying them, where a route or a relay does not say otherwise.
            By default they are relayed as they are.
        inspect: what responses are looked at for, where a route or a relay does not say otherwise. By default they are
            not looked at.

    Raises:
        ConfigurationError: `origin` or `prefix` makes no URL; there are several origins and `unix`; there is `caching`,
            and no engine with a cache; or there are both `caching` and `inspect`.
    """

    _KIND = "gateway"

    def __init__(
        self,
        origin: str | Origins,
        *,
        engine: Engine | None = None,
        forwarding: Forwarding | None = None,
        timeouts: Timeouts | None = None,
        prefix: str = "",
        max_event: int | str = "1MiB",
        unix: str | os.PathLike[str] | None = None,
        caching: Caching | None = None,
        events: EventRelay | None = None,
        inspect: Inspection | None = None,
    ) -> None:
        _arguments.instance("engine", engine, Engine, "a penstock.Engine, or None for the shared one")
        _arguments.FORWARDING("forwarding", forwarding)
        _arguments.TIMEOUTS("timeouts", timeouts)
        _arguments.text("prefix", prefix, "'/live'", optional=False)
        _arguments.path("unix", unix)
        _arguments.CACHING("caching", caching)
        _arguments.EVENTS("events", events)
        _arguments.INSPECTION("inspect", inspect)
        check_size("max_event", max_event)
        _check_prefix(prefix)
        if unix is not None and isinstance(origin, Origins):
            raise make_error("BAD_CONFIGURATION", "unix is of a single origin; of several each has its own")
        unix = None if unix is None else os.fspath(unix)
        self._said: Final = {
            "origin": origin,
            "forwarding": forwarding,
            "timeouts": timeouts,
            "prefix": prefix,
            "max_event": max_event,
            "unix": unix,
            "caching": caching,
            "events": events,
            "inspect": inspect,
        }
        self._origin, self._engine, self._prefix = place_of(origin), engine, prefix
        self._unix = unix
        self._framing = Events(max_frame=max_event, blocks=True)
        self._events = events
        self._policies: dict[EventRelay, _native.EventPolicy] = {}
        self._limits = timeouts
        self._policy = forwarding or Forwarding()
        self._relays: dict[tuple[Engine, _Kind], PreparedRelay] = {}
        self._caching = caching
        self._inspect = inspect
        self._counts: dict[str, _native.Counts] = {}
        self._counting: set[asyncio.Task[None]] = set()
        self._plans = None if self._parent is None else self._parent.plans(self)
        # A relay without options; None if they are not the same for all requests of an engine.
        self._plain: _Kind | None = None
        if self._plans is None and caching is None and inspect is None:
            self._plain = _Kind(self._origin, None, None, events, None, "", is_mapped=True, is_planned=False)
        if self._parent is not None and inspect is not None:
            self._parent.keep(self)
        if caching is not None:
            self._check("the gateway")
        check_one(caching, inspect, "the gateway")

    def _declaration(self) -> dict[str, Any]:
        return self._said

    async def relay(
        self,
        request: web.Request,
        *,
        path: str | None = None,
        origin: str | Origins | None = None,
        headers: Mapping[str, str | None] | None = None,
        timeouts: Timeouts | None = None,
        tenant: str | None = None,
        on_complete: OnComplete | None = None,
        caching: Caching | None = None,
        overrides: Overrides | None = None,
        events: EventRelay | None = None,
        inspect: Inspection | None = None,
        topic: str | None = None,
        hub: Hub | None = None,
        subscriptions: Subscriptions | None = None,
    ) -> web.StreamResponse:
        """Answer `request` with what the origin answers to it. A handler like any other.

        A failure before the origin's head is answered with 502, 503 or 504 and a body of
        application/problem+json (RFC 9457) that has the stable code of the failure.

        A WebSocket is relayed as one: its handshake is checked on both sides (RFC 6455, sections 4.1 and 4.2), and the
        call returns at its end. `caching`, `overrides`, `events`, `inspect` and `topic` are not for it.

        Args:
            request: what the client has sent. Nothing may have been sent back yet.
            path: in place of the request's path, percent-encoded; with a `?` in place of its query as well.
            origin: in place of the gateway's.
            headers: fields to send to the origin in place of those of the same names, be they the client's or the
                gateway's own; None sends none.
            timeouts: limits on time in place of the gateway's.
            tenant: on whose account this is; left at `request[penstock.web.TENANT]`, for logs.
            on_complete: called once, with a `RelayEnd`, when the relay is over, however it ends.
            caching: how the engine's cache is used, in place of the gateway's. What native routes, relays and
                `Engine.request` store is one, and so is what they wait for.
            overrides: what is decided about this request alone: its key, for how long what it brings is fresh, tags, or
                that it goes past the cache.
            events: what is done with an event stream besides relaying it, in place of the gateway's.
                `Drain.concurrency` counts the relays of this gateway with equal `events` together.
            inspect: what the response is looked at for, in place of the gateway's. `on_complete` gets what was seen,
                and `stats` counts it by the path of the route that the application has `request` handled by.
            topic: makes an event stream resumable: the first request with this topic asks the origin, and all requests
                of the topic get the transcript so far and then new events, from `hub`, after the event that they had
                (`Last-Event-ID`). The origin is read to its end, even if all clients leave. Any other response is
                relayed to the client that asked first; the others then ask themselves. `on_complete` and `inspect` are
                then of the origin's stream, once, with its bytes and its end, and of the request that had it asked.
            hub: where the topic is. Its history should hold a whole transcript.
            subscriptions: how those are served; by default from the start on.

        Returns:
            The response, or the answer to a failure. On a `penstock.web.Site` the engine is sending its body from now
            on, and tells only `on_complete` the outcome; on other servers it has been relayed to its end.
            Where this is itself the handler of the route, and nothing looks at what it returns, the engine has the
            request, nothing has been fetched yet, and what is returned has neither the status nor the fields.

        Raises:
            PenstockError: the origin failed after its head was relayed, and before the body was left to the engine.
                The client has been cut off so that it cannot take what it has for the whole.
            CancelledError: the client left, and the upstream request has been cancelled; CLIENT_GONE is the
                cause. aiohttp expects it, and logs nothing. Or else the task was cancelled from elsewhere;
                both sides have been cut off then.
            ConfigurationError: `origin` makes no URL; `caching` was given, and the engine has no cache; `overrides`,
                and there is no caching; both `caching` and `inspect`; or `topic` without `hub`.
            RequestError: `path` does not begin with a slash.
        """
        # Without options, as nearly all are, this saves 30,000 of the 235,000 instructions of a relay of 64 KiB.
        given = (path, origin, headers, timeouts, caching, overrides, events, inspect)
        given_besides = (tenant, on_complete, topic, hub, subscriptions)
        has_options = given != (None,) * 8 or given_besides != (None,) * 5
        if self._plain is not None and not has_options and type(request) is web.Request:
            prepared = self._prepared(engine_for(request, self._engine), self._plain)
            if is_unseen(request, self, Gateway.relay):
                handed = self._hand_over(request, prepared, None)
                if handed is not None:
                    return handed
            asks_for = partial(raw_target, request, self._origin.base, self._prefix)
            return await relay(request, Order(prepared, asks_for, prepared.forwarding(fills=False), None))
        return await self._relay(request, RelayOptions(*given, *given_besides))

    async def _relay(self, request: web.Request, options: RelayOptions) -> web.StreamResponse:
        """As `relay`, by what is said of this request alone."""
        if not isinstance(request, web.BaseRequest):
            raise _arguments.bad("request", request, "the request that the handler was called with")
        options = options.checked()
        if options.tenant is not None:
            request[TENANT] = options.tenant
            note(request, tenant=options.tenant)
        options = options.completed(self._caching, self._events, self._inspect)
        caching, inspect, topic = options.caching, options.inspect, options.topic
        engine = engine_for(request, self._engine)
        where = self._origin if options.origin is None else place_of(options.origin)
        target = None if options.path is None else replaced_target(request, where.base, options.path)
        # What feeds a topic and is seen is fetched here: it is no client's, whom the parent could tell the end of.
        is_seen_feed = options.is_seen_feed
        is_planned = not is_seen_feed and self._has_parent(request)
        name = "" if caching is None and inspect is None else route_path(request)
        edits = None if options.headers is None else tuple(options.headers.items())
        is_mapped = options.path is None
        kind = _Kind(where, options.timeouts, caching, options.events, inspect, name, is_mapped, is_planned)
        is_plain = options.on_complete is None and options.overrides is None and topic is None
        if is_plain and not is_planned and is_unseen(request, self, Gateway.relay):
            handed = self._hand_over(request, self._prepared(engine, kind._replace(headers=edits)), target)
            if handed is not None:
                return handed
        prepared = self._prepared(engine, kind)
        order = Order(
            prepared,
            lambda: target or raw_target(request, where.base, self._prefix),
            prepared.forwarding(fills=_fills(request, caching, options.overrides)),
            edits,
            options.overrides,
            options.on_complete,
            options.tenant,
            None if inspect is None else self._seen(inspect, name, apart=is_seen_feed),
            self._plan(prepared.spec) if is_planned else None,
            self._parent,
        )
        if topic is not None and not offers_websocket(request):
            if options.hub is None:
                raise make_error("BAD_CONFIGURATION", "topic: give the hub as well where it is to be")
            feeding = Feeding(options.hub, topic, options.tenant, options.subscriptions, options.events)
            return await feeding.respond(request, partial(relay, request, replace(order, feeding=feeding)))
        return await relay(request, order)

    def _hand_over(
        self, request: web.Request, prepared: PreparedRelay, target: str | None
    ) -> web.StreamResponse | None:
        """Have the engine answer `request`, if it can."""
        if target is None:
            try:
                target = raw_target(request, prepared.spec.origin.base, self._prefix)
            except RequestError:
                # It is answered, logged and noted as any other failure.
                return None
        return hand_over_request(request, prepared, target)

    def native(
        self,
        prefix: str,
        *,
        host: str | None = None,
        origin: str | Origins | None = None,
        rewrite: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        add_headers: Iterable[tuple[str, str]] = (),
        response_headers: Mapping[str, str | None] | None = None,
        add_response_headers: Iterable[tuple[str, str]] = (),
        timeouts: Timeouts | None = None,
        limits: RouteLimits | None = None,
        drain: Drain | int | str | None = None,
        events: EventRelay | None = None,
        caching: Caching | None = None,
        inspect: Inspection | None = None,
        on_complete: OnComplete | None = None,
        tenant: str | None = None,
        authorise: Authoriser | Verifying | Decisions | None = None,
        decision_key: str | Sequence[str] | None = None,
        lifetime: float | None = None,
        access: Access | None = None,
        name: str | None = None,
    ) -> NativeRoute:
        """Declare a route that the engine answers alone, without waking Python.

        Give it to the application: `app.add_routes([gateway.native("/vod/")])`.

        On `penstock.web.Site` the engine serves it. On any other server the same route is a handler that relays by
        the same rules.

        Args:
            prefix: how the path of a request begins, percent-encoded as on the wire; from slash to slash. Paths with
                dot segments match no native route.
            host: the host that must be asked for, without a port; any by default.
            origin: in place of the gateway's.
            rewrite: what stands in place of `prefix` at the origin; by default the same, without the gateway's own.
            headers: fields to send to the origin in place of those of the same names; None sends none.
            add_headers: fields to send to the origin besides those of the same names.
            response_headers: the same for the response on its way to the client.
            add_response_headers: the same for the response on its way to the client.
            timeouts: limits on time in place of the gateway's.
            limits: how much the route serves at most.
            drain: how a response is read on when its client has left, so that the origin can finish; a size is short
                for `config.Drain(bytes=...)`. By default the origin is cancelled at once.
            events: what is done with event streams besides relaying them, in place of the gateway's.
            caching: how the route uses the engine's cache, in place of the gateway's. The engine is the site's, or the
                gateway's where a server of another kind serves the route.
            inspect: what responses are looked at for, in place of the gateway's. `on_complete` gets what was seen, and
                `stats` counts it by the route's name.
            on_complete: called once for each request, on the event loop, with a `RelayEnd`, when the request is over,
                however it ends. The engine does not wait for it: if Python is stalled for so long that
                `config.Edge.app_ends` is full, ends are dropped, and the log says how many.
            tenant: on whose account the route is, for `on_complete`, where `authorise` says nothing else.
            authorise: who may. A hook is called on the event loop with a `NativeRequest`, once for each key, and
                returns an `Allow`, a `Deny`, True, or False; requests of the same key wait for its answer, and the
                engine remembers it. One that fails, or takes too long, has refused (500, 503), which is not remembered.
                Or the `decisions` of another route, to share hook and memory with it. Or what verifies by itself, a
                `penstock.tokens.SignedUrl` or `Jwt`, without a `decision_key`. By default all may.
            decision_key: the parts of a request that the hook decides by: `header:NAME`, `cookie:NAME`, `query:NAME`,
                `path:COUNT` (so many segments after the prefix), `address`, `host`, `method`; several together.
                Requests that have the same get the same answer, so a hook must decide by nothing else.
            lifetime: seconds for which it is remembered that a request is let in, in place of that of `access`.
            access: how much is remembered, and how it is asked.
            name: what the route is called in logs and counts; its prefix by default.

        Raises:
            ConfigurationError: one of these cannot be.
        """
        said = RouteOptions(
            prefix,
            host,
            origin,
            rewrite,
            headers,
            add_headers,
            response_headers,
            add_response_headers,
            timeouts,
            limits,
            drain,
            events,
            caching,
            inspect,
            tenant,
            name,
        ).checked()
        _arguments.call("on_complete", on_complete, "a function that takes a RelayEnd")
        _arguments.number("lifetime", lifetime, "seconds")
        _arguments.ACCESS("access", access)
        host, spec = checked_host(prefix, host, rewrite), self._spec(said)
        decisions = decisions_of(authorise, decision_key, lifetime, access)
        return NativeRoute(self, host, spec, on_complete, tenant, decisions)

    def _spec(self, said: RouteOptions) -> RelaySpec:
        """What a native route relays, and how."""
        prefix, name = said.prefix, said.name or said.prefix
        where = self._origin if said.origin is None else place_of(said.origin)
        if said.caching is not None and self._engine is not None:
            self._check(f"the route {name}")
        kept = prefix.removeprefix(self._prefix) if prefix.startswith(self._prefix + "/") else prefix
        inspect, caching = said.inspect or self._inspect, said.caching or self._caching
        check_one(caching, inspect, f"the route {name}")
        headers, add_headers = plain_headers(said.headers, inspect), tuple(said.add_headers)
        if inspect is not None:
            plain_headers(dict(add_headers), inspect)
        return RelaySpec(
            name=name,
            origin=where,
            unix=self._unix,
            prefix=prefix,
            replacement=where.base + (kept if said.rewrite is None else said.rewrite),
            forwarding=self._policy,
            timeouts=said.timeouts or self._limits,
            limits=said.limits or RouteLimits(),
            request=header_edits("headers", headers, add_headers),
            response=header_edits("response_headers", said.response_headers, said.add_response_headers),
            drain=Drain(bytes=said.drain) if isinstance(said.drain, int | str) else said.drain,
            events=said.events or self._events,
            max_event=None,
            caching=caching,
            inspect=inspect,
        )

    @shared
    def stats(self) -> dict[str, InspectionStats]:
        """What inspected responses come to, by route.

        The key of a native route is its name, that of relays the path of the application's route that they were called
        in, such as `/v1/{path}`, or `""` without a pattern. Among worker processes it is what the parent has fetched
        for all of them.
        """
        return {name: counts.stats() for name, counts in self._counts.items()}

    @shared
    async def _count(self, name: str, stats: InspectionStats) -> None:
        """Add what a response came to that a worker has fetched itself."""
        self._counts_of(name).add(stats)

    def _counted(self, name: str, stats: InspectionStats) -> None:
        """Have the parent add it, without waiting for that."""
        task = asyncio.get_running_loop().create_task(self._count(name, stats))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    def _counts_of(self, name: str) -> _native.Counts:
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = _native.Counts(name)
        return counts

    def _seen(self, inspect: Inspection, name: str, *, apart: bool = False) -> Seen:
        if apart and self._parent is not None:
            # The parent has the sums, and what it does not fetch it is told of.
            counts = _native.Counts(name)
            return Seen(handle_of(inspect), counts, int(inspect.max_request), partial(self._counted, name))
        return Seen(handle_of(inspect), self._counts_of(name), int(inspect.max_request))

    def _check(self, who: str) -> None:
        """Have it be seen early that there is no cache: of the engine, or in a worker of its parent."""
        if self._parent is None:
            _checked(self._engine, who)
        elif not self._parent.has_cache:
            raise make_error(
                "BAD_CONFIGURATION", f"{who} has caching, and the parent of this worker process no cache"
            )

    def _has_parent(self, request: web.Request) -> bool:
        """Whether the parent of this worker process relays `request`; not what came by a socket of the application's."""
        if self._plans is None:
            return False
        return request.transport is None or engines(request.transport) is not None

    def _plan(self, spec: RelaySpec) -> bytes:
        """What the parent of this worker process carries out."""
        assert self._plans is not None  # noqa: S101 (there is a parent)
        if spec.caching is not None:
            self._check("a relay")
        return self._plans.describe(spec)

    def _prepared(self, engine: Engine, kind: "_Kind") -> PreparedRelay:
        """What is the same for all relays of a kind."""
        known = self._relays.get((engine, kind))
        if known is None:
            if len(self._relays) >= 1024:  # noqa: PLR2004 (more kinds than that are made anew for each request)
                self._relays.clear()
            known = self._relays[engine, kind] = self._prepare(engine, kind)
        return known

    def _prepare(self, engine: Engine, kind: "_Kind") -> PreparedRelay:
        if kind.caching is not None and not kind.is_planned:
            _checked(engine, "a relay")
        spec = RelaySpec(
            name=kind.name,
            origin=kind.origin,
            unix=self._unix,
            prefix=f"{self._prefix}/",
            replacement=f"{kind.origin.base}/",
            # What stands for the paths of another target is not known.
            forwarding=self._policy if kind.is_mapped else replace(self._policy, map_location=False),
            timeouts=kind.timeouts or self._limits,
            limits=RouteLimits(),
            request=NO_EDITS if kind.headers is None else HeaderEdits(kind.headers, ()),
            response=NO_EDITS,
            drain=None,
            events=kind.events,
            max_event=parse_size(self._framing.max_frame),
            caching=kind.caching,
            inspect=kind.inspect,
        )
        # The parent of a worker process has the cache.
        own = replace(spec, caching=None) if kind.is_planned else spec
        handles = handles_of(own, engine, self._counts_of)
        if kind.events is not None:
            handles = handles._replace(events=self._policy_of(kind.events))
        return PreparedRelay(spec, engine, self._framing, handles)

    def _policy_of(self, events: EventRelay) -> _native.EventPolicy:
        policy = self._policies.get(events)
        if policy is None:
            if len(self._policies) >= 1024:  # noqa: PLR2004 (more policies than that are made anew for each request)
                self._policies.clear()
            policy = event_handles(None, events)[1]
            assert policy is not None  # noqa: S101 (it is of events)
            self._policies[events] = policy
        return policy

    async def _relay_native(
        self,
        request: web.Request,
        route: NativeRoute,
        resource: RelayResource,
        permit: _native.Permit | None,
    ) -> web.StreamResponse:
        """Serve `route`, which is `resource` in this application, where the engine does not."""
        engine = engine_for(request, self._engine)
        if route.spec.caching is not None:
            _checked(engine, "a relay")
        prepared = resource.prepared(engine)
        spec = prepared.spec
        asked_for = request.rel_url.raw_path_qs if permit is None or permit.target is None else permit.target
        target = spec.replacement + asked_for.removeprefix(spec.prefix)
        order = Order(
            prepared,
            lambda: target,
            prepared.forwarding(fills=_fills(request, spec.caching, None)),
            spec.request.set,
            on_complete=route.on_complete,
            tenant=(None if permit is None else permit.tenant) or route.tenant,
            seen=None if spec.inspect is None else self._seen(spec.inspect, spec.name),
            permit=permit,
            received=None if route.decisions is None else route.decisions._forwarded(request),  # noqa: SLF001
        )
        return await relay(request, order)


class _Kind(NamedTuple):
    """What one relay of a gateway may have that another has not."""

    origin: Place | Origins
    timeouts: Timeouts | None
    caching: Caching | None
    events: EventRelay | None
    inspect: Inspection | None
    name: str
    is_mapped: bool
    is_planned: bool
    headers: tuple[tuple[str, str | None], ...] | None = None


def _fills(request: web.Request, caching: Caching | None, overrides: Overrides | None) -> bool:
    """Whether the response to `request` may be stored for other clients, as far as its method goes."""
    if caching is None or (overrides is not None and overrides.bypass):
        return False
    return not offers_websocket(request)


def _check_prefix(prefix: str) -> None:
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise make_error("BAD_CONFIGURATION", f"prefix is {prefix!r}; it must be like '/live'")


def _checked(engine: Engine | None, who: str) -> Engine:
    """`engine`, which has a cache."""
    if engine is None or engine.cache is None:
        raise make_error("BAD_CONFIGURATION", f"{who} has caching, and its engine no cache: {MAKE_CACHE}")
    return engine
