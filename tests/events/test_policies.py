"""What can be said of event streams, and what cannot."""

from typing import Any

import pytest

import penstock
from penstock.config import Drain, Edge, EventRelay
from penstock.web import Gateway
from penstock.web.native import NativeRoute


def test_what_is_not_said_is_as_documented() -> None:
    policy = EventRelay()
    assert (policy.heartbeat, policy.idle, policy.unbuffered, policy.error_event, policy.drain) == (
        15.0,
        None,
        True,
        "error",
        None,
    )
    assert Drain().bytes == 16 << 20
    assert Edge().event_backlog == 64 << 10
    assert Gateway("http://o").native("/").spec.events is None


WRONG: dict[str, tuple[type, dict[str, Any]]] = {
    "no heartbeat at all": (EventRelay, {"heartbeat": 0}),
    "a negative limit": (EventRelay, {"idle": -1}),
    "two lines": (EventRelay, {"error_event": "a\nb"}),
    "no name": (EventRelay, {"error_event": ""}),
    "a number": (EventRelay, {"error_event": 7}),
    "no flag": (EventRelay, {"unbuffered": "no"}),
    "no drain": (EventRelay, {"drain": "1MiB"}),
    "no size": (Drain, {"bytes": "much"}),
    "no time": (Drain, {"seconds": 0}),
    "no client": (Drain, {"concurrency": 0}),
    "no backlog": (Edge, {"event_backlog": 0}),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused(what: str) -> None:
    kind, settings = WRONG[what]
    with pytest.raises(penstock.ConfigurationError, match=next(iter(settings))):
        kind(**settings)


def test_a_size_is_short_for_a_drain() -> None:
    gateway = Gateway("http://o")
    assert gateway.native("/", drain="1MiB").spec.drain == Drain(bytes="1MiB")
    assert gateway.native("/", drain=5).spec.drain == Drain(bytes=5)
    assert gateway.native("/", drain=Drain(seconds=1)).spec.drain == Drain(seconds=1)
    assert gateway.native("/").spec.drain is None


def test_a_route_has_the_policy_of_its_gateway_unless_it_has_its_own() -> None:
    gateway = Gateway("http://o", events=EventRelay(idle=5))

    def events(route: NativeRoute) -> EventRelay | None:
        return route.spec.events

    assert events(gateway.native("/")) == EventRelay(idle=5)
    assert events(gateway.native("/", events=EventRelay())) == EventRelay()
