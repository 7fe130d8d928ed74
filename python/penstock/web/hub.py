"""Topics for applications: `penstock.Hub`, which answers requests with the events of its topics."""

from collections.abc import Iterable, Mapping, Sequence

from aiohttp import web

from penstock import _arguments
from penstock.config import Access, RouteLimits, Subscriptions
from penstock.hub import BaseHub, check_topic

from .access import TENANT, note
from .decisions import Authoriser, Decisions, Verifying, decisions_of
from .subscription import Authorise, respond
from .topics import TopicsRoute, topics_route

__all__ = ["Hub"]


class Hub(BaseHub):
    """Topics with a bounded history each, and their subscribers.

    Topics need not be declared: one begins with what is first published to it, or with its first subscriber, and goes
    when it has no subscriber and its history has aged out. Their names have 1 to 512 bytes of UTF-8 and no control
    characters.

    All methods may be called from any thread.

    With a log that other processes share, what any of them publishes comes to the subscribers of all, in one order and
    with the same ids, and who loses one process resumes with another. Such a hub has to be entered (`async with hub`,
    in `app.cleanup_ctx` for instance) before the first publish or subscribe.

    Args:
        engine: in whose pool the history lies; by default the one that the process shares (`penstock.default_engine`).
        history: what is kept of each topic, and of all of them. Processes that share a log should have the same.
        log: where events are kept for other processes; None: in this one alone. With a `KafkaLog` the hub follows what
            is published there, and publishes nothing itself.
        name: by which the process that takes this one's place in an upgrade finds its own hub, which goes on with the
            topics of this one. Hubs of one process that have no log need names of their own.

    Raises:
        StateError: the engine is closed.
        ConfigurationError: the log cannot be used: what it needs is not installed, or its URL is not valid.
    """

    async def stream(
        self,
        request: web.Request,
        topic: str,
        *,
        tenant: str | None = None,
        authorise: Authorise | None = None,
        subscriptions: Subscriptions | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> web.StreamResponse:
        """Answer `request` with a topic's events, from a handler that decides who may.

        What the client had before is in the request's `Last-Event-ID`, or in its query as `lastEventId`. On a
        `penstock.web.Site` the engine sends the events from here on, and the handler is done.

        Args:
            request: nothing may have been sent back yet.
            topic: the topic's name.
            tenant: for whom it is, for `Subscriptions.per_tenant`, logs and middlewares (`penstock.web.TENANT`).
            authorise: asked once, with the request and the topic. True: it may go on for as long as it likes. A number:
                for so many seconds, after which it is asked again; a hook that has not answered 10 s later, or that
                fails, has refused. False is answered with 403, later it ends the response behind a whole event.
            subscriptions: how it is served.
            headers: fields to send in place of those of the same names; None drops them.

        Returns:
            The response, or the answer to what could not be: 403, 404, 429, 503.

        Raises:
            PenstockError: the failure after the head. The client has been cut off.
            CancelledError: the client left.
        """
        check_topic(topic)
        _arguments.text("tenant", tenant)
        _arguments.call("authorise", authorise, "a function that takes the request and the topic")
        if headers is not None:
            headers = dict(_arguments.pairs("headers", headers, drops=True))
        if tenant is not None:
            request[TENANT] = tenant
            note(request, tenant=tenant)
        return await respond(
            self,
            request,
            topic,
            tenant=tenant,
            authorise=authorise,
            subscriptions=self._terms(subscriptions),
            headers=headers,
        )

    def native(
        self,
        prefix: str,
        *,
        host: str | None = None,
        subscriptions: Subscriptions | None = None,
        limits: RouteLimits | None = None,
        response_headers: Mapping[str, str | None] | None = None,
        add_response_headers: Iterable[tuple[str, str]] = (),
        authorise: Authoriser | Verifying | Decisions | None = None,
        decision_key: str | Sequence[str] | None = None,
        lifetime: float | None = None,
        access: Access | None = None,
        name: str | None = None,
    ) -> TopicsRoute:
        """Declare a route by which the engine lets clients subscribe, without waking Python.

        Give it to the application: `app.add_routes([hub.native("/events/")])`. A GET of `/events/<topic>` is answered
        with text/event-stream; what follows the prefix is the topic's name, percent-decoded. What the client had before
        is in its `Last-Event-ID`, or in the query as `lastEventId`; the response's `Penstock-Resume` is then `full`, or
        `gap` where an event `penstock-gap` comes first. Requests by other methods than GET and HEAD are the
        application's.

        Args:
            prefix: how the path of a request begins, percent-encoded as on the wire; from slash to slash.
            host: the host that must be asked for, without a port; any by default.
            subscriptions: how subscribers are served.
            limits: how much the route serves at most.
            response_headers: fields to send in place of those of the same names; None drops them. CORS is said here.
            add_response_headers: fields to send besides those of the same names.
            authorise: who may subscribe, as for `Gateway.native`. It is asked again when its answer has run out; one
                that is not let in then has its response end behind a whole event. The tenant counts for
                `Subscriptions.per_tenant`.
            decision_key: as for `Gateway.native`.
            lifetime: as for `Gateway.native`.
            access: as for `Gateway.native`.
            name: what the route is called in logs; its prefix by default.

        Raises:
            ConfigurationError: one of these cannot be.
        """
        for one, value in (("prefix", prefix), ("host", host), ("name", name)):
            _arguments.text(one, value, optional=one != "prefix")
        _arguments.ROUTE_LIMITS("limits", limits)
        if response_headers is not None:
            response_headers = dict(_arguments.pairs("response_headers", response_headers, drops=True))
        add_response_headers = _arguments.pairs("add_response_headers", add_response_headers)
        _arguments.number("lifetime", lifetime, "seconds")
        _arguments.ACCESS("access", access)
        return topics_route(
            self,
            prefix,
            host=host,
            subscriptions=self._terms(subscriptions),
            limits=limits or RouteLimits(),
            headers=response_headers,
            add_headers=add_response_headers,
            name=name or prefix,
            decisions=decisions_of(authorise, decision_key, lifetime, access),
        )
