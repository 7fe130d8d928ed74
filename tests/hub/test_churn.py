"""Subscribers that come and go at random while events are published: each event once, in order, or an announced gap.

Four seconds with a hundred of them; `make events-churn` is two minutes with two thousand.
"""

import asyncio
import os
import random
from dataclasses import replace
from typing import Final, Literal

import pytest

from penstock import Hub
from penstock.config import Subscriptions
from support.edges import DEFAULT, Served
from support.subscribers import Topics

from .followers import Follower, Habits, Journal

_SECONDS = float(os.environ.get("PENSTOCK_CHURN_SECONDS", "4"))
_FOLLOWERS = int(os.environ.get("PENSTOCK_CHURN_FOLLOWERS", "100"))
# As many deliveries as one core can check in Python; on a slower machine it only takes longer.
_PER_SECOND = max(5.0, 10_000 / _FOLLOWERS)
# What a moment's absence does not lose, and a long one does.
_HISTORY = 100
_AWAY = 2 * _HISTORY
_EVENTS = max(2 * _AWAY, round(_SECONDS * _PER_SECOND))
_MEAN_BYTES = 50_000.0
# One in a hundred stops reading, and one in twenty stays away.
_STALLED, _ABSENT = 100, 20
_UNLIMITED = 10 * _SECONDS + 600
_POLICIES: Final[tuple[Literal["disconnect", "drop-oldest"], ...]] = ("disconnect", "drop-oldest")


def _habits(number: int) -> Habits:
    stall = _EVENTS if number % _STALLED == 1 else 0
    return Habits(_MEAN_BYTES, away=_AWAY if number % _ABSENT == 0 else 0, stall=stall)


async def _publish(hub: Hub, journal: Journal, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in range(_EVENTS):
        data = f"{number} " + "x" * source.randrange(2000)
        # No subscriber reads it before this task waits: it is in the journal by then.
        journal.add(await hub.publish("news", data), data)
        due += 1 / _PER_SECOND
        await asyncio.sleep(due - loop.time())
    journal.end()
    await hub.finish("news")


@pytest.mark.timeout(3 * _EVENTS / _PER_SECOND + 120)
async def test_a_subscriber_that_reconnects_gets_each_event_once_in_order_or_a_gap_event(
    topics: Topics,
) -> None:
    hub = topics.hub(events=_HISTORY)
    # Who reads nothing is left to the policy of the slow, not to the limit on writes.
    edge = replace(DEFAULT, write_timeout=_UNLIMITED)
    by_policy: list[Served] = [
        await topics.edge.serve(
            [hub.native("/events/", subscriptions=Subscriptions(join="start", slow=slow))], edge=edge
        )
        for slow in _POLICIES
    ]
    journal = Journal()
    source = random.Random(0)
    followers = [
        Follower(
            by_policy[number // 2 % 2].port, "/events/news", journal, _habits(number), random.Random(number)
        )
        for number in range(_FOLLOWERS)
    ]
    try:
        for follower in followers:
            follower.connect()
        await _publish(hub, journal, source)
        # The first that is wrong fails the test, before the others time out.
        await asyncio.gather(*(follower.ended for follower in followers))
    finally:
        for follower in followers:
            follower.stop()
    counts = hub.stats().counts
    assert counts.events == _EVENTS
    assert counts.gaps >= sum(follower.gaps for follower in followers)
    # Each kind of what was to be shown has happened.
    assert sum(follower.left for follower in followers) > _FOLLOWERS
    assert all(follower.stalls for follower in followers if follower.habits.stall)
    assert all(follower.missed for follower in followers if follower.habits.away)
    assert counts.resumed > _FOLLOWERS
    assert counts.slow + counts.dropped > 0
