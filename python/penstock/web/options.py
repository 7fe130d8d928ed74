"""What a handler says of one relay of a gateway, and an application of one native route, checked as arguments are."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from penstock import _arguments
from penstock.config import (
    Caching,
    Drain,
    EventRelay,
    Inspection,
    Overrides,
    RouteLimits,
    Subscriptions,
    Timeouts,
    parse_size,
)
from penstock.exceptions import ConfigurationError, make_error
from penstock.origins import Origins
from penstock.serving.relay_spec import Headers

from .handover import OnComplete
from .hub import Hub
from .inspection import check_one, plain_headers

__all__ = ["RelayOptions", "RouteOptions", "check_size"]


class RelayOptions(NamedTuple):
    """Arguments of `Gateway.relay`."""

    path: str | None
    origin: str | Origins | None
    headers: Headers | None
    timeouts: Timeouts | None
    caching: Caching | None
    overrides: Overrides | None
    events: EventRelay | None
    inspect: Inspection | None
    tenant: str | None
    on_complete: OnComplete | None
    topic: str | None
    hub: Hub | None
    subscriptions: Subscriptions | None

    def checked(self) -> Self:
        """These, if each is what it has to be.

        Raises:
            ConfigurationError: one is not.
        """
        _arguments.text("path", self.path, "'/a?b=c'")
        _arguments.TIMEOUTS("timeouts", self.timeouts)
        _arguments.text("tenant", self.tenant)
        _arguments.call("on_complete", self.on_complete, "a function that takes a RelayEnd")
        _arguments.CACHING("caching", self.caching)
        _arguments.OVERRIDES("overrides", self.overrides)
        _arguments.EVENTS("events", self.events)
        _arguments.INSPECTION("inspect", self.inspect)
        _arguments.text("topic", self.topic)
        _arguments.instance("hub", self.hub, Hub, "a penstock.Hub, or None")
        _arguments.SUBSCRIPTIONS("subscriptions", self.subscriptions)
        if self.headers is None:
            return self
        return self._replace(headers=dict(_arguments.pairs("headers", self.headers, drops=True)))

    def completed(
        self, caching: Caching | None, events: EventRelay | None, inspect: Inspection | None
    ) -> Self:
        """These, with the gateway's in place of what is not given.

        Raises:
            ConfigurationError: they cannot be together.
        """
        caching, inspect = self.caching or caching, self.inspect or inspect
        check_one(caching, inspect, "a relay")
        headers = plain_headers(self.headers, inspect)
        if self.overrides is not None and caching is None:
            raise make_error("BAD_CONFIGURATION", "there are overrides of a caching, and there is no caching")
        return self._replace(caching=caching, events=self.events or events, inspect=inspect, headers=headers)

    @property
    def is_seen_feed(self) -> bool:
        """Whether it feeds a topic and is seen."""
        return self.topic is not None and (self.inspect is not None or self.on_complete is not None)


class RouteOptions(NamedTuple):
    """Arguments of `Gateway.native` that say what is relayed, and how."""

    prefix: str
    host: str | None
    origin: str | Origins | None
    rewrite: str | None
    headers: Headers | None
    add_headers: Iterable[tuple[str, str]]
    response_headers: Headers | None
    add_response_headers: Iterable[tuple[str, str]]
    timeouts: Timeouts | None
    limits: RouteLimits | None
    drain: Drain | int | str | None
    events: EventRelay | None
    caching: Caching | None
    inspect: Inspection | None
    tenant: str | None
    name: str | None

    def checked(self) -> Self:
        """These, if each is what it has to be.

        Raises:
            ConfigurationError: one is not.
        """
        for name in ("prefix", "host", "rewrite", "tenant", "name"):
            _arguments.text(name, getattr(self, name), optional=name != "prefix")
        _arguments.TIMEOUTS("timeouts", self.timeouts)
        _arguments.ROUTE_LIMITS("limits", self.limits)
        drain, headers, response_headers = self.drain, self.headers, self.response_headers
        if drain is not None and (isinstance(drain, bool) or not isinstance(drain, Drain | int | str)):
            raise _arguments.bad("drain", drain, "a size, such as '1MiB', a penstock.config.Drain or None")
        if isinstance(drain, int | str):
            check_size("drain", drain)
        _arguments.EVENTS("events", self.events)
        _arguments.CACHING("caching", self.caching)
        _arguments.INSPECTION("inspect", self.inspect)
        if headers is not None:
            headers = dict(_arguments.pairs("headers", headers, drops=True))
        if response_headers is not None:
            response_headers = dict(_arguments.pairs("response_headers", response_headers, drops=True))
        return self._replace(
            headers=headers,
            add_headers=_arguments.pairs("add_headers", self.add_headers),
            response_headers=response_headers,
            add_response_headers=_arguments.pairs("add_response_headers", self.add_response_headers),
        )


def check_size(name: str, value: int | str) -> None:
    """Check a number of bytes, as a text or a number.

    Raises:
        ConfigurationError: it is something else.
    """
    try:
        parse_size(value)
    except ConfigurationError as error:
        raise make_error("BAD_CONFIGURATION", f"{name}: {error.detail}") from None
